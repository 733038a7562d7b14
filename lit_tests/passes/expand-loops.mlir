// Loops over arguments walk over the dimensions in which their result is read.
// RUN: %blu-opt %s --split-input-file --blu-expand-loops --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @embedding(
// CHECK-SAME: %[[IDS:.+]]: tensor<2x3xi32>, %[[TABLE:.+]]: tensor<9x4xf32>, %[[POSITIONS:.+]]: tensor<3x4xf32>)
// CHECK: %[[ROWS:.+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%[[IDS]] : tensor<2x3xi32>)
// CHECK: linalg.index 2
// CHECK: tensor.extract %[[TABLE]]
// CHECK: linalg.generic {{.*}} ins(%[[ROWS]], %[[POSITIONS]] :
#rows = affine_map<(i, j) -> (i)>
#both = affine_map<(i, j) -> (i, j)>
#all = affine_map<(b, t, c) -> (b, t, c)>
#each = affine_map<(b, t, c) -> (t, c)>
func.func @embedding(%ids: tensor<2x3xi32>, %table: tensor<9x4xf32>, %positions: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  %flat = tensor.collapse_shape %ids [[0, 1]] : tensor<2x3xi32> into tensor<6xi32>
  %empty = tensor.empty() : tensor<6x4xf32>
  %rows = linalg.generic {indexing_maps = [#rows, #both], iterator_types = ["parallel", "parallel"]} ins(%flat : tensor<6xi32>) outs(%empty : tensor<6x4xf32>) {
  ^bb0(%id: i32, %out: f32):
    %column = linalg.index 1 : index
    %row = arith.index_cast %id : i32 to index
    %found = tensor.extract %table[%row, %column] : tensor<9x4xf32>
    linalg.yield %found : f32
  } -> tensor<6x4xf32>
  %seen = tensor.expand_shape %rows [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %whole = tensor.empty() : tensor<2x3x4xf32>
  %sum = linalg.generic {indexing_maps = [#all, #each, #all], iterator_types = ["parallel", "parallel", "parallel"]} ins(%seen, %positions : tensor<2x3x4xf32>, tensor<3x4xf32>) outs(%whole : tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %c = arith.addf %a, %b : f32
    linalg.yield %c : f32
  } -> tensor<2x3x4xf32>
  return %sum : tensor<2x3x4xf32>
}

// -----

// A loop that is counted stays one, and so do loops over what is no argument, or whose result is read as it is.
// CHECK-LABEL: func.func @others(
// CHECK-COUNT-3: tensor.expand_shape
func.func @others(%x: tensor<6xf32>, %y: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %e = tensor.empty() : tensor<6xf32>
  %g = tensor.empty() : tensor<2x3xf32>
  %counted = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %r = arith.sitofp %n : i32 to f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  %made = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %counted : tensor<6xf32>, tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.mulf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  %read = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%a: f32, %o: f32):
    %r = arith.negf %a : f32
    linalg.yield %r : f32
  } -> tensor<6xf32>
  %0 = tensor.expand_shape %counted [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %1 = tensor.expand_shape %made [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %2 = tensor.expand_shape %read [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %s0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%0, %1 : tensor<2x3xf32>, tensor<2x3xf32>) outs(%g : tensor<2x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.addf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x3xf32>
  return %s0, %y, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}
