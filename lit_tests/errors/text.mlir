// IR that was written by hand and is no `blu`: what is wrong is said at its place.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics

func.func @an_attribute_is_missing(%x: tensor<3x4xf32>) {
  // expected-error@below {{blu.sum: needs the attribute keepdims, as in keepdims = true}}
  %0 = "blu.sum"(%x) {axes = array<i64: 1>} : (tensor<3x4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @an_attribute_is_of_another_kind(%x: tensor<3x4xf32>) {
  // expected-error@below {{blu.sum: axes = 1 : i64 is no attribute of the form axes = array<i64: 0, 1>}}
  %0 = "blu.sum"(%x) {axes = 1 : i64, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @no_such_dtype() {
  // expected-error@below {{blu.iota: element type i7 is not one of Blu's: bool, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64}}
  %0 = "blu.iota"() {shape = array<i64: 2>, axis = 0 : i64, dtype = i7} : () -> tensor<2xi32>
  return
}

// -----

func.func @no_tensor(%x: f32) {
  // expected-error@below {{blu.exp: f32 is no tensor with a fixed number of dimensions}}
  %0 = "blu.exp"(%x) : (f32) -> f32
  return
}

// -----

func.func @dynamic(%x: tensor<?xf32>) {
  // expected-error@below {{blu.exp: tensor<?xf32> has a size that is not known, and Blu's tensors have fixed shapes}}
  %0 = "blu.exp"(%x) : (tensor<?xf32>) -> tensor<?xf32>
  return
}

// -----

func.func @unranked(%x: tensor<*xf32>) {
  // expected-error@below {{blu.exp: tensor<*xf32> is no tensor with a fixed number of dimensions}}
  %0 = "blu.exp"(%x) : (tensor<*xf32>) -> tensor<*xf32>
  return
}

// -----

func.func @sparse(%x: tensor<2x3xf32, "csr">) {
  // expected-error@below {{has an encoding, and Blu's tensors are dense}}
  %0 = "blu.exp"(%x) : (tensor<2x3xf32, "csr">) -> tensor<2x3xf32, "csr">
  return
}

// -----

func.func @too_large(%x: tensor<9999999999x9999999999xf32>) {
  // expected-error@below {{would take 399999999920000000004 bytes, more than can be addressed}}
  %0 = "blu.exp"(%x) : (tensor<9999999999x9999999999xf32>) -> tensor<9999999999x9999999999xf32>
  return
}

// -----

func.func @too_few_operands(%x: tensor<3x4xf32>) {
  // expected-error@below {{blu.add: takes 2 operands (lhs, rhs), got 1}}
  %0 = "blu.add"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return
}

// -----

func.func @too_many_results(%x: tensor<3x4xf32>) {
  // expected-error@below {{blu.exp: gives f32[3, 4], but the result is declared as f32[3, 4], f32[3, 4]}}
  %0:2 = "blu.exp"(%x) : (tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>)
  return
}

// -----

func.func @segments_do_not_add_up(%x: tensor<2x3xf32>) {
  // expected-error@below {{blu.concatenate: operandSegmentSizes (operands) must be 16 times 0 or 1, and 2 operands in all}}
  %0 = "blu.concatenate"(%x, %x) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @no_such_op(%x: tensor<2x3xf32>) {
  // expected-error@below {{unregistered operation 'blu.exponential' found in dialect ('blu')}}
  // expected-note@below {{see current operation}}
  %0 = "blu.exponential"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @undefined_value() {
  // expected-error@below {{use of undeclared SSA value name}}
  %0 = "blu.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return
}

// -----

func.func @types_disagree(%x: tensor<2x3xf32>) { // expected-note {{prior use here}}
  // expected-error@below {{use of value '%x' expects different type than prior uses: 'tensor<2x4xf32>' vs 'tensor<2x3xf32>'}}
  %0 = "blu.exp"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return
}
