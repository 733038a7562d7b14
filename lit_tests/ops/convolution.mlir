// A convolution is a sum of products, one for each place of its window, of rows that are views.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @convolution(
// CHECK-SAME: %[[X:.+]]: tensor<1x5x64xf32>, %[[W:.+]]: tensor<2x64x8xf32>)
// CHECK: %[[ROWS:.+]] = "blu.reshape"(%[[X]]) {shape = array<i64: 5, 64>}
// CHECK: %[[FIRST:.+]] = "blu.slice"(%[[ROWS]]) {limits = array<i64: 4, 64>, starts = array<i64: 0, 0>
// CHECK: %[[TERM:.+]] = "blu.matmul"(%[[FIRST]], %{{.+}}) {precision = "highest"}
// CHECK: %[[SECOND:.+]] = "blu.slice"(%[[ROWS]]) {limits = array<i64: 5, 64>, starts = array<i64: 1, 0>
// CHECK: %[[TERM_1:.+]] = "blu.matmul"(%[[SECOND]], %{{.+}}) {precision = "highest"}
// CHECK: "blu.add"(%[[TERM]], %[[TERM_1]])
func.func @convolution(%x: tensor<1x5x64xf32>, %w: tensor<2x64x8xf32>) -> tensor<1x4x8xf32> {
  %0 = "blu.convolution"(%x, %w) {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>, spread = array<i64: 1>, groups = 1 : i64, precision = "highest"} : (tensor<1x5x64xf32>, tensor<2x64x8xf32>) -> tensor<1x4x8xf32>
  return %0 : tensor<1x4x8xf32>
}

// -----

// A window of one place is a matrix product.
// CHECK-LABEL: func.func @pointwise(
// CHECK-NOT: blu.slice
// CHECK: "blu.matmul"
// CHECK-NOT: blu.slice
func.func @pointwise(%x: tensor<2x5x64xf32>, %w: tensor<1x64x8xf32>) -> tensor<2x5x8xf32> {
  %0 = "blu.convolution"(%x, %w) {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>, spread = array<i64: 1>, groups = 1 : i64, precision = "highest"} : (tensor<2x5x64xf32>, tensor<1x64x8xf32>) -> tensor<2x5x8xf32>
  return %0 : tensor<2x5x8xf32>
}
