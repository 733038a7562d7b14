// Gathers read inside of a loop's body, at indices that are clamped there and checked beside.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg' --mlir-print-local-scope | %filecheck %s

// An embedding: one loop over tokens, one over the width.
// CHECK-LABEL: func.func @embedding(
// CHECK-SAME: %[[W:.+]]: tensor<10x4xf32>, %[[I:.+]]: tensor<2x3xi32>)
// CHECK: %[[NOTHING:.+]] = arith.constant 0 : i64
// CHECK: %[[START:.+]] = linalg.fill ins(%[[NOTHING]] : i64) outs(%{{.+}} : tensor<i64>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[I]] [[0, 1]] : tensor<2x3xi32> into tensor<6xi32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>
// CHECK-SAME: ["reduction"]} ins(%[[FLAT]] : tensor<6xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i32, %[[OUT:.+]]: i64):
// CHECK-NEXT: %[[EXTSI:.+]] = arith.extsi %[[IN]] : i32 to i64
// CHECK-NEXT: %[[CM10:.+]] = arith.constant -10 : i64
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi slt, %[[EXTSI]], %[[CM10]] : i64
// CHECK-NEXT: %[[C10:.+]] = arith.constant 10 : i64
// CHECK-NEXT: %[[CMPI_1:.+]] = arith.cmpi sge, %[[EXTSI]], %[[C10]] : i64
// CHECK-NEXT: %[[ORI:.+]] = arith.ori %[[CMPI]], %[[CMPI_1]] : i1
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[ORI]], %[[EXTSI]], %[[C0]] : i64
// CHECK-NEXT: %[[MAXUI:.+]] = arith.maxui %[[OUT]], %[[SELECT]] : i64
// CHECK-NEXT: linalg.yield %[[MAXUI]] : i64
// CHECK: "plan.check"(%[[LOOP]]) {kind = "index", op = "take", size = 10 : i64} : (tensor<i64>) -> ()
// CHECK: %[[FLAT_1:.+]] = tensor.collapse_shape %[[I]] [[0, 1]] : tensor<2x3xi32> into tensor<6xi32>
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[FLAT_1]] : tensor<6xi32>)
// CHECK-NEXT: ^bb0(%[[IN_1:.+]]: i32, %{{.+}}: f32):
// CHECK-NEXT: %[[I0:.+]] = linalg.index 0 : index
// CHECK-NEXT: %[[I1:.+]] = linalg.index 1 : index
// CHECK-NEXT: %[[EXTSI_2:.+]] = arith.extsi %[[IN_1]] : i32 to i64
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[CMPI_2:.+]] = arith.cmpi slt, %[[EXTSI_2]], %[[C0]] : i64
// CHECK-NEXT: %[[C10_1:.+]] = arith.constant 10 : i64
// CHECK-NEXT: %[[ADDI:.+]] = arith.addi %[[EXTSI_2]], %[[C10_1]] : i64
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[CMPI_2]], %[[ADDI]], %[[EXTSI_2]] : i64
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[MAXSI_1:.+]] = arith.maxsi %[[SELECT_1]], %[[C0_1]] : i64
// CHECK-NEXT: %[[C9:.+]] = arith.constant 9 : i64
// CHECK-NEXT: %[[MINSI:.+]] = arith.minsi %[[MAXSI_1]], %[[C9]] : i64
// CHECK-NEXT: %[[CAST:.+]] = arith.index_cast %[[MINSI]] : i64 to index
// CHECK-NEXT: %[[EXTRACT:.+]] = tensor.extract %[[W]][%[[CAST]], %[[I1]]] : tensor<10x4xf32>
// CHECK-NEXT: linalg.yield %[[EXTRACT]] : f32
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[LOOP_1]] [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
// CHECK: return %[[SPLIT]] : tensor<2x3x4xf32>
func.func @embedding(%w: tensor<10x4xf32>, %i: tensor<2x3xi32>) -> tensor<2x3x4xf32> {
  %0 = "blu.take"(%w, %i) {axis = 0 : i64} : (tensor<10x4xf32>, tensor<2x3xi32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: func.func @take_along_axis(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[I:.+]]: tensor<3x1xi64>)
// CHECK: "plan.check"(%{{.+}}) {kind = "index", op = "take_along_axis", size = 4 : i64} : (tensor<i64>) -> ()
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[I]] : tensor<3x1xi64>)
// CHECK-NEXT: ^bb0(%[[IN_1:.+]]: i64, %{{.+}}: f32):
// CHECK-NEXT: %[[I0:.+]] = linalg.index 0 : index
// CHECK-NEXT: %[[I1:.+]] = linalg.index 1 : index
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[CMPI_2:.+]] = arith.cmpi slt, %[[IN_1]], %[[C0]] : i64
// CHECK-NEXT: %[[C4_1:.+]] = arith.constant 4 : i64
// CHECK-NEXT: %[[ADDI:.+]] = arith.addi %[[IN_1]], %[[C4_1]] : i64
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[CMPI_2]], %[[ADDI]], %[[IN_1]] : i64
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[MAXSI_1:.+]] = arith.maxsi %[[SELECT_1]], %[[C0_1]] : i64
// CHECK-NEXT: %[[C3:.+]] = arith.constant 3 : i64
// CHECK-NEXT: %[[MINSI:.+]] = arith.minsi %[[MAXSI_1]], %[[C3]] : i64
// CHECK-NEXT: %[[CAST:.+]] = arith.index_cast %[[MINSI]] : i64 to index
// CHECK-NEXT: %[[EXTRACT:.+]] = tensor.extract %[[X]][%[[I0]], %[[CAST]]] : tensor<3x4xf32>
// CHECK-NEXT: linalg.yield %[[EXTRACT]] : f32
// CHECK: return %[[LOOP_1]] : tensor<3x1xf32>
func.func @take_along_axis(%x: tensor<3x4xf32>, %i: tensor<3x1xi64>) -> tensor<3x1xf32> {
  %0 = "blu.take_along_axis"(%x, %i) {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x1xi64>) -> tensor<3x1xf32>
  return %0 : tensor<3x1xf32>
}

// -----

// A start that leaves no room is moved, as in every other framework.
// CHECK-LABEL: func.func @dynamic_slice(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>, %[[I:.+]]: tensor<i32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]
// CHECK-NEXT: ^bb0(%{{.+}}: f32):
// CHECK-NEXT: %[[EXTRACT:.+]] = tensor.extract %[[I]][] : tensor<i32>
// CHECK-NEXT: %[[EXTSI:.+]] = arith.extsi %[[EXTRACT]] : i32 to i64
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[MAXSI:.+]] = arith.maxsi %[[EXTSI]], %[[C0]] : i64
// CHECK-NEXT: %[[C5:.+]] = arith.constant 5 : i64
// CHECK-NEXT: %[[MINSI:.+]] = arith.minsi %[[MAXSI]], %[[C5]] : i64
// CHECK-NEXT: %[[CAST:.+]] = arith.index_cast %[[MINSI]] : i64 to index
// CHECK-NEXT: %[[I0:.+]] = linalg.index 0 : index
// CHECK-NEXT: %[[ADDI:.+]] = arith.addi %[[CAST]], %[[I0]] : index
// CHECK-NEXT: %[[EXTRACT_1:.+]] = tensor.extract %[[X]][%[[ADDI]]] : tensor<8xf32>
// CHECK-NEXT: linalg.yield %[[EXTRACT_1]] : f32
// CHECK: return %[[LOOP]] : tensor<3xf32>
func.func @dynamic_slice(%x: tensor<8xf32>, %i: tensor<i32>) -> tensor<3xf32> {
  %0 = "blu.dynamic_slice"(%x, %i) {sizes = array<i64: 3>, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8xf32>, tensor<i32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// CHECK-LABEL: func.func @dynamic_update_slice(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>, %[[U:.+]]: tensor<3xf32>, %[[I:.+]]: tensor<i32>)
// CHECK: %[[EXTRACT:.+]] = tensor.extract %[[I]][] : tensor<i32>
// CHECK: %[[EXTSI:.+]] = arith.extsi %[[EXTRACT]] : i32 to i64
// CHECK: %[[C0:.+]] = arith.constant 0 : i64
// CHECK: %[[MAXSI:.+]] = arith.maxsi %[[EXTSI]], %[[C0]] : i64
// CHECK: %[[C5:.+]] = arith.constant 5 : i64
// CHECK: %[[MINSI:.+]] = arith.minsi %[[MAXSI]], %[[C5]] : i64
// CHECK: %[[CAST:.+]] = arith.index_cast %[[MINSI]] : i64 to index
// CHECK: %[[FULL:.+]] = tensor.insert_slice %[[U]] into %[[X]][%[[CAST]]] [3] [1] : tensor<3xf32> into tensor<8xf32>
// CHECK: return %[[FULL]] : tensor<8xf32>
func.func @dynamic_update_slice(%x: tensor<8xf32>, %u: tensor<3xf32>, %i: tensor<i32>) -> tensor<8xf32> {
  %0 = "blu.dynamic_update_slice"(%x, %u, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8xf32>, tensor<3xf32>, tensor<i32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A kernel of its own adds in place: the op stays, its indices are checked.
// CHECK-LABEL: func.func @scatter_add(
// CHECK-SAME: %[[X:.+]]: tensor<10x4xf32>, %[[I:.+]]: tensor<3xi32>, %[[U:.+]]: tensor<3x4xf32>)
// CHECK: "plan.check"(%{{.+}}) {kind = "index", op = "scatter_add", size = 10 : i64} : (tensor<i64>) -> ()
// CHECK: %[[SCATTER_ADD:.+]] = "blu.scatter_add"(%[[X]], %[[I]], %[[U]]) {axis = 0 : i64}
// CHECK: return %[[SCATTER_ADD]] : tensor<10x4xf32>
func.func @scatter_add(%x: tensor<10x4xf32>, %i: tensor<3xi32>, %u: tensor<3x4xf32>) -> tensor<10x4xf32> {
  %0 = "blu.scatter_add"(%x, %i, %u) {axis = 0 : i64} : (tensor<10x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<10x4xf32>
  return %0 : tensor<10x4xf32>
}

// -----

// CHECK-LABEL: func.func @one_hot(
// CHECK-SAME: %[[I:.+]]: tensor<3xi32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]
// CHECK-NEXT: ^bb0(%{{.+}}: i32):
// CHECK-NEXT: %[[I0:.+]] = linalg.index 0 : index
// CHECK-NEXT: %[[CAST:.+]] = arith.index_cast %[[I0]] : index to i64
// CHECK-NEXT: %[[TRUNCI:.+]] = arith.trunci %[[CAST]] : i64 to i32
// CHECK-NEXT: linalg.yield %[[TRUNCI]] : i32
// CHECK-NOT: tensor.expand_shape
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[I]], %[[LOOP]] : tensor<3xi32>, tensor<5xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i32, %[[IN_1:.+]]: i32, %{{.+}}: i1):
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi eq, %[[IN]], %[[IN_1]] : i32
// CHECK-NEXT: linalg.yield %[[CMPI]] : i1
// CHECK: %[[LOOP_2:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[LOOP_1]] : tensor<3x5xi1>)
// CHECK-NEXT: ^bb0(%[[IN_2:.+]]: i1, %{{.+}}: f32):
// CHECK-NEXT: %[[UITOFP:.+]] = arith.uitofp %[[IN_2]] : i1 to f32
// CHECK-NEXT: linalg.yield %[[UITOFP]] : f32
// CHECK: return %[[LOOP_2]] : tensor<3x5xf32>
func.func @one_hot(%i: tensor<3xi32>) -> tensor<3x5xf32> {
  %0 = "blu.one_hot"(%i) {depth = 5 : i64, dtype = f32} : (tensor<3xi32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
