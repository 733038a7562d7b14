// A sort is a key for each element, the order of the keys, and a gather; only the order is a kernel of its own family.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg' --mlir-print-local-scope | %filecheck %s

// Keys are unsigned integers in the order of the floats, NaN last.
// CHECK-LABEL: func.func @argsort(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[X]] : tensor<3x4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: i32):
// CHECK-NEXT: %[[BITCAST:.+]] = arith.bitcast %[[IN]] : f32 to i32
// CHECK-NEXT: %[[CMAX:.+]] = arith.constant 2147483647 : i32
// CHECK-NEXT: %[[ANDI:.+]] = arith.andi %[[BITCAST]], %[[CMAX]] : i32
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi slt, %[[BITCAST]], %[[C0]] : i32
// CHECK-NEXT: %[[CMAX_1:.+]] = arith.constant 2147483647 : i32
// CHECK-NEXT: %[[XORI:.+]] = arith.xori %[[BITCAST]], %[[CMAX_1]] : i32
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[CMPI]], %[[XORI]], %[[BITCAST]] : i32
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI_1:.+]] = arith.cmpi eq, %[[ANDI]], %[[C0_1]] : i32
// CHECK-NEXT: %[[C0_2:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[CMPI_1]], %[[C0_2]], %[[SELECT]] : i32
// CHECK-NEXT: %[[CINFINITY:.+]] = arith.constant 2139095040 : i32
// CHECK-NEXT: %[[CMPI_2:.+]] = arith.cmpi sgt, %[[ANDI]], %[[CINFINITY]] : i32
// CHECK-NEXT: %[[CMAX_2:.+]] = arith.constant 2147483647 : i32
// CHECK-NEXT: %[[SELECT_2:.+]] = arith.select %[[CMPI_2]], %[[CMAX_2]], %[[SELECT_1]] : i32
// CHECK-NEXT: linalg.yield %[[SELECT_2]] : i32
// CHECK: %[[ARGSORT:.+]] = "blu.argsort"(%[[LOOP]]) {axis = 1 : i64, descending = false}
// CHECK: return %[[ARGSORT]] : tensor<3x4xi64>
func.func @argsort(%x: tensor<3x4xf32>) -> tensor<3x4xi64> {
  %0 = "blu.argsort"(%x) {axis = 1 : i64, descending = false} : (tensor<3x4xf32>) -> tensor<3x4xi64>
  return %0 : tensor<3x4xi64>
}

// -----

// The k largest: the beginning of the order of the keys, and a gather, whose positions are known to be inside.
// CHECK-LABEL: func.func @top_k(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK: arith.bitcast
// CHECK: %[[CM1:.+]] = arith.constant -1 : i32
// CHECK: arith.xori %{{.+}}, %[[CM1]] : i32
// CHECK: %[[FIRST:.+]] = "blu.arg_top_k"(%{{.+}}) {k = 2 : i64, largest = false} : (tensor<3x4xi32>) -> tensor<3x2xi64>
// CHECK-NOT: plan.check
// CHECK: %[[VALUES:.+]] = linalg.generic
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[FIRST]] : tensor<3x2xi64>)
// CHECK: %[[ROW:.+]] = linalg.index 0 : index
// CHECK: tensor.extract %[[X]][%[[ROW]], %{{.+}}] : tensor<3x4xf32>
// CHECK: return %[[VALUES]], %[[FIRST]] : tensor<3x2xf32>, tensor<3x2xi64>
func.func @top_k(%x: tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>) {
  %0, %1 = "blu.top_k"(%x) {k = 2 : i64} : (tensor<3x4xf32>) -> (tensor<3x2xf32>, tensor<3x2xi64>)
  return %0, %1 : tensor<3x2xf32>, tensor<3x2xi64>
}

// -----

// CHECK-LABEL: func.func @sort(
// CHECK: linalg.generic
// CHECK: arith.bitcast %{{.+}} : f32 to i32
// CHECK: arith.constant 2147483647 : i32
// CHECK: arith.andi %{{.+}}, %{{.+}} : i32
// CHECK: arith.constant 0 : i32
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i32
// CHECK: arith.constant 2147483647 : i32
// CHECK: arith.xori %{{.+}}, %{{.+}} : i32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i32
// CHECK: arith.constant 0 : i32
// CHECK: arith.cmpi eq, %{{.+}}, %{{.+}} : i32
// CHECK: arith.constant 0 : i32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i32
// CHECK: arith.constant 2139095040 : i32
// CHECK: arith.cmpi sgt, %{{.+}}, %{{.+}} : i32
// CHECK: arith.constant 2147483647 : i32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i32
// CHECK: tensor.expand_shape
// CHECK: "blu.argsort"(
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: linalg.index
// CHECK: arith.index_cast %{{.+}} : i64 to index
// CHECK: tensor.extract
func.func @sort(%x: tensor<9xf32>) -> tensor<9xf32> {
  %0 = "blu.sort"(%x) {axis = 0 : i64, descending = false} : (tensor<9xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
