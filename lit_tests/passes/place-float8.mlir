// Large products of two matrices of fp8 stay so; others, and those of parts of matrices, are made in bf16.
// RUN: %blu-opt %s --blu-place-float8 --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @large(
// CHECK: linalg.contract {{.*}} ins(%{{.+}}, %{{.+}} : tensor<128x256xf8E4M3FN>, tensor<256x128xf8E5M2>)
func.func @large(%x: tensor<128x256xf8E4M3FN>, %w: tensor<128x256xf8E5M2>, %zeros: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %empty = tensor.empty() : tensor<256x128xf8E5M2>
  %t = linalg.transpose ins(%w : tensor<128x256xf8E5M2>) outs(%empty : tensor<256x128xf8E5M2>) permutation = [1, 0]
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %t : tensor<128x256xf8E4M3FN>, tensor<256x128xf8E5M2>) outs(%zeros : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK-LABEL: func.func @short(
// CHECK: linalg.contract {{.*}} ins(%{{.+}}, %{{.+}} : tensor<128x127xbf16>, tensor<127x128xbf16>)
func.func @short(%x: tensor<128x127xf8E4M3FN>, %w: tensor<127x128xf8E4M3FN>, %zeros: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : tensor<128x127xf8E4M3FN>, tensor<127x128xf8E4M3FN>) outs(%zeros : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}

// CHECK-LABEL: func.func @part(
// CHECK: linalg.contract {{.*}} ins(%{{.+}}, %{{.+}} : tensor<128x256xbf16>, tensor<256x128xbf16>)
func.func @part(%x: tensor<128x300xf8E4M3FN>, %w: tensor<256x128xf8E4M3FN>, %zeros: tensor<128x128xf32>) -> tensor<128x128xf32> {
  %p = tensor.extract_slice %x[0, 3] [128, 256] [1, 1] : tensor<128x300xf8E4M3FN> to tensor<128x256xf8E4M3FN>
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%p, %w : tensor<128x256xf8E4M3FN>, tensor<256x128xf8E4M3FN>) outs(%zeros : tensor<128x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
