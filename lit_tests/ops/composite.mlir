// Composite ops are written in simpler ones before they are lowered.
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

// -----

// CHECK-LABEL: func.func @gelu(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[X]], %[[X]])
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<0.0713548139> : tensor<f32>}
// CHECK: %[[MULTIPLY_1:.+]] = "blu.multiply"(%[[MULTIPLY]], %[[CONST]])
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<1.59576917> : tensor<f32>}
// CHECK: %[[ADD:.+]] = "blu.add"(%[[MULTIPLY_1]], %[[CONST_1]])
// CHECK: %[[MULTIPLY_2:.+]] = "blu.multiply"(%[[ADD]], %[[X]])
// CHECK: %[[SIGMOID:.+]] = "blu.sigmoid"(%[[MULTIPLY_2]])
// CHECK: %[[MULTIPLY_3:.+]] = "blu.multiply"(%[[X]], %[[SIGMOID]])
// CHECK: %[[CONST_2:.+]] = "blu.constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY_4:.+]] = "blu.multiply"(%[[X]], %[[CONST_2]])
// CHECK: %[[CONST_3:.+]] = "blu.constant"() {value = dense<-0.707106769> : tensor<f32>}
// CHECK: %[[MULTIPLY_5:.+]] = "blu.multiply"(%[[X]], %[[CONST_3]])
// CHECK: %[[CONST_4:.+]] = "blu.constant"() {value = dense<-4.000000e+01> : tensor<f32>}
// CHECK: %[[CONST_5:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[MAXIMUM:.+]] = "blu.maximum"(%[[X]], %[[CONST_4]])
// CHECK: %[[MINIMUM:.+]] = "blu.minimum"(%[[MAXIMUM]], %[[CONST_5]])
// CHECK: %[[CONST_6:.+]] = "blu.constant"() {value = dense<4.097000e+03> : tensor<f32>}
// CHECK: %[[MULTIPLY_6:.+]] = "blu.multiply"(%[[MINIMUM]], %[[CONST_6]])
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[MULTIPLY_6]], %[[MINIMUM]])
// CHECK: %[[SUBTRACT_1:.+]] = "blu.subtract"(%[[MULTIPLY_6]], %[[SUBTRACT]])
// CHECK: %[[SUBTRACT_2:.+]] = "blu.subtract"(%[[MINIMUM]], %[[SUBTRACT_1]])
// CHECK: %[[CONST_7:.+]] = "blu.constant"() {value = dense<-0.707106769> : tensor<f32>}
// CHECK: %[[MULTIPLY_7:.+]] = "blu.multiply"(%[[MINIMUM]], %[[CONST_7]])
// CHECK: %[[CONST_8:.+]] = "blu.constant"() {value = dense<-0.70703125> : tensor<f32>}
// CHECK: %[[MULTIPLY_8:.+]] = "blu.multiply"(%[[SUBTRACT_1]], %[[CONST_8]])
// CHECK: %[[SUBTRACT_3:.+]] = "blu.subtract"(%[[MULTIPLY_8]], %[[MULTIPLY_7]])
// CHECK: %[[CONST_9:.+]] = "blu.constant"() {value = dense<0.70703125> : tensor<f32>}
// CHECK: %[[MULTIPLY_9:.+]] = "blu.multiply"(%[[SUBTRACT_2]], %[[CONST_9]])
// CHECK: %[[SUBTRACT_4:.+]] = "blu.subtract"(%[[SUBTRACT_3]], %[[MULTIPLY_9]])
// CHECK: %[[CONST_10:.+]] = "blu.constant"() {value = dense<7.55311848E-5> : tensor<f32>}
// CHECK: %[[MULTIPLY_10:.+]] = "blu.multiply"(%[[MINIMUM]], %[[CONST_10]])
// CHECK: %[[SUBTRACT_5:.+]] = "blu.subtract"(%[[SUBTRACT_4]], %[[MULTIPLY_10]])
// CHECK: %[[ERFC:.+]] = "blu.erfc"(%[[MULTIPLY_5]])
// CHECK: %[[MULTIPLY_11:.+]] = "blu.multiply"(%[[MULTIPLY_7]], %[[SUBTRACT_5]])
// CHECK: %[[CONST_11:.+]] = "blu.constant"() {value = dense<2.000000e+00> : tensor<f32>}
// CHECK: %[[MULTIPLY_12:.+]] = "blu.multiply"(%[[MULTIPLY_11]], %[[CONST_11]])
// CHECK: %[[MULTIPLY_13:.+]] = "blu.multiply"(%[[ERFC]], %[[MULTIPLY_12]])
// CHECK: %[[SUBTRACT_6:.+]] = "blu.subtract"(%[[ERFC]], %[[MULTIPLY_13]])
// CHECK: %[[MULTIPLY_14:.+]] = "blu.multiply"(%[[MULTIPLY_4]], %[[SUBTRACT_6]])
// CHECK: return %[[MULTIPLY_3]], %[[MULTIPLY_14]] : tensor<4xf32>, tensor<4xf32>
func.func @gelu(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "blu.gelu"(%x) {approximate = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.gelu"(%x) {approximate = "erf"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @silu(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
// CHECK: %[[SIGMOID:.+]] = "blu.sigmoid"(%[[X]])
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[X]], %[[SIGMOID]])
// CHECK: return %[[MULTIPLY]] : tensor<4xf32>
func.func @silu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.silu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @cross_entropy(
// CHECK-SAME: %[[X:.+]]: tensor<3x8xf32>, %[[T:.+]]: tensor<3xi32>)
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<-100> : tensor<i32>}
// CHECK: %[[NOT_EQUAL:.+]] = "blu.not_equal"(%[[T]], %[[CONST]])
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<0> : tensor<i32>}
// CHECK: %[[WHERE:.+]] = "blu.where"(%[[NOT_EQUAL]], %[[T]], %[[CONST_1]])
// CHECK: %[[RESHAPE:.+]] = "blu.reshape"(%[[WHERE]]) {shape = array<i64: 3, 1>}
// CHECK: %[[CHECKED:.+]] = "blu.checked_index"(%[[RESHAPE]]) {from_end = false, {{.*}}reported_as = "cross_entropy"
// CHECK: %[[MAX:.+]] = "blu.max"(%[[X]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[TAKE_ALONG_AXIS:.+]] = "blu.take_along_axis"(%[[X]], %[[CHECKED]]) {axis = 1 : i64}
// CHECK: %[[PICKED:.+]] = "blu.subtract"(%[[TAKE_ALONG_AXIS]], %[[MAX]])
// CHECK: %[[RESHAPE_1:.+]] = "blu.reshape"(%[[PICKED]]) {shape = array<i64: 3>}
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[X]], %[[MAX]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[RESHAPE_2:.+]] = "blu.reshape"(%[[SUM]]) {shape = array<i64: 3>}
// CHECK: %[[LOG:.+]] = "blu.log"(%[[RESHAPE_2]])
// CHECK: %[[SUBTRACT_1:.+]] = "blu.subtract"(%[[LOG]], %[[RESHAPE_1]])
// CHECK: %[[CONST_4:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_2:.+]] = "blu.where"(%[[NOT_EQUAL]], %[[SUBTRACT_1]], %[[CONST_4]])
// CHECK: return %[[WHERE_2]] : tensor<3xf32>
func.func @cross_entropy(%x: tensor<3x8xf32>, %t: tensor<3xi32>) -> tensor<3xf32> {
  %0 = "blu.cross_entropy"(%x, %t) {ignore_index = -100 : i64} : (tensor<3x8xf32>, tensor<3xi32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @clip(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[LOW:.+]]: tensor<f32>, %[[HIGH:.+]]: tensor<4xf32>)
// CHECK: %[[RAISED:.+]] = "blu.maximum"(%[[X]], %[[LOW]])
// CHECK: %[[RESULT:.+]] = "blu.minimum"(%[[RAISED]], %[[HIGH]])
// CHECK: return %[[RESULT]] : tensor<3x4xf32>
func.func @clip(%x: tensor<3x4xf32>, %low: tensor<f32>, %high: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.clip"(%x, %low, %high) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<3x4xf32>, tensor<f32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
