// Shape ops are views where memory can stay where it is, and copies into place where it cannot.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @reshape(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[FLAT]] [[0], [1, 2]] output_shape [6, 2, 2] : tensor<6x4xf32> into tensor<6x2x2xf32>
// CHECK: return %[[SPLIT]] : tensor<6x2x2xf32>
func.func @reshape(%x: tensor<2x3x4xf32>) -> tensor<6x2x2xf32> {
  %0 = "blu.reshape"(%x) {shape = array<i64: 6, 2, 2>} : (tensor<2x3x4xf32>) -> tensor<6x2x2xf32>
  return %0 : tensor<6x2x2xf32>
}

// -----

// Where factors do not line up, everything becomes one dimension first.
// CHECK-LABEL: func.func @reshape_across(
// CHECK-SAME: %[[X:.+]]: tensor<4x3xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1]] : tensor<4x3xf32> into tensor<12xf32>
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[FLAT]] [[0, 1]] output_shape [6, 2] : tensor<12xf32> into tensor<6x2xf32>
// CHECK: return %[[SPLIT]] : tensor<6x2xf32>
func.func @reshape_across(%x: tensor<4x3xf32>) -> tensor<6x2xf32> {
  %0 = "blu.reshape"(%x) {shape = array<i64: 6, 2>} : (tensor<4x3xf32>) -> tensor<6x2xf32>
  return %0 : tensor<6x2xf32>
}

// -----

// CHECK-LABEL: func.func @transpose(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>)
// CHECK: %[[TURNED:.+]] = linalg.transpose ins(%[[X]] : tensor<2x3x4xf32>) outs(%{{.+}} : tensor<4x2x3xf32>) permutation = [2, 0, 1]
// CHECK: return %[[TURNED]] : tensor<4x2x3xf32>
func.func @transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = "blu.transpose"(%x) {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  return %0 : tensor<4x2x3xf32>
}

// -----

// CHECK-LABEL: func.func @slice(
// CHECK-SAME: %[[X:.+]]: tensor<6x8xf32>)
// CHECK: %[[PART:.+]] = tensor.extract_slice %[[X]][1, 0] [2, 4] [1, 2] : tensor<6x8xf32> to tensor<2x4xf32>
// CHECK: return %[[PART]] : tensor<2x4xf32>
func.func @slice(%x: tensor<6x8xf32>) -> tensor<2x4xf32> {
  %0 = "blu.slice"(%x) {starts = array<i64: 1, 0>, limits = array<i64: 3, 8>, strides = array<i64: 1, 2>} : (tensor<6x8xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: func.func @broadcast(
// CHECK-SAME: %[[X:.+]]: tensor<3x1xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1]] : tensor<3x1xf32> into tensor<3xf32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1, d2) -> (d1)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>
// CHECK-SAME: ["parallel", "parallel", "parallel"]} ins(%[[FLAT]] : tensor<3xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: linalg.yield %[[IN]] : f32
// CHECK: return %[[LOOP]] : tensor<2x3x4xf32>
func.func @broadcast(%x: tensor<3x1xf32>) -> tensor<2x3x4xf32> {
  %0 = "blu.broadcast_to"(%x) {shape = array<i64: 2, 3, 4>} : (tensor<3x1xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @pad(
// CHECK-SAME: %[[X:.+]]: tensor<2x3xf32>, %[[V:.+]]: tensor<f32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[V]] : tensor<f32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: linalg.yield %[[IN]] : f32
// CHECK: %[[FULL:.+]] = tensor.insert_slice %[[X]] into %[[LOOP]][1, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<4x3xf32>
// CHECK: return %[[FULL]] : tensor<4x3xf32>
func.func @pad(%x: tensor<2x3xf32>, %v: tensor<f32>) -> tensor<4x3xf32> {
  %0 = "blu.pad"(%x, %v) {low = array<i64: 1, 0>, high = array<i64: 1, 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

// CHECK-LABEL: func.func @concatenate(
// CHECK-SAME: %[[X:.+]]: tensor<2x3xf32>, %[[Y:.+]]: tensor<2x5xf32>)
// CHECK: %[[FULL:.+]] = tensor.insert_slice %[[X]] into %{{.+}}[0, 0] [2, 3] [1, 1] : tensor<2x3xf32> into tensor<2x8xf32>
// CHECK: %[[FULL_1:.+]] = tensor.insert_slice %[[Y]] into %[[FULL]][0, 3] [2, 5] [1, 1] : tensor<2x5xf32> into tensor<2x8xf32>
// CHECK: return %[[FULL_1]] : tensor<2x8xf32>
func.func @concatenate(%x: tensor<2x3xf32>, %y: tensor<2x5xf32>) -> tensor<2x8xf32> {
  %0 = "blu.concatenate"(%x, %y) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Each position reads its mirror image.
// CHECK-LABEL: func.func @reverse(
// CHECK-SAME: %[[X:.+]]: tensor<2x3xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]
// CHECK-NEXT: ^bb0(%{{.+}}: f32):
// CHECK-NEXT: %[[I0:.+]] = linalg.index 0 : index
// CHECK-NEXT: %[[I1:.+]] = linalg.index 1 : index
// CHECK-NEXT: %[[C2:.+]] = arith.constant 2 : index
// CHECK-NEXT: %[[SUBI:.+]] = arith.subi %[[C2]], %[[I1]] : index
// CHECK-NEXT: %[[EXTRACT:.+]] = tensor.extract %[[X]][%[[I0]], %[[SUBI]]] : tensor<2x3xf32>
// CHECK-NEXT: linalg.yield %[[EXTRACT]] : f32
// CHECK: return %[[LOOP]] : tensor<2x3xf32>
func.func @reverse(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.reverse"(%x) {axes = array<i64: 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// On GPUs, an image and the padding around it are written by one loop; before and behind rows it is filled first.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='lower-to-linalg{moves-in-loops=true}' --mlir-print-local-scope | %filecheck %s --check-prefix=LOOPS
// LOOPS-LABEL: func.func @image(
// LOOPS-SAME: %[[X:.+]]: tensor<2x3x5x4xf32>)
// LOOPS: linalg.generic {{.*}} outs(%{{.+}} : tensor<3x5x5x4xf32>)
// LOOPS: %[[LAST:.+]] = linalg.index 3
// LOOPS: tensor.extract %[[X]][%{{.+}}, %{{.+}}, %{{.+}}, %[[LAST]]]
// LOOPS-NOT: tensor.insert_slice
// LOOPS-LABEL: func.func @ends(
// LOOPS: tensor.insert_slice
func.func @image(%x: tensor<2x3x5x4xf32>) -> tensor<3x5x5x4xf32> {
  %0 = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "blu.pad"(%x, %0) {low = array<i64: 0, 1, 0, 0>, high = array<i64: 1, 1, 0, 0>} : (tensor<2x3x5x4xf32>, tensor<f32>) -> tensor<3x5x5x4xf32>
  return %1 : tensor<3x5x5x4xf32>
}
func.func @ends(%x: tensor<2x3x4xf32>) -> tensor<2x4x5xf32> {
  %0 = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "blu.pad"(%x, %0) {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 1>} : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x4x5xf32>
  return %1 : tensor<2x4x5xf32>
}
