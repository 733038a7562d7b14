// What is standardized along dimensions is written in simpler ops: a pass for the mean, one for the variance, and one
// that reads the operand again. Of halves one pass adds up differences from the first element, and their squares.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @wide(
// CHECK-SAME: %[[X:.+]]: tensor<4x3xf32>)
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[X]]) {axes = array<i64: 0>, keepdims = true}
// CHECK: %[[MEAN:.+]] = "blu.divide"(%[[SUM]],
// CHECK: %[[CENTERED:.+]] = "blu.subtract"(%[[X]], %[[MEAN]])
// CHECK: %[[SQUARE:.+]] = "blu.square"(%[[CENTERED]])
// CHECK: %[[SQUARES:.+]] = "blu.sum"(%[[SQUARE]]) {axes = array<i64: 0>, keepdims = true}
// CHECK: %[[VARIANCE:.+]] = "blu.divide"(%[[SQUARES]],
// CHECK: return %{{.+}}, %[[MEAN]], %[[VARIANCE]]
func.func @wide(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>) {
  %0:3 = "blu.standardize"(%x) {axes = array<i64: 0>, epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 0, 0>} : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf32>, tensor<1x3xf32>, tensor<1x3xf32>
}

// -----

// CHECK-LABEL: func.func @standardize(
// CHECK-SAME: %[[X:.+]]: tensor<4x3xbf16>, %[[W:.+]]: tensor<1x3xf32>, %[[B:.+]]: tensor<1x3xf32>)
// CHECK: %[[ROW:.+]] = "blu.slice"(%[[X]]) {limits = array<i64: 1, 3>,
// CHECK: %[[FIRST:.+]] = "blu.convert"(%[[ROW]]) {dtype = f32}
// CHECK: %[[SEEN:.+]] = "blu.barrier"(%[[X]])
// CHECK: %[[WIDE:.+]] = "blu.convert"(%[[SEEN]]) {dtype = f32}
// CHECK: %[[APART:.+]] = "blu.subtract"(%[[WIDE]], %[[FIRST]])
// CHECK: %[[SQUARE:.+]] = "blu.square"(%[[APART]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[APART]]) {axes = array<i64: 0>, keepdims = true}
// CHECK: %[[SHIFTED_MEAN:.+]] = "blu.divide"(%[[SUM]],
// CHECK: "blu.sum"(%[[SQUARE]]) {axes = array<i64: 0>, keepdims = true}
// CHECK: %[[MEAN:.+]] = "blu.add"(%[[SHIFTED_MEAN]], %[[FIRST]])
// CHECK: %[[VARIANCE:.+]] = "blu.maximum"(
// CHECK: %[[AGAIN:.+]] = "blu.barrier"(%[[X]])
// CHECK: "blu.rsqrt"
// CHECK: %[[SCALED:.+]] = "blu.multiply"(%{{.+}}, %[[W]])
// CHECK: %[[SHIFTED:.+]] = "blu.add"(%[[SCALED]], %[[B]])
// CHECK: %[[Y:.+]] = "blu.convert"(%[[SHIFTED]]) {dtype = bf16}
// CHECK: return %[[Y]], %[[MEAN]], %[[VARIANCE]]
func.func @standardize(%x: tensor<4x3xbf16>, %w: tensor<1x3xf32>, %b: tensor<1x3xf32>) -> (tensor<4x3xbf16>, tensor<1x3xf32>, tensor<1x3xf32>) {
  %0:3 = "blu.standardize"(%x, %w, %b) {axes = array<i64: 0>, epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<4x3xbf16>, tensor<1x3xf32>, tensor<1x3xf32>) -> (tensor<4x3xbf16>, tensor<1x3xf32>, tensor<1x3xf32>)
  return %0#0, %0#1, %0#2 : tensor<4x3xbf16>, tensor<1x3xf32>, tensor<1x3xf32>
}
