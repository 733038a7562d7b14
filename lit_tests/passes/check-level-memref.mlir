// From level memref on, functions take memory, and kernels look at it as tensors.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --blu-check-level=to=memref

func.func private @placed(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows"} {
  %0 = bufferization.to_tensor %x restrict : memref<4xf32> to tensor<4xf32>
  bufferization.materialize_in_destination %0 in restrict writable %y : (tensor<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// expected-error@below {{functions take memory, not tensor<4xf32>, at level 'memref': blu-bufferize gives it}}
func.func private @left(%x: tensor<4xf32>) attributes {blu.kernel = "rows"} {
  return
}

// -----

// expected-error@below {{functions take memory, not tensor<4xf32>, at level 'memref': blu-bufferize gives it}}
func.func private @given() -> tensor<4xf32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func private @ahead(%x: memref<4xf32>, %i: index) attributes {blu.kernel = "rows"} {
  // expected-error@below {{'vector.load' is not legal at level 'memref': no rule of passes/host/bufferize places it in a buffer}}
  %0 = vector.load %x[%i] : memref<4xf32>, vector<4xf32>
  return
}
