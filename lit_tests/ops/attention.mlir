// Attention stays whole for its kernel; asked to, it is written in matrix products and a softmax.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose{keep=nothing}' | %filecheck %s
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg' | %filecheck %s --check-prefix=WHOLE

// Two query heads share a key and value head.
// WHOLE-LABEL: func.func @causal(
// WHOLE-SAME: %[[Q:.+]]: tensor<2x4x8x16xf32>, %[[K:.+]]: tensor<2x2x8x16xf32>, %[[V:.+]]: tensor<2x2x8x16xf32>)
// WHOLE-NEXT: "blu.attention"(%[[Q]], %[[K]], %[[V]]) {causal = true

// CHECK-LABEL: func.func @causal(
// CHECK-SAME: %[[Q:.+]]: tensor<2x4x8x16xf32>, %[[K:.+]]: tensor<2x2x8x16xf32>, %[[V:.+]]: tensor<2x2x8x16xf32>)
// CHECK: %[[RESHAPE:.+]] = "blu.reshape"(%[[Q]]) {shape = array<i64: 2, 2, 2, 8, 16>}
// CHECK: %[[RESHAPE_1:.+]] = "blu.reshape"(%[[K]]) {shape = array<i64: 2, 2, 1, 8, 16>}
// CHECK: %[[RESHAPE_2:.+]] = "blu.reshape"(%[[V]]) {shape = array<i64: 2, 2, 1, 8, 16>}
// CHECK: %[[TURNED:.+]] = "blu.transpose"(%[[RESHAPE_1]]) {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK: %[[MATMUL:.+]] = "blu.matmul"(%[[RESHAPE]], %[[TURNED]]) {precision = "highest"}
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<2.500000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[MATMUL]], %[[CONST]])
// CHECK: %[[IOTA:.+]] = "blu.iota"() {axis = 0 : i64, dtype = i32, shape = array<i64: 8, 1>}
// CHECK: %[[IOTA_1:.+]] = "blu.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 1, 8>}
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<0> : tensor<i32>}
// CHECK: %[[ADD:.+]] = "blu.add"(%[[IOTA]], %[[CONST_1]])
// CHECK: %[[LESS_EQUAL:.+]] = "blu.less_equal"(%[[IOTA_1]], %[[ADD]])
// CHECK: %[[CONST_2:.+]] = "blu.constant"() {value = dense<0xFF800000> : tensor<f32>}
// CHECK: %[[WHERE:.+]] = "blu.where"(%[[LESS_EQUAL]], %[[MULTIPLY]], %[[CONST_2]])
// CHECK: %[[MAX:.+]] = "blu.max"(%[[WHERE]]) {axes = array<i64: 4>, keepdims = true}
// CHECK: %[[CONST_3:.+]] = "blu.constant"() {value = dense<0xFF800000> : tensor<f32>}
// CHECK: %[[EQUAL:.+]] = "blu.equal"(%[[MAX]], %[[CONST_3]])
// CHECK: %[[CONST_4:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_1:.+]] = "blu.where"(%[[EQUAL]], %[[CONST_4]], %[[MAX]])
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[WHERE]], %[[WHERE_1]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 4>, keepdims = true}
// CHECK: %[[CONST_5:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[EQUAL_1:.+]] = "blu.equal"(%[[SUM]], %[[CONST_5]])
// CHECK: %[[CONST_6:.+]] = "blu.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_2:.+]] = "blu.where"(%[[EQUAL_1]], %[[CONST_6]], %[[SUM]])
// CHECK: %[[DIVIDE:.+]] = "blu.divide"(%[[EXP]], %[[WHERE_2]])
// CHECK: %[[MATMUL_1:.+]] = "blu.matmul"(%[[DIVIDE]], %[[RESHAPE_2]]) {precision = "highest"}
// CHECK: %[[RESHAPE_3:.+]] = "blu.reshape"(%[[MATMUL_1]]) {shape = array<i64: 2, 4, 8, 16>}
// CHECK: return %[[RESHAPE_3]] : tensor<2x4x8x16xf32>
func.func @causal(%q: tensor<2x4x8x16xf32>, %k: tensor<2x2x8x16xf32>, %v: tensor<2x2x8x16xf32>) -> tensor<2x4x8x16xf32> {
  %0 = "blu.attention"(%q, %k, %v) {causal = true, precision = "highest", scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x4x8x16xf32>, tensor<2x2x8x16xf32>, tensor<2x2x8x16xf32>) -> tensor<2x4x8x16xf32>
  return %0 : tensor<2x4x8x16xf32>
}

// -----

// WHOLE-LABEL: func.func @masked(
// WHOLE-SAME: %[[Q:.+]]: tensor<1x2x3x4xf32>, %[[K:.+]]: tensor<1x2x8x4xf32>, %[[V:.+]]: tensor<1x2x8x4xf32>, %[[M:.+]]: tensor<1x1x3x8xf32>)
// WHOLE-NEXT: "blu.attention"(%[[Q]], %[[K]], %[[V]], %[[M]]) {causal = false

// CHECK-LABEL: func.func @masked(
// CHECK-SAME: %[[Q:.+]]: tensor<1x2x3x4xf32>, %[[K:.+]]: tensor<1x2x8x4xf32>, %[[V:.+]]: tensor<1x2x8x4xf32>, %[[M:.+]]: tensor<1x1x3x8xf32>)
// CHECK: %[[RESHAPE:.+]] = "blu.reshape"(%[[Q]]) {shape = array<i64: 1, 2, 1, 3, 4>}
// CHECK: %[[RESHAPE_1:.+]] = "blu.reshape"(%[[K]]) {shape = array<i64: 1, 2, 1, 8, 4>}
// CHECK: %[[RESHAPE_2:.+]] = "blu.reshape"(%[[V]]) {shape = array<i64: 1, 2, 1, 8, 4>}
// CHECK: %[[TURNED:.+]] = "blu.transpose"(%[[RESHAPE_1]]) {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK: %[[MATMUL:.+]] = "blu.matmul"(%[[RESHAPE]], %[[TURNED]]) {precision = "highest"}
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[MATMUL]], %[[CONST]])
// CHECK: %[[RESHAPE_3:.+]] = "blu.reshape"(%[[M]]) {shape = array<i64: 1, 1, 1, 3, 8>}
// CHECK: %[[ADD:.+]] = "blu.add"(%[[MULTIPLY]], %[[RESHAPE_3]])
// CHECK: %[[MAX:.+]] = "blu.max"(%[[ADD]]) {axes = array<i64: 4>, keepdims = true}
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<0xFF800000> : tensor<f32>}
// CHECK: %[[EQUAL:.+]] = "blu.equal"(%[[MAX]], %[[CONST_1]])
// CHECK: %[[CONST_2:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE:.+]] = "blu.where"(%[[EQUAL]], %[[CONST_2]], %[[MAX]])
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[ADD]], %[[WHERE]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 4>, keepdims = true}
// CHECK: %[[CONST_3:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[EQUAL_1:.+]] = "blu.equal"(%[[SUM]], %[[CONST_3]])
// CHECK: %[[CONST_4:.+]] = "blu.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_1:.+]] = "blu.where"(%[[EQUAL_1]], %[[CONST_4]], %[[SUM]])
// CHECK: %[[DIVIDE:.+]] = "blu.divide"(%[[EXP]], %[[WHERE_1]])
// CHECK: %[[MATMUL_1:.+]] = "blu.matmul"(%[[DIVIDE]], %[[RESHAPE_2]]) {precision = "highest"}
// CHECK: %[[RESHAPE_4:.+]] = "blu.reshape"(%[[MATMUL_1]]) {shape = array<i64: 1, 2, 3, 4>}
// CHECK: return %[[RESHAPE_4]] : tensor<1x2x3x4xf32>
func.func @masked(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %m: tensor<1x1x3x8xf32>) -> tensor<1x2x3x4xf32> {
  %0 = "blu.attention"(%q, %k, %v, %m) {causal = false, precision = "highest", scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0>} : (tensor<1x2x3x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<1x1x3x8xf32>) -> tensor<1x2x3x4xf32>
  return %0 : tensor<1x2x3x4xf32>
}

// -----

// With a key-value cache: the queries begin at a position that is known at run time.
// WHOLE-LABEL: func.func @offset(
// WHOLE-SAME: %[[Q:.+]]: tensor<1x2x1x4xf32>, %[[K:.+]]: tensor<1x2x8x4xf32>, %[[V:.+]]: tensor<1x2x8x4xf32>, %[[O:.+]]: tensor<i32>)
// WHOLE-NEXT: "blu.attention"(%[[Q]], %[[K]], %[[V]], %[[O]]) {causal = true

// CHECK-LABEL: func.func @offset(
// CHECK-SAME: %[[Q:.+]]: tensor<1x2x1x4xf32>, %[[K:.+]]: tensor<1x2x8x4xf32>, %[[V:.+]]: tensor<1x2x8x4xf32>, %[[O:.+]]: tensor<i32>)
// CHECK: %[[RESHAPE:.+]] = "blu.reshape"(%[[Q]]) {shape = array<i64: 1, 2, 1, 1, 4>}
// CHECK: %[[RESHAPE_1:.+]] = "blu.reshape"(%[[K]]) {shape = array<i64: 1, 2, 1, 8, 4>}
// CHECK: %[[RESHAPE_2:.+]] = "blu.reshape"(%[[V]]) {shape = array<i64: 1, 2, 1, 8, 4>}
// CHECK: %[[TURNED:.+]] = "blu.transpose"(%[[RESHAPE_1]]) {permutation = array<i64: 0, 1, 2, 4, 3>}
// CHECK: %[[MATMUL:.+]] = "blu.matmul"(%[[RESHAPE]], %[[TURNED]]) {precision = "highest"}
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<5.000000e-01> : tensor<f32>}
// CHECK: %[[MULTIPLY:.+]] = "blu.multiply"(%[[MATMUL]], %[[CONST]])
// CHECK: %[[IOTA:.+]] = "blu.iota"() {axis = 0 : i64, dtype = i32, shape = array<i64: 1, 1>}
// CHECK: %[[IOTA_1:.+]] = "blu.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 1, 8>}
// CHECK: %[[NONE:.+]] = "blu.constant"() {value = dense<-1> : tensor<i32>}
// CHECK: %[[ALL:.+]] = "blu.constant"() {value = dense<8> : tensor<i32>}
// CHECK: %[[LEAST:.+]] = "blu.maximum"(%[[O]], %[[NONE]])
// CHECK: %[[CUT:.+]] = "blu.minimum"(%[[LEAST]], %[[ALL]])
// CHECK: %[[ADD:.+]] = "blu.add"(%[[IOTA]], %[[CUT]])
// CHECK: %[[LESS_EQUAL:.+]] = "blu.less_equal"(%[[IOTA_1]], %[[ADD]])
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<0xFF800000> : tensor<f32>}
// CHECK: %[[WHERE:.+]] = "blu.where"(%[[LESS_EQUAL]], %[[MULTIPLY]], %[[CONST_1]])
// CHECK: %[[MAX:.+]] = "blu.max"(%[[WHERE]]) {axes = array<i64: 4>, keepdims = true}
// CHECK: %[[CONST_2:.+]] = "blu.constant"() {value = dense<0xFF800000> : tensor<f32>}
// CHECK: %[[EQUAL:.+]] = "blu.equal"(%[[MAX]], %[[CONST_2]])
// CHECK: %[[CONST_3:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_1:.+]] = "blu.where"(%[[EQUAL]], %[[CONST_3]], %[[MAX]])
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[WHERE]], %[[WHERE_1]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 4>, keepdims = true}
// CHECK: %[[CONST_4:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[EQUAL_1:.+]] = "blu.equal"(%[[SUM]], %[[CONST_4]])
// CHECK: %[[CONST_5:.+]] = "blu.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_2:.+]] = "blu.where"(%[[EQUAL_1]], %[[CONST_5]], %[[SUM]])
// CHECK: %[[DIVIDE:.+]] = "blu.divide"(%[[EXP]], %[[WHERE_2]])
// CHECK: %[[MATMUL_1:.+]] = "blu.matmul"(%[[DIVIDE]], %[[RESHAPE_2]]) {precision = "highest"}
// CHECK: %[[RESHAPE_3:.+]] = "blu.reshape"(%[[MATMUL_1]]) {shape = array<i64: 1, 2, 1, 4>}
// CHECK: return %[[RESHAPE_3]] : tensor<1x2x1x4xf32>
func.func @offset(%q: tensor<1x2x1x4xf32>, %k: tensor<1x2x8x4xf32>, %v: tensor<1x2x8x4xf32>, %o: tensor<i32>) -> tensor<1x2x1x4xf32> {
  %0 = "blu.attention"(%q, %k, %v, %o) {causal = true, precision = "highest", scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>} : (tensor<1x2x1x4xf32>, tensor<1x2x8x4xf32>, tensor<1x2x8x4xf32>, tensor<i32>) -> tensor<1x2x1x4xf32>
  return %0 : tensor<1x2x1x4xf32>
}

// -----

// A piece, with the largest product of each query, and the logarithm of its sum of weights beside it.
// CHECK-LABEL: func.func @piece(
// CHECK: %[[SCORES:.+]] = "blu.multiply"
// CHECK: "blu.max"(%[[SCORES]]) {axes = array<i64: 3>, keepdims = true}
// CHECK: %[[LARGEST:.+]] = "blu.where"
// CHECK: "blu.subtract"(%[[SCORES]], %[[LARGEST]])
// CHECK: %[[WEIGHTS:.+]] = "blu.exp"
// CHECK: %[[TOTAL:.+]] = "blu.sum"(%[[WEIGHTS]]) {axes = array<i64: 3>, keepdims = true}
// CHECK: %[[SEEN:.+]] = "blu.where"({{.*}}, %[[LARGEST]])
// CHECK: %[[LOG:.+]] = "blu.log"(%[[TOTAL]])
// CHECK: %[[BOTH:.+]] = "blu.concatenate"(%[[SEEN]], %[[LOG]])
// CHECK: %[[SUMS:.+]] = "blu.reshape"(%[[BOTH]]) {shape = array<i64: 2, 4, 2>}
// CHECK: "blu.divide"(%[[WEIGHTS]],
// CHECK: return %{{.+}}, %[[SUMS]] : tensor<2x4x8xf32>, tensor<2x4x2xf32>
func.func @piece(%q: tensor<2x4x8xf32>, %k: tensor<1x6x8xf32>, %v: tensor<1x6x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x2xf32>) {
  %0:2 = "blu.attention_piece"(%q, %k, %v) {causal = false, precision = "highest", scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0>} : (tensor<2x4x8xf32>, tensor<1x6x8xf32>, tensor<1x6x8xf32>) -> (tensor<2x4x8xf32>, tensor<2x4x2xf32>)
  return %0#0, %0#1 : tensor<2x4x8xf32>, tensor<2x4x2xf32>
}
