// Activation functions of several steps are written in simpler ops before they are lowered.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

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
