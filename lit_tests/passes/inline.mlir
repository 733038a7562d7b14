// Calls of private functions become their bodies, with the lines that those come from; the functions go, called or not.
// RUN: %blu-opt %s --blu-inline --mlir-print-debuginfo --mlir-print-local-scope | %filecheck %s

// CHECK-NOT: func.func private
// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32> {{.+}}, %[[Y:.+]]: tensor<4xf32> {{.+}})
// CHECK-NEXT: %[[XX:.+]] = "blu.multiply"(%[[X]], %[[X]]) {{.*}}loc("square"("model.py":3:1))
// CHECK-NEXT: %[[YY:.+]] = "blu.multiply"(%[[Y]], %[[Y]]) {{.*}}loc("square"("model.py":3:1))
// CHECK-NEXT: %[[D:.+]] = "blu.subtract"(%[[YY]], %[[XX]])
// CHECK-NEXT: return %[[D]]
// CHECK-NOT: func.func private
func.func private @square(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.multiply"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("square"("model.py":3:1))
  return %0 : tensor<4xf32>
}
// Its results change places: each goes where the call's result went.
func.func private @both(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = call @square(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = call @square(%y) : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %0 : tensor<4xf32>, tensor<4xf32>
}
func.func private @never_called(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0:2 = call @both(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %1 = "blu.subtract"(%0#0, %0#1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
