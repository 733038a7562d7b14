// Ops that do the same to the same values are computed once, loops with equal bodies included.
// RUN: %blu-opt %s --blu-merge-duplicates --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @main
// CHECK: tensor.empty
// CHECK-NOT: tensor.empty
// CHECK: %[[FIRST:.+]] = linalg.generic
// CHECK: math.exp
// CHECK-NOT: math.exp
// CHECK: %[[OTHER:.+]] = linalg.generic
// CHECK: math.sin
// CHECK: return %[[FIRST]], %[[FIRST]], %[[OTHER]]
#rows = affine_map<(i) -> (i)>
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %e0 = tensor.empty() : tensor<4xf32>
  %e1 = tensor.empty() : tensor<4xf32>
  %0 = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e0 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = math.exp %in : f32
    %b = math.exp %in : f32
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = math.exp %in : f32
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  } -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel"]} ins(%x : tensor<4xf32>) outs(%e1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %a = math.sin %in : f32
    linalg.yield %a : f32
  } -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
