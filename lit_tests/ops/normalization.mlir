// Normalizations are written in simpler ops before they are lowered.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @softmax(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK: %[[MAX:.+]] = "blu.max"(%[[X]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[X]], %[[MAX]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: %[[DIVIDE:.+]] = "blu.divide"(%[[CONST]], %[[SUM]])
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[EXP]], %[[DIVIDE]])
// CHECK: return %[[MULTIPLY]] : tensor<3x4xf32>
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.softmax"(%x) {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @log_softmax(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK: %[[MAX:.+]] = "blu.max"(%[[X]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[X]], %[[MAX]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[LOG:.+]] = "blu.log"(%[[SUM]])
// CHECK: %[[SUBTRACT_1:.+]] = "blu.subtract"(%[[SUBTRACT]], %[[LOG]])
// CHECK: return %[[SUBTRACT_1]] : tensor<3x4xf32>
func.func @log_softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.log_softmax"(%x) {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @layer_norm(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[W:.+]]: tensor<4xf32>, %[[B:.+]]: tensor<4xf32>)
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[X]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<2.500000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[SUM]], %[[CONST]])
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[X]], %[[MULTIPLY]])
// CHECK: %[[SQUARE:.+]] = "blu.square"(%[[SUBTRACT]])
// CHECK: %[[SUM_1:.+]] = "blu.sum"(%[[SQUARE]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<2.500000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY_1:.+]] = "blu.multiply"(%[[SUM_1]], %[[CONST_1]])
// CHECK: %[[CONST_2:.+]] = "blu.constant"() {value = dense<9.99999974E-6> : tensor<f32>}
// CHECK: %[[ADD:.+]] = "blu.add"(%[[MULTIPLY_1]], %[[CONST_2]])
// CHECK: %[[RSQRT:.+]] = "blu.rsqrt"(%[[ADD]])
// CHECK: %[[MULTIPLY_2:.+]] = "blu.multiply"(%[[SUBTRACT]], %[[RSQRT]])
// CHECK: %[[MULTIPLY_3:.+]] = "blu.multiply"(%[[MULTIPLY_2]], %[[W]])
// CHECK: %[[ADD_1:.+]] = "blu.add"(%[[MULTIPLY_3]], %[[B]])
// CHECK: return %[[ADD_1]] : tensor<3x4xf32>
func.func @layer_norm(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.layer_norm"(%x, %w, %b) {epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<3x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Without weight; halves are normalised in f32.
// CHECK-LABEL: func.func @rms_norm(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf16>)
// CHECK: %[[CONVERT:.+]] = "blu.convert"(%[[X]]) {dtype = f32}
// CHECK: %[[SQUARE:.+]] = "blu.square"(%[[CONVERT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[SQUARE]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<2.500000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[SUM]], %[[CONST]])
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<9.99999974E-6> : tensor<f32>}
// CHECK: %[[ADD:.+]] = "blu.add"(%[[MULTIPLY]], %[[CONST_1]])
// CHECK: %[[RSQRT:.+]] = "blu.rsqrt"(%[[ADD]])
// CHECK: %[[MULTIPLY_1:.+]] = "blu.multiply"(%[[CONVERT]], %[[RSQRT]])
// CHECK: %[[CONVERT_1:.+]] = "blu.convert"(%[[MULTIPLY_1]]) {dtype = f16}
// CHECK: return %[[CONVERT_1]] : tensor<3x4xf16>
func.func @rms_norm(%x: tensor<3x4xf16>) -> tensor<3x4xf16> {
  %0 = "blu.rms_norm"(%x) {epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 0>} : (tensor<3x4xf16>) -> tensor<3x4xf16>
  return %0 : tensor<3x4xf16>
}
