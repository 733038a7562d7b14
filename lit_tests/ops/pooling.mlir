// The largest elements of windows are maxima of slices, one dimension after the other; or of windows side by side.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @overlapping(
// CHECK: %[[FIRST:.+]] = "blu.slice"({{.+}}) {limits = array<i64: 1, 5, 2>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 2, 1>}
// CHECK: %[[SECOND:.+]] = "blu.slice"({{.+}}) {limits = array<i64: 1, 6, 2>, starts = array<i64: 0, 1, 0>, strides = array<i64: 1, 2, 1>}
// CHECK: "blu.maximum"(%[[FIRST]], %[[SECOND]])
// CHECK: "blu.maximum"
func.func @overlapping(%x: tensor<1x7x2xf32>) -> tensor<1x3x2xf32> {
  %0 = "blu.max_pool"(%x) {window = array<i64: 3>, strides = array<i64: 2>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>} : (tensor<1x7x2xf32>) -> tensor<1x3x2xf32>
  return %0 : tensor<1x3x2xf32>
}

// -----

// CHECK-LABEL: func.func @apart(
// CHECK: %[[WINDOWS:.+]] = "blu.reshape"({{.+}}) {shape = array<i64: 1, 3, 2, 2>}
// CHECK: "blu.max"(%[[WINDOWS]]) {axes = array<i64: 2>, keepdims = false}
func.func @apart(%x: tensor<1x6x2xf32>) -> tensor<1x3x2xf32> {
  %0 = "blu.max_pool"(%x) {window = array<i64: 2>, strides = array<i64: 2>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>} : (tensor<1x6x2xf32>) -> tensor<1x3x2xf32>
  return %0 : tensor<1x3x2xf32>
}
