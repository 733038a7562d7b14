// Elementwise loops that read each other through reshapes get the dimensions of all of them.
// RUN: %blu-opt %s --split-input-file --blu-align-loops --mlir-print-local-scope | %filecheck %s

// Sums of what was multiplied by a row each: both walk over three loops.
// CHECK-LABEL: func.func @turned(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>, %[[Y:.+]]: tensor<3x4xf32>, %[[Z:.+]]: tensor<6x4xf32>)
// CHECK: %[[TERMS:.+]] = linalg.generic {{.*}} ins(%[[X]], %[[Y]] :
// CHECK: %[[SEEN:.+]] = tensor.expand_shape %[[Z]]
// CHECK: %[[SUM:.+]] = linalg.generic {{.*}} ins(%[[TERMS]], %[[SEEN]] : tensor<2x3x4xf32>, tensor<2x3x4xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[SUM]]
// CHECK: return %[[FLAT]]
#all = affine_map<(b, t, c) -> (b, t, c)>
#each = affine_map<(b, t, c) -> (t, c)>
#both = affine_map<(i, j) -> (i, j)>
func.func @turned(%x: tensor<2x3x4xf32>, %y: tensor<3x4xf32>, %z: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %whole = tensor.empty() : tensor<2x3x4xf32>
  %terms = linalg.generic {indexing_maps = [#all, #each, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %y : tensor<2x3x4xf32>, tensor<3x4xf32>) outs(%whole : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %c = arith.mulf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<2x3x4xf32>
  %flat = tensor.collapse_shape %terms [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  %empty = tensor.empty() : tensor<6x4xf32>
  %sum = linalg.generic {indexing_maps = [#both, #both, #both], iterator_types = ["parallel", "parallel"]} ins(%flat, %z : tensor<6x4xf32>, tensor<6x4xf32>) outs(%empty : tensor<6x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<6x4xf32>
  return %sum : tensor<6x4xf32>
}

// -----

// Dimensions of a transpose that are not evenly spaced stay several, where it is read and where it is written.
// CHECK-LABEL: func.func @transposed(
// CHECK: %[[HEADS:.+]] = linalg.transpose
// CHECK: %[[DONE:.+]] = linalg.generic {{.*}} ins(%[[HEADS]] : tensor<2x5x3x4xf32>)
// CHECK-NOT: tensor.collapse_shape
// CHECK: linalg.transpose ins(%[[DONE]] : tensor<2x5x3x4xf32>)
func.func @transposed(%x: tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32> {
  %e = tensor.empty() : tensor<2x5x3x4xf32>
  %heads = linalg.transpose ins(%x : tensor<2x3x5x4xf32>) outs(%e : tensor<2x5x3x4xf32>) permutation = [0, 2, 1, 3]
  %flat = tensor.collapse_shape %heads [[0, 1, 2], [3]] : tensor<2x5x3x4xf32> into tensor<30x4xf32>
  %f = tensor.empty() : tensor<30x4xf32>
  %done = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%flat : tensor<30x4xf32>) outs(%f : tensor<30x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %c = arith.negf %a : f32
    linalg.yield %c : f32
  } -> tensor<30x4xf32>
  %seen = tensor.expand_shape %done [[0, 1, 2], [3]] output_shape [2, 5, 3, 4] : tensor<30x4xf32> into tensor<2x5x3x4xf32>
  %g = tensor.empty() : tensor<2x3x5x4xf32>
  %back = linalg.transpose ins(%seen : tensor<2x5x3x4xf32>) outs(%g : tensor<2x3x5x4xf32>) permutation = [0, 2, 1, 3]
  return %back : tensor<2x3x5x4xf32>
}

// -----

// Loops that others would fuse with as they are stay: a row is reduced.
// CHECK-LABEL: func.func @reduced(
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]}
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]}
func.func @reduced(%x: tensor<2x3x4xf32>, %y: tensor<3x4xf32>) -> tensor<6xf32> {
  %whole = tensor.empty() : tensor<2x3x4xf32>
  %terms = linalg.generic {indexing_maps = [affine_map<(b, t, c) -> (b, t, c)>, affine_map<(b, t, c) -> (t, c)>, affine_map<(b, t, c) -> (b, t, c)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%x, %y : tensor<2x3x4xf32>, tensor<3x4xf32>) outs(%whole : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %c = arith.mulf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<2x3x4xf32>
  %flat = tensor.collapse_shape %terms [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
  %empty = tensor.empty() : tensor<6x4xf32>
  %root = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%flat : tensor<6x4xf32>) outs(%empty : tensor<6x4xf32>) {
  ^bb0(%a: f32, %out: f32):
    %c = arith.negf %a : f32
    linalg.yield %c : f32
  } -> tensor<6x4xf32>
  %zero = arith.constant 0.0 : f32
  %rows = tensor.empty() : tensor<6xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<6xf32>) -> tensor<6xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%root : tensor<6x4xf32>) outs(%zeros : tensor<6xf32>) {
  ^bb0(%a: f32, %out: f32):
    %c = arith.addf %out, %a : f32
    linalg.yield %c : f32
  } -> tensor<6xf32>
  return %sums : tensor<6xf32>
}
