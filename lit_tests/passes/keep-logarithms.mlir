// Attention leaves its logarithms of sums where its gradient is computed by warpgroups.
// RUN: %blu-opt %s --blu-keep-logarithms | %filecheck %s

// CHECK-LABEL: func.func @whole(
// CHECK: %[[PIECE:.+]]:2 = "blu.attention_piece"(
// CHECK: "blu.attention_gradient"({{.*}}, %[[PIECE]]#1)
module attributes {blu.target = {name = "sm_90a"}} {
func.func @whole(%g: tensor<64x2048x64xbf16>, %q: tensor<64x2048x64xbf16>, %k: tensor<64x2048x64xbf16>, %v: tensor<64x2048x64xbf16>) -> (tensor<64x2048x64xf32>, tensor<64x2048x64xf32>, tensor<64x2048x64xf32>) {
  %0 = "blu.attention"(%q, %k, %v) {causal = true, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<64x2048x64xbf16>, tensor<64x2048x64xbf16>, tensor<64x2048x64xbf16>) -> tensor<64x2048x64xbf16>
  %1:3 = "blu.attention_gradient"(%g, %q, %k, %v, %0) {causal = true, narrow = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<64x2048x64xbf16>, tensor<64x2048x64xbf16>, tensor<64x2048x64xbf16>, tensor<64x2048x64xbf16>, tensor<64x2048x64xbf16>) -> (tensor<64x2048x64xf32>, tensor<64x2048x64xf32>, tensor<64x2048x64xf32>)
  return %1#0, %1#1, %1#2 : tensor<64x2048x64xf32>, tensor<64x2048x64xf32>, tensor<64x2048x64xf32>
}
}
