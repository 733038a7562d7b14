// Of several products of tf32, a matrix that is a factor of all is turned around once; what is seen as it lies is not.
// RUN: %blu-opt %s --blu-choose-schedules --blu-copy-factors | %filecheck %s

module attributes {blu.target = {name = "sm_90a"}} {
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[X:.+]]: tensor<8192x256xf32>, %[[G:.+]]: tensor<8158x256xf32>)
  // CHECK: %[[SEEN:.+]] = "blu.row_windows"(%[[X]])
  // CHECK: linalg.transpose ins(%[[G]] : tensor<8158x256xf32>)
  // CHECK: tensor.insert_slice
  // CHECK: %[[TURNED:.+]] = linalg.transpose
  // CHECK: call @gemm_0(%[[SEEN]], %[[TURNED]])
  func.func @main(%x: tensor<8192x256xf32>, %g: tensor<8158x256xf32>) -> tensor<3x256x256xf32> {
    %0 = "blu.row_windows"(%x) {sizes = array<i64: 8158, 3>, steps = array<i64: 1, 16>, start = 0 : i64} : (tensor<8192x256xf32>) -> tensor<8158x3x256xf32>
    %1 = call @gemm_0(%0, %g) : (tensor<8158x3x256xf32>, tensor<8158x256xf32>) -> tensor<3x256x256xf32>
    return %1 : tensor<3x256x256xf32>
  }
  // CHECK-LABEL: func.func private @gemm_0(
  // CHECK-SAME: copied = "right"
  func.func private @gemm_0(%x: tensor<8158x3x256xf32>, %g: tensor<8158x256xf32>) -> tensor<3x256x256xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<3x256x256xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<3x256x256xf32>) -> tensor<3x256x256xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(a, c, f, m) -> (m, a, c)>, affine_map<(a, c, f, m) -> (m, f)>, affine_map<(a, c, f, m) -> (a, c, f)>] {blu.precision = "tf32"} ins(%x, %g : tensor<8158x3x256xf32>, tensor<8158x256xf32>) outs(%1 : tensor<3x256x256xf32>) -> tensor<3x256x256xf32>
    return %2 : tensor<3x256x256xf32>
  }
}
