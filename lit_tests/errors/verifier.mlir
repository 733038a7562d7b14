// For each family of ops a mistake, in the sentence that Python says too.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics

func.func @pointwise_unary(%x: tensor<2xi1>) {
  // expected-error@below {{blu.sqrt: does not take bool, only f16, bf16, f32, f64}}
  %0 = "blu.sqrt"(%x) : (tensor<2xi1>) -> tensor<2xi1>
  return
}

// -----

func.func @pointwise_binary(%x: tensor<4xf32>, %y: tensor<2x3xf32>) {
  // expected-error@below {{blu.add: shapes [4] and [2, 3] do not broadcast}}
  %0 = "blu.add"(%x, %y) : (tensor<4xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @pointwise_dtypes(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error@below {{blu.add: operands must have one dtype, got f32[4], f64[4]}}
  %0 = "blu.add"(%x, %y) : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf64>
  return
}

// -----

func.func @where(%c: tensor<3xf32>, %x: tensor<3xf32>) {
  // expected-error@below {{blu.where: the condition must be bool, got f32[3]}}
  %0 = "blu.where"(%c, %x, %x) : (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @result(%x: tensor<3x4xf32>) {
  // expected-error@below {{blu.exp: gives f32[3, 4], but the result is declared as f64[3, 4]}}
  %0 = "blu.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf64>
  return
}

// -----

func.func @reduction(%x: tensor<3x4xf32>) {
  // expected-error@below {{blu.sum: axis 2 is out of range: f32[3, 4] has axes 0..1}}
  %0 = "blu.sum"(%x) {axes = array<i64: 2>, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @contraction(%x: tensor<2x3xf32>, %w: tensor<4x5xf32>) {
  // expected-error@below {{blu.matmul: inner sizes differ: f32[2, 3] has 3 along its last dimension, f32[4, 5] has 4 along its second last one}}
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @einsum(%x: tensor<2x3xf32>, %w: tensor<4x5xf32>) {
  // expected-error@below {{blu.einsum: 'j' is both 3 and 4 long}}
  %0 = "blu.einsum"(%x, %w) {equation = "ij,jk->ik", precision = "highest"} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @shape(%x: tensor<2x3xf32>) {
  // expected-error@below {{blu.reshape: f32[2, 3] has 6 elements, but shape [4, 2] has room for 8}}
  %0 = "blu.reshape"(%x) {shape = array<i64: 4, 2>} : (tensor<2x3xf32>) -> tensor<4x2xf32>
  return
}

// -----

func.func @permutation(%x: tensor<2x3xf32>) {
  // expected-error@below {{blu.transpose: [0, 0] is not a permutation of the 2 dimensions of f32[2, 3]}}
  %0 = "blu.transpose"(%x) {permutation = array<i64: 0, 0>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  return
}

// -----

func.func @indexing(%x: tensor<2x3xf32>, %i: tensor<2xf32>) {
  // expected-error@below {{blu.take: indices must be i32 or i64, got f32[2]}}
  %0 = "blu.take"(%x, %i) {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @creation() {
  // expected-error@below {{blu.iota: axis 1 is out of range: f32[2] has axes 0..0}}
  %0 = "blu.iota"() {shape = array<i64: 2>, axis = 1 : i64, dtype = f32} : () -> tensor<2xf32>
  return
}

// -----

func.func @random(%key: tensor<4xi64>) {
  // expected-error@below {{blu.random_bits: the key must be i64[2] (seed and stream), got i64[4]}}
  %0 = "blu.random_bits"(%key) {shape = array<i64: 2>} : (tensor<4xi64>) -> tensor<2xi32>
  return
}

// -----

func.func @composite(%x: tensor<2x3xf32>, %w: tensor<2xf32>) {
  // expected-error@below {{blu.layer_norm: weight must have shape [3] to fit f32[2, 3], got f32[2]}}
  %0 = "blu.layer_norm"(%x, %w) {epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<2x3xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @loss(%x: tensor<4x9xf32>, %t: tensor<5xi64>) {
  // expected-error@below {{blu.cross_entropy: logits must be [N, V] and targets [N], got f32[4, 9] and i64[5]}}
  %0 = "blu.cross_entropy"(%x, %t) {ignore_index = -100 : i64} : (tensor<4x9xf32>, tensor<5xi64>) -> tensor<4xf32>
  return
}

// -----

func.func @sorting(%x: tensor<2x3xf32>) {
  // expected-error@below {{blu.top_k: k must be in 0..3 for f32[2, 3], got 4}}
  %0:2 = "blu.top_k"(%x) {k = 4 : i64} : (tensor<2x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xi64>)
  return
}

// -----

func.func @attention(%q: tensor<6x5x8xf32>, %k: tensor<4x7x8xf32>) {
  // expected-error@below {{blu.attention: 6 query heads are no multiple of 4 key heads}}
  %0 = "blu.attention"(%q, %k, %k) {causal = true, precision = "highest", scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<6x5x8xf32>, tensor<4x7x8xf32>, tensor<4x7x8xf32>) -> tensor<6x5x8xf32>
  return
}
