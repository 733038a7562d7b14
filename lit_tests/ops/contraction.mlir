// Matrix products are linalg.contract over batch, rows, columns and depth; einsum is written as one of them.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg' --mlir-print-local-scope | %filecheck %s

// A matrix on the right takes all leading dimensions of the left as rows.
// CHECK-LABEL: func.func @linear(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>, %[[W:.+]]: tensor<4x5xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<6x5xf32>)
// CHECK: %[[PRODUCT:.+]] = linalg.contract
// CHECK-SAME: affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-SAME: {blu.precision = "tf32"} ins(%[[FLAT]], %[[W]] : tensor<6x4xf32>, tensor<4x5xf32>) outs(%[[START]] :
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[PRODUCT]] [[0, 1], [2]] output_shape [2, 3, 5] : tensor<6x5xf32> into tensor<2x3x5xf32>
// CHECK: return %[[SPLIT]] : tensor<2x3x5xf32>
func.func @linear(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = "blu.matmul"(%x, %w) {precision = "tf32"} : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// -----

// CHECK-LABEL: func.func @batched(
// CHECK-SAME: %[[X:.+]]: tensor<2x2x3x4xf32>, %[[Y:.+]]: tensor<2x2x4x5xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1], [2], [3]] : tensor<2x2x3x4xf32> into tensor<4x3x4xf32>
// CHECK: %[[FLAT_1:.+]] = tensor.collapse_shape %[[Y]] [[0, 1], [2], [3]] : tensor<2x2x4x5xf32> into tensor<4x4x5xf32>
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<4x3x5xf32>)
// CHECK: %[[PRODUCT:.+]] = linalg.contract
// CHECK-SAME: affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-SAME: {blu.precision = "highest"} ins(%[[FLAT]], %[[FLAT_1]] : tensor<4x3x4xf32>, tensor<4x4x5xf32>) outs(%[[START]] :
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[PRODUCT]] [[0, 1], [2], [3]] output_shape [2, 2, 3, 5] : tensor<4x3x5xf32> into tensor<2x2x3x5xf32>
// CHECK: return %[[SPLIT]] : tensor<2x2x3x5xf32>
func.func @batched(%x: tensor<2x2x3x4xf32>, %y: tensor<2x2x4x5xf32>) -> tensor<2x2x3x5xf32> {
  %0 = "blu.matmul"(%x, %y) {precision = "highest"} : (tensor<2x2x3x4xf32>, tensor<2x2x4x5xf32>) -> tensor<2x2x3x5xf32>
  return %0 : tensor<2x2x3x5xf32>
}

// -----

// CHECK-LABEL: func.func @vectors(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[Y:.+]]: tensor<4xf32>)
// CHECK-DAG: %[[SPLIT:.+]] = tensor.expand_shape %[[X]] [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
// CHECK-DAG: %[[SPLIT_1:.+]] = tensor.expand_shape %[[Y]] [[0, 1]] output_shape [4, 1] : tensor<4xf32> into tensor<4x1xf32>
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<1x1xf32>)
// CHECK: %[[PRODUCT:.+]] = linalg.contract
// CHECK-SAME: affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-SAME: {blu.precision = "highest"} ins(%[[SPLIT]], %[[SPLIT_1]] : tensor<1x4xf32>, tensor<4x1xf32>) outs(%[[START]] :
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[PRODUCT]] [] : tensor<1x1xf32> into tensor<f32>
// CHECK: return %[[FLAT]] : tensor<f32>
func.func @vectors(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<f32> {
  %0 = "blu.matmul"(%x, %y) {precision = "highest"} : (tensor<4xf32>, tensor<4xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// Halves are summed in f32 and rounded once.
// CHECK-LABEL: func.func @halves(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf16>, %[[Y:.+]]: tensor<4x5xf16>)
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<3x5xf32>)
// CHECK: %[[PRODUCT:.+]] = linalg.contract
// CHECK-SAME: affine_map<(d0, d1, d2) -> (d0, d2)>, affine_map<(d0, d1, d2) -> (d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-SAME: {blu.precision = "highest"} ins(%[[X]], %[[Y]] : tensor<3x4xf16>, tensor<4x5xf16>) outs(%[[START]] :
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[PRODUCT]] : tensor<3x5xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f16):
// CHECK-NEXT: %[[TRUNCF:.+]] = arith.truncf %[[IN]] : f32 to f16
// CHECK-NEXT: linalg.yield %[[TRUNCF]] : f16
// CHECK: return %[[LOOP]] : tensor<3x5xf16>
func.func @halves(%x: tensor<3x4xf16>, %y: tensor<4x5xf16>) -> tensor<3x5xf16> {
  %0 = "blu.matmul"(%x, %y) {precision = "highest"} : (tensor<3x4xf16>, tensor<4x5xf16>) -> tensor<3x5xf16>
  return %0 : tensor<3x5xf16>
}

// -----

// CHECK-LABEL: func.func @einsum(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x8x4xf32>, %[[Y:.+]]: tensor<2x5x8x4xf32>)
// CHECK: %[[TURNED:.+]] = linalg.transpose ins(%[[X]] : tensor<2x3x8x4xf32>) outs(%{{.+}} : tensor<2x8x3x4xf32>) permutation = [0, 2, 1, 3]
// CHECK: %[[TURNED_1:.+]] = linalg.transpose ins(%[[Y]] : tensor<2x5x8x4xf32>) outs(%{{.+}} : tensor<2x8x4x5xf32>) permutation = [0, 2, 3, 1]
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[TURNED]] [[0, 1], [2], [3]] : tensor<2x8x3x4xf32> into tensor<16x3x4xf32>
// CHECK: %[[FLAT_1:.+]] = tensor.collapse_shape %[[TURNED_1]] [[0, 1], [2], [3]] : tensor<2x8x4x5xf32> into tensor<16x4x5xf32>
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<16x3x5xf32>)
// CHECK: %[[PRODUCT:.+]] = linalg.contract
// CHECK-SAME: affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
// CHECK-SAME: {blu.precision = "highest"} ins(%[[FLAT]], %[[FLAT_1]] : tensor<16x3x4xf32>, tensor<16x4x5xf32>) outs(%[[START]] :
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[PRODUCT]] [[0, 1], [2], [3]] output_shape [2, 8, 3, 5] : tensor<16x3x5xf32> into tensor<2x8x3x5xf32>
// CHECK: return %[[SPLIT]] : tensor<2x8x3x5xf32>
func.func @einsum(%x: tensor<2x3x8x4xf32>, %y: tensor<2x5x8x4xf32>) -> tensor<2x8x3x5xf32> {
  %0 = "blu.einsum"(%x, %y) {equation = "bqhd,bkhd->bhqk", precision = "highest"} : (tensor<2x3x8x4xf32>, tensor<2x5x8x4xf32>) -> tensor<2x8x3x5xf32>
  return %0 : tensor<2x8x3x5xf32>
}

// -----

// Letters that are summed over are loops of their own, whatever the strides of each.
// CHECK-LABEL: func.func @several_sums(
// CHECK: linalg.contract
// CHECK-SAME: affine_map<(d0, d1, d2, d3) -> (d0, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>, affine_map<(d0, d1, d2, d3) -> (d0, d1)>
// CHECK-NOT: tensor.collapse_shape
func.func @several_sums(%x: tensor<5x2x4xf32>, %w: tensor<2x4x3xf32>) -> tensor<5x3xf32> {
  %0 = "blu.contract"(%x, %w) {equation = "mjc,jcf->mf", precision = "highest"} : (tensor<5x2x4xf32>, tensor<2x4x3xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}
