// Level linalg: @main calls kernels and holds views, and kernels are loops on tensors, in the order of their calls. The
// same ones on all targets: what each makes of them comes later.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --compile-to=linalg | %filecheck %s --check-prefixes=CHECK,CPU
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_80 --compile-to=linalg | %filecheck %s --check-prefixes=CHECK,SM80
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --compile-to=linalg | %filecheck %s --check-prefixes=CHECK,SM90

// CHECK: blu.level = "linalg"
// CHECK-LABEL: func.func @main(
// CHECK: {blu.donated, blu.name = "total"}) -> tensor<1024x1536xf32> attributes {blu.inputs = [tensor<1024xi32>, {{.*}}], blu.results = [tensor<1024x1536xf32>]}

// Indices are looked at by a small reduction, whose result is checked after the run.
// CHECK: %embed.maxui = call @rows_0(%tokens) : (tensor<1024xi32>) -> tensor<i64>
// CHECK-NEXT: "plan.check"(%embed.maxui) {kind = "index", op = "take", size = 100 : i64}
// CHECK-NEXT: %embed.extract = call @rows_1(%tokens, %embed.weight)
// CHECK: %up.transpose = linalg.transpose
// CHECK-NEXT: ins(%up.weight
// CHECK: %up.truncf = call @gemm_0(%embed.extract, %up.transpose, %up.bias)
// CHECK: %[[RESULT:.+]] = call @rows_2(%up.truncf, %total)
// CHECK-NEXT: return %[[RESULT]]

// CHECK: func.func private @rows_0(
// CHECK-SAME: attributes {blu.kernel = "rows"}
// CHECK: iterator_types = ["reduction"]
// CHECK: arith.maxui
// CHECK: func.func private @rows_1(
// CHECK: tensor.extract %embed.weight[

// The product, its bias and its activation are one kernel, in the precision that was asked for.
// CHECK: func.func private @gemm_0(
// CHECK: attributes {blu.kernel = "gemm"}
// CHECK: linalg.contract {{.*}}{blu.precision = "highest"}
// CHECK-NEXT: ins(%embed.extract, %up.transpose : tensor<1024x64xbf16>, tensor<64x1536xbf16>)
// CHECK-NEXT: outs(%{{.+}} : tensor<1024x1536xf32>)
// CHECK: ins(%{{.+}}, %up.bias :
// CHECK: math.exp
// CHECK: return

// The softmax and what is added to it are one more.
// CHECK: func.func private @rows_2(
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: arith.maximumf
// CHECK: math.exp
// CHECK: iterator_types = ["parallel", "reduction"]
// CHECK: ins(%total, %{{.+}} : tensor<1024x1536xf32>, tensor<1024x1536xbf16>)
// CHECK-NOT: func.func
