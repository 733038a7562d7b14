// A convolution is one product over the places of its window and the channels, of rows that are views.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @convolution(
// CHECK-SAME: %[[X:.+]]: tensor<1x5x64xf32>, %[[W:.+]]: tensor<2x64x8xf32>)
// CHECK: %[[ROWS:.+]] = "blu.reshape"(%[[X]]) {shape = array<i64: 5, 64>}
// CHECK: %[[SEEN:.+]] = "blu.row_windows"(%[[ROWS]]) {sizes = array<i64: 4, 2>, start = 0 : i64, steps = array<i64: 1, 1>}
// CHECK: "blu.contract"(%[[SEEN]], %{{.+}}) {equation = "mAB,ABf->mf", precision = "highest"}
// CHECK-NOT: "blu.add"
func.func @convolution(%x: tensor<1x5x64xf32>, %w: tensor<2x64x8xf32>) -> tensor<1x4x8xf32> {
  %0 = "blu.convolution"(%x, %w) {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>, spread = array<i64: 1>, groups = 1 : i64, precision = "highest"} : (tensor<1x5x64xf32>, tensor<2x64x8xf32>) -> tensor<1x4x8xf32>
  return %0 : tensor<1x4x8xf32>
}

// -----

// A window of one place is a matrix product.
// CHECK-LABEL: func.func @pointwise(
// CHECK-NOT: blu.row_windows
// CHECK: "blu.matmul"
// CHECK-NOT: blu.row_windows
func.func @pointwise(%x: tensor<2x5x64xf32>, %w: tensor<1x64x8xf32>) -> tensor<2x5x8xf32> {
  %0 = "blu.convolution"(%x, %w) {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>, spread = array<i64: 1>, groups = 1 : i64, precision = "highest"} : (tensor<2x5x64xf32>, tensor<1x64x8xf32>) -> tensor<2x5x8xf32>
  return %0 : tensor<2x5x8xf32>
}

// -----

// Of few channels, places side by side are taken together: neighbours along k. The results' rows are taken as a view.
// CHECK-LABEL: func.func @few_channels(
// CHECK: %[[SEEN:.+]] = "blu.row_windows"(%{{.+}}) {sizes = array<i64: 13, 2, 3>, start = 0 : i64, steps = array<i64: 1, 5, 1>}
// CHECK: %[[TOGETHER:.+]] = "blu.reshape"(%[[SEEN]]) {shape = array<i64: 13, 2, 24>}
// CHECK: %[[SUMS:.+]] = "blu.contract"(%[[TOGETHER]], %{{.+}}) {equation = "mAB,ABf->mf"
// CHECK: "blu.row_windows"(%[[SUMS]]) {sizes = array<i64: 1, 3, 3>, start = 0 : i64, steps = array<i64: 20, 5, 1>}
func.func @few_channels(%x: tensor<1x4x5x8xf32>, %w: tensor<2x3x8x4xf32>) -> tensor<1x3x3x4xf32> {
  %0 = "blu.convolution"(%x, %w) {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilation = array<i64: 1, 1>, spread = array<i64: 1, 1>, groups = 1 : i64, precision = "highest"} : (tensor<1x4x5x8xf32>, tensor<2x3x8x4xf32>) -> tensor<1x3x3x4xf32>
  return %0 : tensor<1x3x3x4xf32>
}

// -----

// Elements of blocks as large as the strides are taken for channels: one product, not one for each phase. Windows of 3
// places are filled up to 4, the channels to 4, so that rows of blocks begin where copies are fast.
// CHECK-LABEL: func.func @strided(
// CHECK: "blu.pad"(%{{.+}}) {high = array<i64: 0, 0, 1>, low = array<i64: 0, 1, 0>}
// CHECK: "blu.reshape"(%{{.+}}) {shape = array<i64: 2, 5, 2, 4>}
// CHECK: %[[BLOCKS:.+]] = "blu.reshape"(%{{.+}}) {shape = array<i64: 10, 8>}
// CHECK: %[[SEEN:.+]] = "blu.row_windows"(%[[BLOCKS]]) {sizes = array<i64: 9, 2>, start = 0 : i64, steps = array<i64: 1, 1>}
// CHECK: "blu.matmul"
// CHECK-NOT: "blu.matmul"
func.func @strided(%x: tensor<2x9x3xbf16>, %w: tensor<3x3x8xbf16>) -> tensor<2x4x8xbf16> {
  %0 = "blu.convolution"(%x, %w) {strides = array<i64: 2>, low = array<i64: 1>, high = array<i64: 0>, dilation = array<i64: 1>, spread = array<i64: 1>, groups = 1 : i64, precision = "highest"} : (tensor<2x9x3xbf16>, tensor<3x3x8xbf16>) -> tensor<2x4x8xbf16>
  return %0 : tensor<2x4x8xbf16>
}
