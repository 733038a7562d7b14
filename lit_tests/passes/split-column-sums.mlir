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

// -----

// Ranges are those of a warp where a large product makes the terms and another one reads them: it may add them up.
// CHECK-LABEL: func.func @bias_gradient(
// CHECK: %[[TERMS:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<1024x1536xbf16>) outs(%{{.+}} : tensor<1024x1536xf32>)
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0 floordiv 32, d1)>], iterator_types = ["reduction", "parallel"]} ins(%[[TERMS]] : tensor<1024x1536xf32>) outs(%{{.+}} : tensor<32x1536xf32>) attrs = {blu.of_product}
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @bias_gradient(%x: tensor<1024x64xbf16>, %w: tensor<64x1536xbf16>, %v: tensor<8x1024xbf16>) -> (tensor<8x1536xf32>, tensor<1536xf32>) {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<1024x1536xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024x1536xf32>) -> tensor<1024x1536xf32>
    %product = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<1024x64xbf16>, tensor<64x1536xbf16>) outs(%zeros : tensor<1024x1536xf32>) -> tensor<1024x1536xf32>
    %half = tensor.empty() : tensor<1024x1536xbf16>
    %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%product : tensor<1024x1536xf32>) outs(%half : tensor<1024x1536xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %narrow = arith.truncf %in : f32 to bf16
      linalg.yield %narrow : bf16
    } -> tensor<1024x1536xbf16>
    %few = tensor.empty() : tensor<8x1536xf32>
    %start = linalg.fill ins(%zero : f32) outs(%few : tensor<8x1536xf32>) -> tensor<8x1536xf32>
    %next = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%v, %y : tensor<8x1024xbf16>, tensor<1024x1536xbf16>) outs(%start : tensor<8x1536xf32>) -> tensor<8x1536xf32>
    %line = tensor.empty() : tensor<1536xf32>
    %nothing = linalg.fill ins(%zero : f32) outs(%line : tensor<1536xf32>) -> tensor<1536xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%y : tensor<1024x1536xbf16>) outs(%nothing : tensor<1536xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %wide = arith.extf %in : bf16 to f32
      %add = arith.addf %out, %wide : f32
      linalg.yield %add : f32
    } -> tensor<1536xf32>
    return %next, %sum : tensor<8x1536xf32>, tensor<1536xf32>
  }
}
