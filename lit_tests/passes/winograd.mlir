// Windows of 3 x 3, and the gradient of their weight, by tiles of 2 x 2 results.
// RUN: %blu-opt %s --blu-winograd=least-width=1 | %filecheck %s
// RUN: %blu-opt %s --blu-winograd | %filecheck %s --check-prefix=NARROW
// RUN: %blu-opt %s --blu-winograd='least-width=1 most-bytes=1024' | %filecheck %s --check-prefix=SMALL

// Two images of 4 x 6 windows: tiles are 2 x 3, of which each phase has a line and a column more.
// CHECK-LABEL: func.func @results
// CHECK: "blu.row_windows"(%arg0) {sizes = array<i64: 2, 3, 4>, start = 2 : i64, steps = array<i64: 48, 16, 2>} : (tensor<98x5xf32>) -> tensor<2x3x4x5xf32>
// CHECK: "blu.row_windows"(%arg0) {sizes = array<i64: 2, 3, 4>, start = 11 : i64
// CHECK: "blu.slice"(%{{.*}}) {limits = array<i64: 24, 5>, starts = array<i64: 5, 0>
// CHECK-COUNT-16: "blu.contract"(%{{.*}}, %{{.*}}) {equation = "abcC,Cf->abcf", precision = "highest"} : (tensor<2x2x3x5xf32>, tensor<5x6xf32>) -> tensor<2x2x3x6xf32>
// CHECK-NOT: "blu.contract"
// CHECK: "blu.concatenate"
// CHECK: return %{{.*}} : tensor<2x4x6x6xf32>
// NARROW-LABEL: func.func @results
// NARROW: equation = "abcABC,ABCf->abcf"
// SMALL-LABEL: func.func @results
// SMALL: equation = "abcABC,ABCf->abcf"
func.func @results(%x: tensor<98x5xf32>, %w: tensor<3x3x5x6xf32>) -> tensor<2x4x6x6xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 2, 4, 6, 3, 3>, steps = array<i64: 48, 8, 1, 8, 1>, start = 2 : i64} : (tensor<98x5xf32>) -> tensor<2x4x6x3x3x5xf32>
  %1 = "blu.contract"(%0, %w) {equation = "abcABC,ABCf->abcf", precision = "highest"} : (tensor<2x4x6x3x3x5xf32>, tensor<3x3x5x6xf32>) -> tensor<2x4x6x6xf32>
  return %1 : tensor<2x4x6x6xf32>
}

// What tiles see is not shared with the convolution.
// CHECK-LABEL: func.func @gradient
// CHECK: %[[OWN:.*]] = "blu.barrier"(%arg0)
// CHECK: "blu.row_windows"(%[[OWN]])
// CHECK: "blu.slice"(%arg1) {{.*}} strides = array<i64: 1, 2, 2, 1>
// CHECK-COUNT-16: "blu.contract"(%{{.*}}, %{{.*}}) {equation = "abcC,abcf->Cf", precision = "highest"} : (tensor<2x2x3x5xf32>, tensor<2x2x3x6xf32>) -> tensor<5x6xf32>
// CHECK-NOT: "blu.contract"
// CHECK: return %{{.*}} : tensor<3x3x5x6xf32>
func.func @gradient(%x: tensor<98x5xf32>, %g: tensor<2x4x6x6xf32>) -> tensor<3x3x5x6xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 2, 4, 6, 3, 3>, steps = array<i64: 48, 8, 1, 8, 1>, start = 2 : i64} : (tensor<98x5xf32>) -> tensor<2x4x6x3x3x5xf32>
  %1 = "blu.contract"(%0, %g) {equation = "abcABC,abcf->ABCf", precision = "highest"} : (tensor<2x4x6x3x3x5xf32>, tensor<2x4x6x6xf32>) -> tensor<3x3x5x6xf32>
  return %1 : tensor<3x3x5x6xf32>
}

// Odd numbers of windows, windows of other sizes, and precision that others ask for stay as they are.
// CHECK-LABEL: func.func @others
// CHECK-NOT: "blu.barrier"
// CHECK-COUNT-3: equation = "abcABC,ABCf->abcf"
func.func @others(%x: tensor<98x5xf32>, %w: tensor<3x3x5x6xf32>, %v: tensor<2x2x5x6xf32>) -> (tensor<2x3x6x6xf32>, tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 2, 3, 6, 3, 3>, steps = array<i64: 48, 8, 1, 8, 1>, start = 2 : i64} : (tensor<98x5xf32>) -> tensor<2x3x6x3x3x5xf32>
  %1 = "blu.contract"(%0, %w) {equation = "abcABC,ABCf->abcf", precision = "highest"} : (tensor<2x3x6x3x3x5xf32>, tensor<3x3x5x6xf32>) -> tensor<2x3x6x6xf32>
  %2 = "blu.row_windows"(%x) {sizes = array<i64: 2, 4, 6, 2, 2>, steps = array<i64: 48, 8, 1, 8, 1>, start = 2 : i64} : (tensor<98x5xf32>) -> tensor<2x4x6x2x2x5xf32>
  %3 = "blu.contract"(%2, %v) {equation = "abcABC,ABCf->abcf", precision = "highest"} : (tensor<2x4x6x2x2x5xf32>, tensor<2x2x5x6xf32>) -> tensor<2x4x6x6xf32>
  %4 = "blu.row_windows"(%x) {sizes = array<i64: 2, 4, 6, 3, 3>, steps = array<i64: 48, 8, 1, 8, 1>, start = 2 : i64} : (tensor<98x5xf32>) -> tensor<2x4x6x3x3x5xf32>
  %5 = "blu.contract"(%4, %w) {equation = "abcABC,ABCf->abcf", precision = "bf16"} : (tensor<2x4x6x3x3x5xf32>, tensor<3x3x5x6xf32>) -> tensor<2x4x6x6xf32>
  return %1, %3, %5 : tensor<2x3x6x6xf32>, tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>
}
