// Modules that verify, but are no program that can be compiled.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='blu-differentiate,blu-inline,blu-check-level{to=blu}'

// expected-error@+1 {{a program is one function; the functions here: @f, @g}}
module {
  func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
  func.func @g(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32>
  }
}

// -----

// expected-error@+1 {{a program is one function; the functions here: none}}
module {
}

// -----

// expected-error@+1 {{arguments and results of a program are tensors: f32 is no tensor}}
func.func @scalar(%x: f32) -> f32 {
  return %x : f32
}

// -----

// expected-error@+1 {{arguments and results of a program are tensors: tensor<?xf32> has a size that is not known}}
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

func.func @foreign(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{'tensor.empty' is not legal at level 'blu'}}
  %0 = tensor.empty() : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// expected-error@+1 {{'external' is declared but is the gradient of nothing}}
func.func private @external(tensor<4xf32>) -> tensor<4xf32>
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @external(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{@again calls itself, and a program's length is fixed when it is compiled}}
  %0 = call @more(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func private @more(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @own(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{@own asks for its own gradient, and a program's length is fixed when it is compiled}}
  %0:2 = call @own_gradient(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#1 : tensor<f32>
}
func.func private @own_gradient(tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {blu.gradient_of = @own, blu.with_respect_to = array<i64: 0>}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0:2 = call @own_gradient(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#1 : tensor<f32>
}

// -----

func.func private @same(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@below {{@same calls itself, and a program's length is fixed when it is compiled}}
  %0 = call @same(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @same_gradient(tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {blu.gradient_of = @same, blu.with_respect_to = array<i64: 0>}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  %0:2 = call @same_gradient(%x) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %0#1 : tensor<f32>
}

// -----

// expected-error@+1 {{@left asks for its own gradient}}
func.func private @left(tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {blu.gradient_of = @right, blu.with_respect_to = array<i64: 0>}
func.func private @right(tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {blu.gradient_of = @left, blu.with_respect_to = array<i64: 0>}
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  return %x : tensor<f32>
}
