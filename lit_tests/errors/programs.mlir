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
