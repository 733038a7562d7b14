// Sums over many rows become sums over ranges of rows, and one of those; what is added up is made before.
// RUN: %blu-opt %s --split-input-file --blu-split-column-sums --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @halves(
// CHECK: %[[TERMS:.+]] = linalg.generic {{.*}}iterator_types = ["parallel", "parallel"]} ins(%{{.+}} : tensor<1000x8xbf16>)
// CHECK-NEXT: bb0
// CHECK-NEXT: arith.extf
// CHECK-NEXT: linalg.yield
// CHECK: %[[PARTS:.+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0 floordiv 16, d1)>], iterator_types = ["reduction", "parallel"]} ins(%[[TERMS]] : tensor<1000x8xf32>) outs(%{{.+}} : tensor<63x8xf32>)
// CHECK: %[[SUM:.+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%[[PARTS]] : tensor<63x8xf32>)
// CHECK: return %[[SUM]]
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @halves(%x: tensor<1000x8xbf16>) -> tensor<8xf32> {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<8xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<1000x8xbf16>) outs(%zeros : tensor<8xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %wide = arith.extf %in : bf16 to f32
      %add = arith.addf %out, %wide : f32
      linalg.yield %add : f32
    } -> tensor<8xf32>
    return %sum : tensor<8xf32>
  }
}

// -----

// A few rows are added up at once, and so are columns of a transposition, which are rows in memory.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: floordiv
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @others(%x: tensor<100x8xf32>, %y: tensor<8x1000xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<8xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
    %few = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<100x8xf32>) outs(%zeros : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %add = arith.addf %out, %in : f32
      linalg.yield %add : f32
    } -> tensor<8xf32>
    %turned_empty = tensor.empty() : tensor<1000x8xf32>
    %turned = linalg.transpose ins(%y : tensor<8x1000xf32>) outs(%turned_empty : tensor<1000x8xf32>) permutation = [1, 0]
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%turned : tensor<1000x8xf32>) outs(%zeros : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %add = arith.addf %out, %in : f32
      linalg.yield %add : f32
    } -> tensor<8xf32>
    return %few, %sum : tensor<8xf32>, tensor<8xf32>
  }
}
