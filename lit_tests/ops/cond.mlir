// Both bodies are written out, and the results of one are taken.
// RUN: %blu-opt %s --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[P:.+]]: tensor<i1>, %[[X:.+]]: tensor<4xf32>)
// CHECK: %[[ONE:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4xf32>)
// CHECK: math.exp
// CHECK: %[[OTHER:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4xf32>)
// CHECK: math.sin
// CHECK: %[[CHOSEN:.+]] = linalg.generic {{.*}} ins(%[[P]], %[[ONE]], %[[OTHER]] : tensor<i1>, tensor<4xf32>, tensor<4xf32>)
// CHECK: arith.select
// CHECK: return %[[CHOSEN]]
#takes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#one = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @main(%p: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.cond"(%p, %x) ({
  ^bb0(%a: tensor<4xf32>):
    %1 = "blu.exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "blu.yield"(%1) {operandSegmentSizes = #one} : (tensor<4xf32>) -> ()
  }, {
  ^bb0(%a: tensor<4xf32>):
    %1 = "blu.sin"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "blu.yield"(%1) {operandSegmentSizes = #one} : (tensor<4xf32>) -> ()
  }) {operandSegmentSizes = #takes, resultSegmentSizes = #one} : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
