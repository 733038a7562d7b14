// Ops that are in no kernel's table are refused, not made kernels that nothing writes.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='blu-fuse'

func.func @unlowered(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{no kernel is made of blu.tanh}}
  %0 = "blu.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

#every_second = affine_map<(d0) -> (d0 * 2)>
#each = affine_map<(d0) -> (d0)>
func.func @strided(%x: tensor<8xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  // expected-error@+1 {{no kernel is made of linalg.generic}}
  %1 = linalg.generic {indexing_maps = [#every_second, #each], iterator_types = ["parallel"]}
      ins(%x : tensor<8xf32>) outs(%0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    linalg.yield %in : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
