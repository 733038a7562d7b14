// What is standardized along dimensions is written in simpler ops: a pass for the mean, one for the variance, and one
// that reads the operand again.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @standardize(
// CHECK-SAME: %[[X:.+]]: tensor<4x3xbf16>, %[[W:.+]]: tensor<1x3xf32>, %[[B:.+]]: tensor<1x3xf32>)
// CHECK: %[[WIDE:.+]] = "blu.convert"(%[[X]]) {dtype = f32}
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[WIDE]]) {axes = array<i64: 0>, keepdims = true}
// CHECK: %[[COUNT:.+]] = "blu.constant"() {value = dense<4.000000e+00> : tensor<f32>}
// CHECK: %[[MEAN:.+]] = "blu.divide"(%[[SUM]], %[[COUNT]])
// CHECK: %[[CENTERED:.+]] = "blu.subtract"(%[[WIDE]], %[[MEAN]])
// CHECK: %[[SQUARE:.+]] = "blu.square"(%[[CENTERED]])
// CHECK: %[[SQUARES:.+]] = "blu.sum"(%[[SQUARE]]) {axes = array<i64: 0>, keepdims = true}
// CHECK: %[[VARIANCE:.+]] = "blu.divide"(%[[SQUARES]],
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
