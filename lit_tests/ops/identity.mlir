// A barrier stays, until bufferization gives it its operand's memory.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @barrier(
// CHECK: "blu.barrier"(
func.func @barrier(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.barrier"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Without a reason.
// CHECK-LABEL: func.func @refused_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]] : tensor<2x3xf32>
func.func @refused_gradient(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.refused_gradient"(%x) {reason = ""} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// Gradients are there already when programs are lowered.
// CHECK-LABEL: func.func @stop_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<2x3xf32>)
// CHECK-NEXT: return %[[X]] : tensor<2x3xf32>
func.func @stop_gradient(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.stop_gradient"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
