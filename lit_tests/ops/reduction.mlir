// Reductions fill with what they start from, then reduce runs of adjacent axes as one loop.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @rows(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>)
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<6xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>
// CHECK-SAME: ["parallel", "reduction"]} ins(%[[FLAT]] : tensor<6x4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[OUT:.+]]: f32):
// CHECK-NEXT: %[[ADDF:.+]] = arith.addf %[[OUT]], %[[IN]] : f32
// CHECK-NEXT: linalg.yield %[[ADDF]] : f32
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[LOOP]] [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
// CHECK: return %[[SPLIT]] : tensor<2x3xf32>
func.func @rows(%x: tensor<2x3x4xf32>) -> tensor<2x3xf32> {
  %0 = "blu.sum"(%x) {axes = array<i64: 2>, keepdims = false} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// A kept dimension is put back as a view.
// CHECK-LABEL: func.func @columns(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK: %[[C0XFF800000:.+]] = arith.constant 0xFF800000 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0XFF800000]] : f32) outs(%{{.+}} : tensor<4xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>
// CHECK-SAME: ["reduction", "parallel"]} ins(%[[X]] : tensor<3x4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[OUT:.+]]: f32):
// CHECK-NEXT: %[[MAXIMUMF:.+]] = arith.maximumf %[[OUT]], %[[IN]] : f32
// CHECK-NEXT: linalg.yield %[[MAXIMUMF]] : f32
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[LOOP]] [[0, 1]] output_shape [1, 4] : tensor<4xf32> into tensor<1x4xf32>
// CHECK: return %[[SPLIT]] : tensor<1x4xf32>
func.func @columns(%x: tensor<3x4xf32>) -> tensor<1x4xf32> {
  %0 = "blu.max"(%x) {axes = array<i64: 0>, keepdims = true} : (tensor<3x4xf32>) -> tensor<1x4xf32>
  return %0 : tensor<1x4xf32>
}

// -----

// CHECK-LABEL: func.func @everything(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xi32>)
// CHECK: %[[C1:.+]] = arith.constant 1 : i32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C1]] : i32) outs(%{{.+}} : tensor<i32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1, 2]] : tensor<2x3x4xi32> into tensor<24xi32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>
// CHECK-SAME: ["reduction"]} ins(%[[FLAT]] : tensor<24xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i32, %[[OUT:.+]]: i32):
// CHECK-NEXT: %[[MULI:.+]] = arith.muli %[[OUT]], %[[IN]] : i32
// CHECK-NEXT: linalg.yield %[[MULI]] : i32
// CHECK: return %[[LOOP]] : tensor<i32>
func.func @everything(%x: tensor<2x3x4xi32>) -> tensor<i32> {
  %0 = "blu.prod"(%x) {axes = array<i64: 0, 1, 2>, keepdims = false} : (tensor<2x3x4xi32>) -> tensor<i32>
  return %0 : tensor<i32>
}

// -----

// Sums of halves are f32 until the end.
// CHECK-LABEL: func.func @halves(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xbf16>)
// CHECK: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0]] : f32) outs(%{{.+}} : tensor<3xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>
// CHECK-SAME: ["parallel", "reduction"]} ins(%[[X]] : tensor<3x4xbf16>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: bf16, %[[OUT:.+]]: f32):
// CHECK-NEXT: %[[EXTF:.+]] = arith.extf %[[IN]] : bf16 to f32
// CHECK-NEXT: %[[ADDF:.+]] = arith.addf %[[OUT]], %[[EXTF]] : f32
// CHECK-NEXT: linalg.yield %[[ADDF]] : f32
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[LOOP]] : tensor<3xf32>)
// CHECK-NEXT: ^bb0(%[[IN_1:.+]]: f32, %{{.+}}: bf16):
// CHECK-NEXT: %[[TRUNCF:.+]] = arith.truncf %[[IN_1]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[TRUNCF]] : bf16
// CHECK: return %[[LOOP_1]] : tensor<3xbf16>
func.func @halves(%x: tensor<3x4xbf16>) -> tensor<3xbf16> {
  %0 = "blu.sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x4xbf16>) -> tensor<3xbf16>
  return %0 : tensor<3xbf16>
}

// -----

// CHECK-LABEL: func.func @any(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xi1>)
// CHECK: %[[CFALSE:.+]] = arith.constant false
// CHECK: %[[START:.+]] = linalg.fill ins(%[[CFALSE]] : i1) outs(%{{.+}} : tensor<3xi1>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>
// CHECK-SAME: ["parallel", "reduction"]} ins(%[[X]] : tensor<3x4xi1>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i1, %[[OUT:.+]]: i1):
// CHECK-NEXT: %[[ORI:.+]] = arith.ori %[[OUT]], %[[IN]] : i1
// CHECK-NEXT: linalg.yield %[[ORI]] : i1
// CHECK: return %[[LOOP]] : tensor<3xi1>
func.func @any(%x: tensor<3x4xi1>) -> tensor<3xi1> {
  %0 = "blu.any"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x4xi1>) -> tensor<3xi1>
  return %0 : tensor<3xi1>
}

// -----

// The first of equals wins, and the first NaN over all.
// CHECK-LABEL: func.func @argmax(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK: %[[C0XFF800000:.+]] = arith.constant 0xFF800000 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[C0XFF800000]] : f32) outs(%{{.+}} : tensor<3xf32>)
// CHECK: %[[CM1:.+]] = arith.constant -1 : i64
// CHECK: %[[START_1:.+]] = linalg.fill ins(%[[CM1]] : i64) outs(%{{.+}} : tensor<3xi64>)
// CHECK: %[[LOOP:.+]]:2 = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0)>
// CHECK-SAME: ["parallel", "reduction"]} ins(%[[X]] : tensor<3x4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[OUT:.+]]: f32, %[[OUT_1:.+]]: i64):
// CHECK-NEXT: %[[I1:.+]] = linalg.index 1 : index
// CHECK-NEXT: %[[CAST:.+]] = arith.index_cast %[[I1]] : index to i64
// CHECK-NEXT: %[[CMPF:.+]] = arith.cmpf ogt, %[[IN]], %[[OUT]] : f32
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi slt, %[[OUT_1]], %[[C0]] : i64
// CHECK-NEXT: %[[ORI:.+]] = arith.ori %[[CMPF]], %[[CMPI]] : i1
// CHECK-NEXT: %[[CMPF_1:.+]] = arith.cmpf une, %[[IN]], %[[IN]] : f32
// CHECK-NEXT: %[[CMPF_2:.+]] = arith.cmpf oeq, %[[OUT]], %[[OUT]] : f32
// CHECK-NEXT: %[[ANDI:.+]] = arith.andi %[[CMPF_1]], %[[CMPF_2]] : i1
// CHECK-NEXT: %[[ORI_1:.+]] = arith.ori %[[ORI]], %[[ANDI]] : i1
// CHECK-NEXT: %[[CMPF_3:.+]] = arith.cmpf oeq, %[[OUT]], %[[OUT]] : f32
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i64
// CHECK-NEXT: %[[CMPI_1:.+]] = arith.cmpi slt, %[[OUT_1]], %[[C0_1]] : i64
// CHECK-NEXT: %[[ORI_2:.+]] = arith.ori %[[CMPF_3]], %[[CMPI_1]] : i1
// CHECK-NEXT: %[[ANDI_1:.+]] = arith.andi %[[ORI_1]], %[[ORI_2]] : i1
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[ANDI_1]], %[[IN]], %[[OUT]] : f32
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[ANDI_1]], %[[CAST]], %[[OUT_1]] : i64
// CHECK-NEXT: linalg.yield %[[SELECT]], %[[SELECT_1]] : f32, i64
// CHECK: return %[[LOOP]]#1 : tensor<3xi64>
func.func @argmax(%x: tensor<3x4xf32>) -> tensor<3xi64> {
  %0 = "blu.argmax"(%x) {axis = 1 : i64, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xi64>
  return %0 : tensor<3xi64>
}

// -----

// CHECK-LABEL: func.func @all(
// CHECK: arith.constant true
// CHECK: linalg.fill
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.andi %{{.+}}, %{{.+}} : i1
// CHECK: tensor.expand_shape
func.func @all(%x: tensor<3x5xi1>) -> tensor<3x5xi1> {
  %0 = "blu.all"(%x) {axes = array<i64>, keepdims = true} : (tensor<3x5xi1>) -> tensor<3x5xi1>
  return %0 : tensor<3x5xi1>
}

// -----

// CHECK-LABEL: func.func @argmin(
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: linalg.fill
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK: linalg.index
// CHECK: arith.index_cast %{{.+}} : index to i64
// CHECK: arith.cmpf olt, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0 : i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.ori %{{.+}}, %{{.+}} : i1
// CHECK: arith.cmpf une, %{{.+}}, %{{.+}} : f32
// CHECK: arith.cmpf oeq, %{{.+}}, %{{.+}} : f32
// CHECK: arith.andi %{{.+}}, %{{.+}} : i1
// CHECK: arith.ori %{{.+}}, %{{.+}} : i1
// CHECK: arith.cmpf oeq, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0 : i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.ori %{{.+}}, %{{.+}} : i1
// CHECK: arith.andi %{{.+}}, %{{.+}} : i1
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
func.func @argmin(%x: tensor<5x3xf32>) -> tensor<5xi64> {
  %0 = "blu.argmin"(%x) {axis = 1 : i64, keepdims = false} : (tensor<5x3xf32>) -> tensor<5xi64>
  return %0 : tensor<5xi64>
}

// -----

// CHECK-LABEL: func.func @min(
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: linalg.fill
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.minimumf %{{.+}}, %{{.+}} : f32
// CHECK: tensor.expand_shape
func.func @min(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = "blu.min"(%x) {axes = array<i64>, keepdims = true} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
