// What a level does not hold is refused where it stands, with whose job it was.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --blu-check-level

func.func @left(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@below {{'blu.exp' is not legal at level 'linalg': no rule @lowers(Exp) in passes/loops/lower_to_linalg, and no decomposition, covers it}}
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// An op with a kernel of its own stays until a kernel takes it.
func.func @kept(%x: tensor<2x8xi8>) -> tensor<2x8xi64> {
  %0 = "blu.argsort"(%x) {axis = 1 : i64, descending = false} : (tensor<2x8xi8>) -> tensor<2x8xi64>
  return %0 : tensor<2x8xi64>
}

// -----

func.func @ahead(%x: memref<4xf32>, %i: index) -> f32 {
  // expected-error@below {{'memref.load' is not legal at level 'linalg'}}
  %0 = memref.load %x[%i] : memref<4xf32>
  return %0 : f32
}

// -----

// Regions are looked into.
func.func @inside(%x: tensor<4xf32>, %y: memref<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %i = linalg.index 0 : index
    // expected-error@below {{'memref.load' is not legal at level 'linalg'}}
    %2 = memref.load %y[%i] : memref<4xf32>
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
