// Sums along rows of what a large product makes, and is stored in halves only, become sums over ranges of columns, which
// join the product, and one of those.
// RUN: %blu-opt %s --split-input-file --blu-split-row-sums --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --split-input-file --blu-split-row-sums --blu-fuse --mlir-print-local-scope | %filecheck %s --check-prefix=FUSED

// CHECK-LABEL: func.func @exponentials(
// CHECK: %[[TERMS:.+]] = linalg.generic {{.*}} ins(%{{.+}} : tensor<1024x1560xf32>, tensor<1024xf32>)
// CHECK: %[[PARTS:.+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1 floordiv 192)>], iterator_types = ["parallel", "reduction"]} ins(%[[TERMS]] : tensor<1024x1560xf32>) outs(%{{.+}} : tensor<1024x9xf32>) attrs = {blu.of_product}
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%[[PARTS]] : tensor<1024x9xf32>) outs(%{{.+}} : tensor<1024xf32>)
// FUSED-LABEL: func.func @exponentials(
// FUSED: %[[MADE:.+]]:2 = call @gemm_0({{.*}}) : ({{.*}}) -> (tensor<1024x1560xbf16>, tensor<1024x9xf32>)
// FUSED: call @rows_0(%[[MADE]]#1) : (tensor<1024x9xf32>) -> tensor<1024xf32>
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @exponentials(%x: tensor<1024x64xbf16>, %w: tensor<64x1560xbf16>, %r: tensor<1024xf32>) -> (tensor<1024x1560xbf16>, tensor<1024xf32>) {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<1024x1560xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024x1560xf32>) -> tensor<1024x1560xf32>
    %product = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<1024x64xbf16>, tensor<64x1560xbf16>) outs(%zeros : tensor<1024x1560xf32>) -> tensor<1024x1560xf32>
    %e = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%product, %r : tensor<1024x1560xf32>, tensor<1024xf32>) outs(%empty : tensor<1024x1560xf32>) {
    ^bb0(%in: f32, %less: f32, %out: f32):
      %sub = arith.subf %in, %less : f32
      %exp = math.exp %sub : f32
      linalg.yield %exp : f32
    } -> tensor<1024x1560xf32>
    %half = tensor.empty() : tensor<1024x1560xbf16>
    %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%e : tensor<1024x1560xf32>) outs(%half : tensor<1024x1560xbf16>) {
    ^bb0(%in: f32, %out: bf16):
      %narrow = arith.truncf %in : f32 to bf16
      linalg.yield %narrow : bf16
    } -> tensor<1024x1560xbf16>
    %line = tensor.empty() : tensor<1024xf32>
    %nothing = linalg.fill ins(%zero : f32) outs(%line : tensor<1024xf32>) -> tensor<1024xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%e : tensor<1024x1560xf32>) outs(%nothing : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %add = arith.addf %out, %in : f32
      linalg.yield %add : f32
    } -> tensor<1024xf32>
    return %y, %sum : tensor<1024x1560xbf16>, tensor<1024xf32>
  }
}

// -----

// What is stored in f32 is read again, and so is what nobody stores.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: floordiv
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @others(%x: tensor<1024x64xbf16>, %w: tensor<64x1536xbf16>) -> (tensor<1024x1536xf32>, tensor<1024xf32>, tensor<1024xf32>) {
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<1024x1536xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<1024x1536xf32>) -> tensor<1024x1536xf32>
    %product = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<1024x64xbf16>, tensor<64x1536xbf16>) outs(%zeros : tensor<1024x1536xf32>) -> tensor<1024x1536xf32>
    %line = tensor.empty() : tensor<1024xf32>
    %nothing = linalg.fill ins(%zero : f32) outs(%line : tensor<1024xf32>) -> tensor<1024xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%product : tensor<1024x1536xf32>) outs(%nothing : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %add = arith.addf %out, %in : f32
      linalg.yield %add : f32
    } -> tensor<1024xf32>
    %other = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] ins(%x, %w : tensor<1024x64xbf16>, tensor<64x1536xbf16>) outs(%zeros : tensor<1024x1536xf32>) -> tensor<1024x1536xf32>
    %only = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]} ins(%other : tensor<1024x1536xf32>) outs(%nothing : tensor<1024xf32>) {
    ^bb0(%in: f32, %out: f32):
      %add = arith.addf %out, %in : f32
      linalg.yield %add : f32
    } -> tensor<1024xf32>
    return %product, %sum, %only : tensor<1024x1536xf32>, tensor<1024xf32>, tensor<1024xf32>
  }
}
