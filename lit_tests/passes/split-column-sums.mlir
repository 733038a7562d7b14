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

// -----

// Rows of attention's gradients are added up by ranges of each head, where blocks of warpgroups have all their rows.
// CHECK-LABEL: func.func @gradients(
// CHECK: %[[GRADIENTS:.+]]:3 = "blu.attention_gradient"
// CHECK: %[[Q:.+]] = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2 floordiv 64, d3)>], iterator_types = ["parallel", "parallel", "reduction", "parallel"]} ins(%[[GRADIENTS]]#0 : tensor<2x3x256x64xbf16>) outs(%{{.+}} : tensor<2x3x4x64xf32>) attrs = {blu.of_gradient}
// CHECK: linalg.transpose ins(%[[Q]] : tensor<2x3x4x64xf32>) outs(%{{.+}} : tensor<2x4x3x64xf32>) permutation = [0, 2, 1, 3]
// CHECK-NEXT: tensor.collapse_shape %{{.+}} {{\[\[}}0, 1], [2, 3]] : tensor<2x4x3x64xf32> into tensor<8x192xf32>
// CHECK: ins(%[[GRADIENTS]]#2 : tensor<2x3x256x64xbf16>)
// CHECK: tensor.insert_slice %{{.+}}[0, 0] [8, 192] [1, 1]
// CHECK: %[[PARTS:.+]] = tensor.insert_slice %{{.+}}[0, 192] [8, 192] [1, 1]
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%[[PARTS]] : tensor<8x384xf32>)
// CHECK-LABEL: func.func @parts_of_blocks(
// CHECK-NOT: blu.of_gradient
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @gradients(%g: tensor<2x3x256x64xbf16>, %l: tensor<2x3x256x2xf32>) -> (tensor<512x384xbf16>, tensor<384xf32>) {
    %gradients:3 = "blu.attention_gradient"(%g, %g, %g, %g, %g, %l) {causal = true, narrow = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 1>, precision = "highest", scale = 1.0 : f64} : (tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x2xf32>) -> (tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>)
    %turned = tensor.empty() : tensor<2x256x3x64xbf16>
    %q = linalg.transpose ins(%gradients#0 : tensor<2x3x256x64xbf16>) outs(%turned : tensor<2x256x3x64xbf16>) permutation = [0, 2, 1, 3]
    %v = linalg.transpose ins(%gradients#2 : tensor<2x3x256x64xbf16>) outs(%turned : tensor<2x256x3x64xbf16>) permutation = [0, 2, 1, 3]
    %q_rows = tensor.collapse_shape %q [[0], [1], [2, 3]] : tensor<2x256x3x64xbf16> into tensor<2x256x192xbf16>
    %v_rows = tensor.collapse_shape %v [[0], [1], [2, 3]] : tensor<2x256x3x64xbf16> into tensor<2x256x192xbf16>
    %both = tensor.empty() : tensor<2x256x384xbf16>
    %first = tensor.insert_slice %q_rows into %both[0, 0, 0] [2, 256, 192] [1, 1, 1] : tensor<2x256x192xbf16> into tensor<2x256x384xbf16>
    %packed = tensor.insert_slice %v_rows into %first[0, 0, 192] [2, 256, 192] [1, 1, 1] : tensor<2x256x192xbf16> into tensor<2x256x384xbf16>
    %rows = tensor.collapse_shape %packed [[0, 1], [2]] : tensor<2x256x384xbf16> into tensor<512x384xbf16>
    %zero = arith.constant 0.0 : f32
    %line = tensor.empty() : tensor<384xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%line : tensor<384xf32>) -> tensor<384xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%rows : tensor<512x384xbf16>) outs(%zeros : tensor<384xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %wide = arith.extf %in : bf16 to f32
      %add = arith.addf %out, %wide : f32
      linalg.yield %add : f32
    } -> tensor<384xf32>
    return %rows, %sum : tensor<512x384xbf16>, tensor<384xf32>
  }

  func.func @parts_of_blocks(%g: tensor<2x3x192x64xbf16>, %l: tensor<2x3x192x2xf32>) -> (tensor<384x384xbf16>, tensor<384xf32>) {
    %gradients:3 = "blu.attention_gradient"(%g, %g, %g, %g, %g, %l) {causal = true, narrow = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 1>, precision = "highest", scale = 1.0 : f64} : (tensor<2x3x192x64xbf16>, tensor<2x3x192x64xbf16>, tensor<2x3x192x64xbf16>, tensor<2x3x192x64xbf16>, tensor<2x3x192x64xbf16>, tensor<2x3x192x2xf32>) -> (tensor<2x3x192x64xbf16>, tensor<2x3x192x64xbf16>, tensor<2x3x192x64xbf16>)
    %turned = tensor.empty() : tensor<2x192x3x64xbf16>
    %q = linalg.transpose ins(%gradients#0 : tensor<2x3x192x64xbf16>) outs(%turned : tensor<2x192x3x64xbf16>) permutation = [0, 2, 1, 3]
    %v = linalg.transpose ins(%gradients#2 : tensor<2x3x192x64xbf16>) outs(%turned : tensor<2x192x3x64xbf16>) permutation = [0, 2, 1, 3]
    %q_rows = tensor.collapse_shape %q [[0], [1], [2, 3]] : tensor<2x192x3x64xbf16> into tensor<2x192x192xbf16>
    %v_rows = tensor.collapse_shape %v [[0], [1], [2, 3]] : tensor<2x192x3x64xbf16> into tensor<2x192x192xbf16>
    %both = tensor.empty() : tensor<2x192x384xbf16>
    %first = tensor.insert_slice %q_rows into %both[0, 0, 0] [2, 192, 192] [1, 1, 1] : tensor<2x192x192xbf16> into tensor<2x192x384xbf16>
    %packed = tensor.insert_slice %v_rows into %first[0, 0, 192] [2, 192, 192] [1, 1, 1] : tensor<2x192x192xbf16> into tensor<2x192x384xbf16>
    %rows = tensor.collapse_shape %packed [[0, 1], [2]] : tensor<2x192x384xbf16> into tensor<384x384xbf16>
    %zero = arith.constant 0.0 : f32
    %line = tensor.empty() : tensor<384xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%line : tensor<384xf32>) -> tensor<384xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%rows : tensor<384x384xbf16>) outs(%zeros : tensor<384xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %wide = arith.extf %in : bf16 to f32
      %add = arith.addf %out, %wide : f32
      linalg.yield %add : f32
    } -> tensor<384xf32>
    return %rows, %sum : tensor<384x384xbf16>, tensor<384xf32>
  }
}

// -----

// Other targets' warps hold other rows.
// CHECK-LABEL: func.func @without_warpgroups(
// CHECK-NOT: blu.of_gradient
module attributes {blu.target = {name = "sm_80"}} {
  func.func @without_warpgroups(%g: tensor<2x3x256x64xbf16>, %l: tensor<2x3x256x2xf32>) -> (tensor<512x384xbf16>, tensor<384xf32>) {
    %gradients:3 = "blu.attention_gradient"(%g, %g, %g, %g, %g, %l) {causal = true, narrow = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 1>, precision = "highest", scale = 1.0 : f64} : (tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x2xf32>) -> (tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>, tensor<2x3x256x64xbf16>)
    %turned = tensor.empty() : tensor<2x256x3x64xbf16>
    %q = linalg.transpose ins(%gradients#0 : tensor<2x3x256x64xbf16>) outs(%turned : tensor<2x256x3x64xbf16>) permutation = [0, 2, 1, 3]
    %v = linalg.transpose ins(%gradients#2 : tensor<2x3x256x64xbf16>) outs(%turned : tensor<2x256x3x64xbf16>) permutation = [0, 2, 1, 3]
    %q_rows = tensor.collapse_shape %q [[0], [1], [2, 3]] : tensor<2x256x3x64xbf16> into tensor<2x256x192xbf16>
    %v_rows = tensor.collapse_shape %v [[0], [1], [2, 3]] : tensor<2x256x3x64xbf16> into tensor<2x256x192xbf16>
    %both = tensor.empty() : tensor<2x256x384xbf16>
    %first = tensor.insert_slice %q_rows into %both[0, 0, 0] [2, 256, 192] [1, 1, 1] : tensor<2x256x192xbf16> into tensor<2x256x384xbf16>
    %packed = tensor.insert_slice %v_rows into %first[0, 0, 192] [2, 256, 192] [1, 1, 1] : tensor<2x256x192xbf16> into tensor<2x256x384xbf16>
    %rows = tensor.collapse_shape %packed [[0, 1], [2]] : tensor<2x256x384xbf16> into tensor<512x384xbf16>
    %zero = arith.constant 0.0 : f32
    %line = tensor.empty() : tensor<384xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%line : tensor<384xf32>) -> tensor<384xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>], iterator_types = ["reduction", "parallel"]} ins(%rows : tensor<512x384xbf16>) outs(%zeros : tensor<384xf32>) {
    ^bb0(%in: bf16, %out: f32):
      %wide = arith.extf %in : bf16 to f32
      %add = arith.addf %out, %wide : f32
      linalg.yield %add : f32
    } -> tensor<384xf32>
    return %rows, %sum : tensor<512x384xbf16>, tensor<384xf32>
  }
}
