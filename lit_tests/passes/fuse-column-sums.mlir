// A product makes the sums over ranges of rows that are marked as such, and what they widen only for them; no others.
// RUN: %blu-opt %s --blu-fuse --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @added_up_by_a_product(
// CHECK-NEXT: call @gemm_0(%{{.+}}, %{{.+}}) : (tensor<64x8xbf16>, tensor<8x4xbf16>) -> (tensor<64x4xbf16>, tensor<2x4xf32>)
// CHECK: call @gemm_1(%{{.+}}, %{{.+}}) : (tensor<64x8xbf16>, tensor<8x4xbf16>) -> tensor<64x4xbf16>
// CHECK: call @rows_0(%{{.+}}) : (tensor<64x4xbf16>) -> tensor<2x4xf32>
#same = affine_map<(d0, d1) -> (d0, d1)>
#parts = affine_map<(d0, d1) -> (d0 floordiv 32, d1)>
#a = affine_map<(d0, d1, d2) -> (d0, d2)>
#b = affine_map<(d0, d1, d2) -> (d2, d1)>
#c = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @added_up_by_a_product(%x: tensor<64x8xbf16>, %w: tensor<8x4xbf16>) -> (tensor<64x4xbf16>, tensor<2x4xf32>, tensor<64x4xbf16>, tensor<2x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<64x4xf32>
  %h = tensor.empty() : tensor<64x4xbf16>
  %s = tensor.empty() : tensor<2x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<64x4xf32>) -> tensor<64x4xf32>
  %t = linalg.fill ins(%zero : f32) outs(%s : tensor<2x4xf32>) -> tensor<2x4xf32>
  %p = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w : tensor<64x8xbf16>, tensor<8x4xbf16>) outs(%z : tensor<64x4xf32>) -> tensor<64x4xf32>
  %n = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<64x4xf32>) outs(%h : tensor<64x4xbf16>) {
  ^bb0(%i: f32, %o: bf16):
    %r = arith.truncf %i : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<64x4xbf16>
  %l = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%n : tensor<64x4xbf16>) outs(%e : tensor<64x4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %r = arith.extf %i : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64x4xf32>
  %u = linalg.generic {indexing_maps = [#same, #parts], iterator_types = ["reduction", "parallel"]} ins(%l : tensor<64x4xf32>) outs(%t : tensor<2x4xf32>) attrs = {blu.of_product} {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %o, %i : f32
    linalg.yield %r : f32
  } -> tensor<2x4xf32>
  %p2 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w : tensor<64x8xbf16>, tensor<8x4xbf16>) outs(%z : tensor<64x4xf32>) -> tensor<64x4xf32>
  %n2 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%p2 : tensor<64x4xf32>) outs(%h : tensor<64x4xbf16>) {
  ^bb0(%i: f32, %o: bf16):
    %r = arith.truncf %i : f32 to bf16
    linalg.yield %r : bf16
  } -> tensor<64x4xbf16>
  %l2 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%n2 : tensor<64x4xbf16>) outs(%e : tensor<64x4xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %r = arith.extf %i : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<64x4xf32>
  %u2 = linalg.generic {indexing_maps = [#same, #parts], iterator_types = ["reduction", "parallel"]} ins(%l2 : tensor<64x4xf32>) outs(%t : tensor<2x4xf32>) {
  ^bb0(%i: f32, %o: f32):
    %r = arith.addf %o, %i : f32
    linalg.yield %r : f32
  } -> tensor<2x4xf32>
  return %n, %u, %n2, %u2 : tensor<64x4xbf16>, tensor<2x4xf32>, tensor<64x4xbf16>, tensor<2x4xf32>
}

// A gradient of attention takes the sums of its rows, and nothing else.
// CHECK-LABEL: func.func @added_up_by_a_gradient(
// CHECK: %[[GRADIENT:.+]]:4 = call @attention_gradient_0(%{{.+}}, %{{.+}}) : (tensor<3x128x64xbf16>, tensor<3x128x2xf32>) -> (tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x2x64xf32>)
// CHECK: call @rows_1(%[[GRADIENT]]#1) : (tensor<3x128x64xbf16>) -> tensor<3x128x64xf32>
func.func @added_up_by_a_gradient(%g: tensor<3x128x64xbf16>, %l: tensor<3x128x2xf32>) -> (tensor<3x128x64xbf16>, tensor<3x2x64xf32>, tensor<3x128x64xf32>) {
  %gradients:3 = "blu.attention_gradient"(%g, %g, %g, %g, %g, %l) {causal = true, narrow = true, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 1>, precision = "highest", scale = 1.0 : f64} : (tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x128x2xf32>) -> (tensor<3x128x64xbf16>, tensor<3x128x64xbf16>, tensor<3x128x64xbf16>)
  %zero = arith.constant 0.0 : f32
  %few = tensor.empty() : tensor<3x2x64xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%few : tensor<3x2x64xf32>) -> tensor<3x2x64xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i floordiv 64, j)>], iterator_types = ["parallel", "reduction", "parallel"]} ins(%gradients#0 : tensor<3x128x64xbf16>) outs(%zeros : tensor<3x2x64xf32>) attrs = {blu.of_gradient} {
  ^bb0(%i: bf16, %o: f32):
    %w = arith.extf %i : bf16 to f32
    %r = arith.addf %o, %w : f32
    linalg.yield %r : f32
  } -> tensor<3x2x64xf32>
  %e = tensor.empty() : tensor<3x128x64xf32>
  %wide = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%gradients#1 : tensor<3x128x64xbf16>) outs(%e : tensor<3x128x64xf32>) {
  ^bb0(%i: bf16, %o: f32):
    %r = arith.extf %i : bf16 to f32
    linalg.yield %r : f32
  } -> tensor<3x128x64xf32>
  return %gradients#0, %sums, %wide : tensor<3x128x64xbf16>, tensor<3x2x64xf32>, tensor<3x128x64xf32>
}
