// Rows of products that nobody takes, and rows of zeros that are added up.
// RUN: %blu-opt %s --blu-skip-rows | %filecheck %s

// Results of 2 images of 3 x 3 among rows of 4: the windows of these alone are multiplied.
// CHECK-LABEL: func.func @results
// CHECK: %[[SEEN:.*]] = "blu.row_windows"(%{{.*}}) {sizes = array<i64: 2, 3, 3, 2>, start = 1 : i64, steps = array<i64: 16, 4, 1, 4>} : (tensor<40x5xf32>) -> tensor<2x3x3x2x5xf32>
// CHECK: "blu.contract"(%[[SEEN]], %{{.*}}) {equation = "abcAB,ABf->abcf", precision = "highest"}
// CHECK-SAME: -> tensor<2x3x3x6xf32>
// CHECK-NEXT: return
func.func @results(%x: tensor<40x5xf32>, %w: tensor<2x5x6xf32>) -> tensor<2x3x3x6xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 27, 2>, steps = array<i64: 1, 4>, start = 1 : i64} : (tensor<40x5xf32>) -> tensor<27x2x5xf32>
  %1 = "blu.contract"(%0, %w) {equation = "mAB,ABf->mf", precision = "highest"} : (tensor<27x2x5xf32>, tensor<2x5x6xf32>) -> tensor<27x6xf32>
  %2 = "blu.row_windows"(%1) {sizes = array<i64: 2, 3, 3>, steps = array<i64: 16, 4, 1>, start = 0 : i64} : (tensor<27x6xf32>) -> tensor<2x3x3x6xf32>
  return %2 : tensor<2x3x3x6xf32>
}

// Of a sum of products, one of which is of plain rows.
// CHECK-LABEL: func.func @sum
// CHECK-DAG: "blu.row_windows"(%{{.*}}) {sizes = array<i64: 3, 3>, start = 2 : i64, steps = array<i64: 4, 1>}
// CHECK-DAG: "blu.contract"(%{{.*}}, %{{.*}}) {equation = "abk,kf->abf", precision = "highest"}
// CHECK: "blu.add"(%{{.*}}, %{{.*}}) : (tensor<3x3x6xf32>, tensor<3x3x6xf32>)
// CHECK-NEXT: return
func.func @sum(%x: tensor<40x5xf32>, %w: tensor<5x6xf32>, %v: tensor<5x6xf32>) -> tensor<3x3x6xf32> {
  %0 = "blu.slice"(%x) {starts = array<i64: 2, 0>, limits = array<i64: 13, 5>, strides = array<i64: 1, 1>} : (tensor<40x5xf32>) -> tensor<11x5xf32>
  %1 = "blu.slice"(%x) {starts = array<i64: 9, 0>, limits = array<i64: 20, 5>, strides = array<i64: 1, 1>} : (tensor<40x5xf32>) -> tensor<11x5xf32>
  %2 = "blu.matmul"(%0, %w) {precision = "highest"} : (tensor<11x5xf32>, tensor<5x6xf32>) -> tensor<11x6xf32>
  %3 = "blu.matmul"(%1, %v) {precision = "highest"} : (tensor<11x5xf32>, tensor<5x6xf32>) -> tensor<11x6xf32>
  %4 = "blu.add"(%2, %3) : (tensor<11x6xf32>, tensor<11x6xf32>) -> tensor<11x6xf32>
  %5 = "blu.row_windows"(%4) {sizes = array<i64: 3, 3>, steps = array<i64: 4, 1>, start = 0 : i64} : (tensor<11x6xf32>) -> tensor<3x3x6xf32>
  return %5 : tensor<3x3x6xf32>
}

// Terms of a sum over rows that are zero, since zeros were put around what they are of.
// CHECK-LABEL: func.func @terms
// CHECK: "blu.row_windows"(%{{.*}}) {sizes = array<i64: 2, 3, 2>, start = 3 : i64, steps = array<i64: 4, 1, 4>}
// CHECK: "blu.contract"(%{{.*}}, %arg1) {equation = "abAB,abf->ABf", precision = "highest"}
// CHECK-NEXT: return
func.func @terms(%x: tensor<40x5xf32>, %g: tensor<2x3x6xf32>) -> tensor<2x5x6xf32> {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.pad"(%g, %zero) {low = array<i64: 1, 0, 0>, high = array<i64: 0, 1, 0>} : (tensor<2x3x6xf32>, tensor<f32>) -> tensor<3x4x6xf32>
  %1 = "blu.reshape"(%0) {shape = array<i64: 12, 6>} : (tensor<3x4x6xf32>) -> tensor<12x6xf32>
  %2 = "blu.slice"(%1) {starts = array<i64: 2, 0>, limits = array<i64: 12, 6>, strides = array<i64: 1, 1>} : (tensor<12x6xf32>) -> tensor<10x6xf32>
  %3 = "blu.row_windows"(%x) {sizes = array<i64: 10, 2>, steps = array<i64: 1, 4>, start = 1 : i64} : (tensor<40x5xf32>) -> tensor<10x2x5xf32>
  %4 = "blu.contract"(%3, %2) {equation = "mAB,mf->ABf", precision = "highest"} : (tensor<10x2x5xf32>, tensor<10x6xf32>) -> tensor<2x5x6xf32>
  return %4 : tensor<2x5x6xf32>
}

// All rows are computed that somebody else reads, that are windows' of results, or where there are none between; all
// terms are added up where ones were put around.
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: "blu.matmul"
// CHECK-LABEL: func.func @windows
// CHECK: "blu.matmul"
// CHECK-LABEL: func.func @no_gaps
// CHECK: "blu.matmul"
// CHECK-LABEL: func.func @not_zeros
// CHECK: equation = "mAB,mf->ABf"
func.func @read_elsewhere(%x: tensor<40x5xf32>, %w: tensor<5x6xf32>) -> (tensor<3x3x6xf32>, tensor<11x6xf32>) {
  %0 = "blu.slice"(%x) {starts = array<i64: 2, 0>, limits = array<i64: 13, 5>, strides = array<i64: 1, 1>} : (tensor<40x5xf32>) -> tensor<11x5xf32>
  %1 = "blu.matmul"(%0, %w) {precision = "highest"} : (tensor<11x5xf32>, tensor<5x6xf32>) -> tensor<11x6xf32>
  %2 = "blu.row_windows"(%1) {sizes = array<i64: 3, 3>, steps = array<i64: 4, 1>, start = 0 : i64} : (tensor<11x6xf32>) -> tensor<3x3x6xf32>
  return %2, %1 : tensor<3x3x6xf32>, tensor<11x6xf32>
}
func.func @windows(%x: tensor<40x5xf32>, %w: tensor<5x6xf32>) -> tensor<3x3x6xf32> {
  %0 = "blu.slice"(%x) {starts = array<i64: 2, 0>, limits = array<i64: 13, 5>, strides = array<i64: 1, 1>} : (tensor<40x5xf32>) -> tensor<11x5xf32>
  %1 = "blu.matmul"(%0, %w) {precision = "highest"} : (tensor<11x5xf32>, tensor<5x6xf32>) -> tensor<11x6xf32>
  %2 = "blu.row_windows"(%1) {sizes = array<i64: 3, 3>, steps = array<i64: 2, 1>, start = 0 : i64} : (tensor<11x6xf32>) -> tensor<3x3x6xf32>
  return %2 : tensor<3x3x6xf32>
}
func.func @no_gaps(%x: tensor<40x5xf32>, %w: tensor<5x6xf32>) -> tensor<3x3x6xf32> {
  %0 = "blu.slice"(%x) {starts = array<i64: 2, 0>, limits = array<i64: 13, 5>, strides = array<i64: 1, 1>} : (tensor<40x5xf32>) -> tensor<11x5xf32>
  %1 = "blu.matmul"(%0, %w) {precision = "highest"} : (tensor<11x5xf32>, tensor<5x6xf32>) -> tensor<11x6xf32>
  %2 = "blu.row_windows"(%1) {sizes = array<i64: 3, 3>, steps = array<i64: 3, 1>, start = 0 : i64} : (tensor<11x6xf32>) -> tensor<3x3x6xf32>
  return %2 : tensor<3x3x6xf32>
}
func.func @not_zeros(%x: tensor<40x5xf32>, %g: tensor<2x3x6xf32>) -> tensor<2x5x6xf32> {
  %one = "blu.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.pad"(%g, %one) {low = array<i64: 1, 0, 0>, high = array<i64: 0, 1, 0>} : (tensor<2x3x6xf32>, tensor<f32>) -> tensor<3x4x6xf32>
  %1 = "blu.reshape"(%0) {shape = array<i64: 12, 6>} : (tensor<3x4x6xf32>) -> tensor<12x6xf32>
  %2 = "blu.row_windows"(%x) {sizes = array<i64: 12, 2>, steps = array<i64: 1, 4>, start = 1 : i64} : (tensor<40x5xf32>) -> tensor<12x2x5xf32>
  %3 = "blu.contract"(%2, %1) {equation = "mAB,mf->ABf", precision = "highest"} : (tensor<12x2x5xf32>, tensor<12x6xf32>) -> tensor<2x5x6xf32>
  return %3 : tensor<2x5x6xf32>
}
