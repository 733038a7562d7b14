// Products of fp8 are those of a wider dtype, whose sums are f32 as well; others stay what they are.
// RUN: %blu-opt %s --blu-widen-factors=to=bf16 --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @mixed(
// CHECK: arith.extf %{{.+}} : f8E4M3FN to f32
// CHECK: arith.truncf %{{.+}} : f32 to bf16
// CHECK: arith.extf %{{.+}} : f8E5M2 to f32
// CHECK: linalg.contract {{.*}}{blu.precision = "highest"} ins(%{{.+}}, %{{.+}} : tensor<8x16xbf16>, tensor<16x4xbf16>) outs(%{{.+}} : tensor<8x4xf32>)
func.func @mixed(%x: tensor<8x16xf8E4M3FN>, %w: tensor<16x4xf8E5M2>, %zeros: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "highest"} ins(%x, %w : tensor<8x16xf8E4M3FN>, tensor<16x4xf8E5M2>) outs(%zeros : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// CHECK-LABEL: func.func @halves(
// CHECK-NEXT: linalg.contract {{.*}} ins(%{{.+}}, %{{.+}} : tensor<8x16xf16>, tensor<16x4xf16>)
func.func @halves(%x: tensor<8x16xf16>, %w: tensor<16x4xf16>, %zeros: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %w : tensor<8x16xf16>, tensor<16x4xf16>) outs(%zeros : tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
