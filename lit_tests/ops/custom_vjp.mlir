// The function is written out, but for the gradient: that is the user's rule.
// RUN: %blu-opt %s --blu-differentiate --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func private @twice(
// CHECK-NEXT: %[[Y:.+]] = "blu.add"(%[[X:.+]], %[[X]])
// CHECK-NEXT: return %[[Y]]
// CHECK-LABEL: func.func private @twice_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<f32>)
// CHECK: %[[Y:.+]] = "blu.add"(%[[X]], %[[X]])
// CHECK: %[[ONE:.+]] = "blu.constant"
// CHECK: %[[G:.+]] = "blu.multiply"(%[[ONE]], %[[X]])
// CHECK: return %[[Y]], %[[G]]
#takes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#one = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#two = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
  %y = "blu.custom_vjp"(%x) ({
  ^bb0(%a: tensor<f32>):
    %1 = "blu.add"(%a, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "blu.yield"(%1) {operandSegmentSizes = #one} : (tensor<f32>) -> ()
  }, {
  ^bb0(%a: tensor<f32>):
    %1 = "blu.add"(%a, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "blu.yield"(%1, %a) {operandSegmentSizes = #two} : (tensor<f32>, tensor<f32>) -> ()
  }, {
  ^bb0(%a: tensor<f32>, %g: tensor<f32>):
    %1 = "blu.multiply"(%g, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "blu.yield"(%1) {operandSegmentSizes = #one} : (tensor<f32>) -> ()
  }) {operandSegmentSizes = #takes, resultSegmentSizes = #one, saved = -1 : i64} : (tensor<f32>) -> tensor<f32>
  return %y : tensor<f32>
}
func.func private @twice_gradient(tensor<f32>) -> (tensor<f32>, tensor<f32>)
    attributes {blu.gradient_of = @twice, blu.with_respect_to = array<i64: 0>}
func.func @main(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  %0:2 = call @twice_gradient(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#0, %0#1 : tensor<f32>, tensor<f32>
}
