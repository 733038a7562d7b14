// Level blu: one function on tensors. Composite ops are written in simpler ones, and nothing depends on the target yet
// but its name.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --compile-to=blu | %filecheck %s --check-prefixes=CHECK,CPU
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_80 --compile-to=blu | %filecheck %s --check-prefixes=CHECK,SM80
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --compile-to=blu | %filecheck %s --check-prefixes=CHECK,SM90

// CHECK: blu.level = "blu"
// CPU: blu.target = {name = "x86-64-v3"}
// SM80: blu.target = {name = "sm_80"}
// SM90: blu.target = {name = "sm_90a"}
// CHECK-LABEL: func.func @main(
// CHECK-NEXT: %tokens: tensor<1024xi32> {blu.name = "tokens"},
// CHECK: %total: tensor<1024x1536xf32> {blu.donated, blu.name = "total"}) -> tensor<1024x1536xf32> {
// CHECK-NEXT: %embed.take = "blu.take"(%embed.weight, %tokens) {axis = 0 : i64}
// CHECK: %up.transpose = "blu.transpose"(%up.weight)
// CHECK-NEXT: %up.matmul = "blu.matmul"(%embed.take, %up.transpose) {precision = "highest"} : (tensor<1024x64xbf16>, tensor<64x1536xbf16>) -> tensor<1024x1536xbf16>
// CHECK-NEXT: %up.add = "blu.add"(%up.matmul, %up.bias)
// CHECK-NOT: blu.gelu
// CHECK: "blu.sigmoid"
// CHECK-NOT: blu.softmax
// CHECK: %max = "blu.max"
// CHECK: %exp = "blu.exp"
// CHECK: %sum = "blu.sum"(%exp)
// CHECK: %[[RESULT:.+]] = "blu.add"(%total,
// CHECK-NEXT: return %[[RESULT]]
// CHECK-NOT: func.func
