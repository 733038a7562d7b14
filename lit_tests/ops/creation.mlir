// Tensors out of nothing: constants, positions.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @splat(
// CHECK: %[[C1_5:.+]] = arith.constant 1.500000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C1_5]] : f32) outs(%{{.+}} : tensor<3x4xf32>)
// CHECK: return %[[START]] : tensor<3x4xf32>
func.func @splat() -> tensor<3x4xf32> {
  %0 = "blu.constant"() {value = dense<1.5> : tensor<3x4xf32>} : () -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @unsigned(
// CHECK: %[[C_1_:.+]] = arith.constant dense<[1, 2, -1]> : tensor<3xi8>
// CHECK: return %[[C_1_]] : tensor<3xi8>
func.func @unsigned() -> tensor<3xui8> {
  %0 = "blu.constant"() {value = dense<[1, 2, 255]> : tensor<3xui8>} : () -> tensor<3xui8>
  return %0 : tensor<3xui8>
}

// -----

// CHECK-LABEL: func.func @iota(
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]
// CHECK-NEXT: ^bb0(%{{.+}}: bf16):
// CHECK-NEXT: %[[I1:.+]] = linalg.index 1 : index
// CHECK-NEXT: %[[CAST:.+]] = arith.index_cast %[[I1]] : index to i64
// CHECK-NEXT: %[[SITOFP:.+]] = arith.sitofp %[[CAST]] : i64 to f32
// CHECK-NEXT: %[[TRUNCF:.+]] = arith.truncf %[[SITOFP]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[TRUNCF]] : bf16
// CHECK: return %[[LOOP]] : tensor<3x4xbf16>
func.func @iota() -> tensor<3x4xbf16> {
  %0 = "blu.iota"() {shape = array<i64: 3, 4>, axis = 1 : i64, dtype = bf16} : () -> tensor<3x4xbf16>
  return %0 : tensor<3x4xbf16>
}
