// Two operands, broadcast by their indexing maps.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// A row that is added to every row is read along the last loop only.
// CHECK-LABEL: func.func @bias(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>, %[[B:.+]]: tensor<4xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[FLAT]], %[[B]] : tensor<6x4xf32>, tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[IN_1:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[ADDF:.+]] = arith.addf %[[IN]], %[[IN_1]] : f32
// CHECK-NEXT: linalg.yield %[[ADDF]] : f32
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[LOOP]] [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
// CHECK: return %[[SPLIT]] : tensor<2x3x4xf32>
func.func @bias(%x: tensor<2x3x4xf32>, %b: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %0 = "blu.add"(%x, %b) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// What differs between operands keeps dimensions apart.
// CHECK-LABEL: func.func @outer(
// CHECK-SAME: %[[X:.+]]: tensor<3x1xf32>, %[[Y:.+]]: tensor<1x4xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1]] : tensor<3x1xf32> into tensor<3xf32>
// CHECK: %[[FLAT_1:.+]] = tensor.collapse_shape %[[Y]] [[0, 1]] : tensor<1x4xf32> into tensor<4xf32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[FLAT]], %[[FLAT_1]] : tensor<3xf32>, tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[IN_1:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[SUBF:.+]] = arith.subf %[[IN]], %[[IN_1]] : f32
// CHECK-NEXT: linalg.yield %[[SUBF]] : f32
// CHECK: return %[[LOOP]] : tensor<3x4xf32>
func.func @outer(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.subtract"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// A splat is written into the body and read from nowhere.
// CHECK-LABEL: func.func @splat(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
// CHECK-NOT: dense<
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[C2_5:.+]] = arith.constant 2.500000e+00 : f32
// CHECK-NEXT: %[[MULF:.+]] = arith.mulf %[[IN]], %[[C2_5]] : f32
// CHECK-NEXT: linalg.yield %[[MULF]] : f32
// CHECK: return %[[LOOP]] : tensor<4xf32>
func.func @splat(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c = "blu.constant"() {value = dense<2.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.multiply"(%x, %c) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// Signed and unsigned integers are compared by their own instruction, floats so that NaN is never less.
// CHECK-LABEL: func.func @less(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[I:.+]]: tensor<4xi32>, %[[U:.+]]: tensor<4xi8>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]], %[[X]] : tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[IN_1:.+]]: f32, %{{.+}}: i1):
// CHECK-NEXT: %[[CMPF:.+]] = arith.cmpf olt, %[[IN]], %[[IN_1]] : f32
// CHECK-NEXT: linalg.yield %[[CMPF]] : i1
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[I]], %[[I]] : tensor<4xi32>, tensor<4xi32>)
// CHECK-NEXT: ^bb0(%[[IN_2:.+]]: i32, %[[IN_3:.+]]: i32, %{{.+}}: i1):
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi slt, %[[IN_2]], %[[IN_3]] : i32
// CHECK-NEXT: linalg.yield %[[CMPI]] : i1
// CHECK: %[[LOOP_2:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[U]], %[[U]] : tensor<4xi8>, tensor<4xi8>)
// CHECK-NEXT: ^bb0(%[[IN_4:.+]]: i8, %[[IN_5:.+]]: i8, %{{.+}}: i1):
// CHECK-NEXT: %[[CMPI_1:.+]] = arith.cmpi ult, %[[IN_4]], %[[IN_5]] : i8
// CHECK-NEXT: linalg.yield %[[CMPI_1]] : i1
// CHECK: return %[[LOOP]], %[[LOOP_1]], %[[LOOP_2]] : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
func.func @less(%x: tensor<4xf32>, %i: tensor<4xi32>, %u: tensor<4xui8>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>) {
  %0 = "blu.less"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = "blu.less"(%i, %i) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %2 = "blu.less"(%u, %u) : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
  return %0, %1, %2 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>
}

// -----

// Python's floor division: a check finds a zero for the host to report, and the division itself never traps.
// CHECK-LABEL: func.func @floor_divide(
// CHECK-SAME: %[[X:.+]]: tensor<4xi32>, %[[Y:.+]]: tensor<4xi32>)
// CHECK: %[[NOTHING:.+]] = arith.constant 0 : i64
// CHECK: %[[START:.+]] = linalg.fill ins(%[[NOTHING]] : i64) outs(%{{.+}} : tensor<i64>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>
// CHECK-SAME: ["reduction"]} ins(%[[Y]] : tensor<4xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i32, %[[OUT:.+]]: i64):
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi eq, %[[IN]], %[[C0]] : i32
// CHECK-NEXT: %[[EXTUI:.+]] = arith.extui %[[CMPI]] : i1 to i64
// CHECK-NEXT: %[[MAXUI:.+]] = arith.maxui %[[OUT]], %[[EXTUI]] : i64
// CHECK-NEXT: linalg.yield %[[MAXUI]] : i64
// CHECK: "plan.check"(%[[LOOP]]) {kind = "divide", op = "floor_divide", size = 0 : i64} : (tensor<i64>) -> ()
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]], %[[Y]] : tensor<4xi32>, tensor<4xi32>)
// CHECK-NEXT: ^bb0(%[[IN_1:.+]]: i32, %[[IN_2:.+]]: i32, %{{.+}}: i32):
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI_1:.+]] = arith.cmpi eq, %[[IN_2]], %[[C0_1]] : i32
// CHECK-NEXT: %[[CM1:.+]] = arith.constant -1 : i32
// CHECK-NEXT: %[[CMPI_2:.+]] = arith.cmpi eq, %[[IN_2]], %[[CM1]] : i32
// CHECK-NEXT: %[[ORI:.+]] = arith.ori %[[CMPI_1]], %[[CMPI_2]] : i1
// CHECK-NEXT: %[[C1:.+]] = arith.constant 1 : i32
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[ORI]], %[[C1]], %[[IN_2]] : i32
// CHECK-NEXT: %[[DIVSI:.+]] = arith.divsi %[[IN_1]], %[[SELECT_1]] : i32
// CHECK-NEXT: %[[REMSI:.+]] = arith.remsi %[[IN_1]], %[[SELECT_1]] : i32
// CHECK-NEXT: %[[C0_2:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI_3:.+]] = arith.cmpi ne, %[[REMSI]], %[[C0_2]] : i32
// CHECK-NEXT: %[[XORI:.+]] = arith.xori %[[REMSI]], %[[SELECT_1]] : i32
// CHECK-NEXT: %[[C0_3:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI_4:.+]] = arith.cmpi slt, %[[XORI]], %[[C0_3]] : i32
// CHECK-NEXT: %[[ANDI:.+]] = arith.andi %[[CMPI_3]], %[[CMPI_4]] : i1
// CHECK-NEXT: %[[C0_4:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[C1_1:.+]] = arith.constant 1 : i32
// CHECK-NEXT: %[[SUBI:.+]] = arith.subi %[[DIVSI]], %[[C1_1]] : i32
// CHECK-NEXT: %[[SELECT_2:.+]] = arith.select %[[ANDI]], %[[SUBI]], %[[DIVSI]] : i32
// CHECK-NEXT: %[[CM1_1:.+]] = arith.constant -1 : i32
// CHECK-NEXT: %[[CMPI_5:.+]] = arith.cmpi eq, %[[IN_2]], %[[CM1_1]] : i32
// CHECK-NEXT: %[[C0_5:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[SUBI_1:.+]] = arith.subi %[[C0_5]], %[[IN_1]] : i32
// CHECK-NEXT: %[[SELECT_3:.+]] = arith.select %[[CMPI_5]], %[[SUBI_1]], %[[SELECT_2]] : i32
// CHECK-NEXT: %[[SELECT_4:.+]] = arith.select %[[CMPI_1]], %[[C0_4]], %[[SELECT_3]] : i32
// CHECK-NEXT: linalg.yield %[[SELECT_4]] : i32
// CHECK: return %[[LOOP_1]] : tensor<4xi32>
func.func @floor_divide(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %0 = "blu.floor_divide"(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// A shift by as many bits as there are, or more, leaves nothing.
// CHECK-LABEL: func.func @shift(
// CHECK-SAME: %[[X:.+]]: tensor<4xi32>, %[[Y:.+]]: tensor<4xi32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]], %[[Y]] : tensor<4xi32>, tensor<4xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i32, %[[IN_1:.+]]: i32, %{{.+}}: i32):
// CHECK-NEXT: %[[C32:.+]] = arith.constant 32 : i32
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi slt, %[[IN_1]], %[[C32]] : i32
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI_1:.+]] = arith.cmpi sge, %[[IN_1]], %[[C0]] : i32
// CHECK-NEXT: %[[ANDI:.+]] = arith.andi %[[CMPI]], %[[CMPI_1]] : i1
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[ANDI]], %[[IN_1]], %[[C0_1]] : i32
// CHECK-NEXT: %[[SHLI:.+]] = arith.shli %[[IN]], %[[SELECT]] : i32
// CHECK-NEXT: %[[C0_2:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[ANDI]], %[[SHLI]], %[[C0_2]] : i32
// CHECK-NEXT: linalg.yield %[[SELECT_1]] : i32
// CHECK: return %[[LOOP]] : tensor<4xi32>
func.func @shift(%x: tensor<4xi32>, %y: tensor<4xi32>) -> tensor<4xi32> {
  %0 = "blu.left_shift"(%x, %y) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// maximum hands NaN on.
// CHECK-LABEL: func.func @maximum(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>, %[[Y:.+]]: tensor<4xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]], %[[Y]] : tensor<4xf32>, tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %[[IN_1:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[MAXIMUMF:.+]] = arith.maximumf %[[IN]], %[[IN_1]] : f32
// CHECK-NEXT: linalg.yield %[[MAXIMUMF]] : f32
// CHECK: return %[[LOOP]] : tensor<4xf32>
func.func @maximum(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.maximum"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @arctan2(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: math.atan2 %{{.+}}, %{{.+}} : f32
func.func @arctan2(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.arctan2"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @bitwise_and(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.andi %{{.+}}, %{{.+}} : i8
func.func @bitwise_and(%x: tensor<6x1xi8>, %y: tensor<1x6xi8>) -> tensor<6x6xi8> {
  %0 = "blu.bitwise_and"(%x, %y) : (tensor<6x1xi8>, tensor<1x6xi8>) -> tensor<6x6xi8>
  return %0 : tensor<6x6xi8>
}

// -----

// CHECK-LABEL: func.func @bitwise_or(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.ori %{{.+}}, %{{.+}} : i8
func.func @bitwise_or(%x: tensor<6x1xi8>, %y: tensor<1x6xi8>) -> tensor<6x6xi8> {
  %0 = "blu.bitwise_or"(%x, %y) : (tensor<6x1xi8>, tensor<1x6xi8>) -> tensor<6x6xi8>
  return %0 : tensor<6x6xi8>
}

// -----

// CHECK-LABEL: func.func @bitwise_xor(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.xori %{{.+}}, %{{.+}} : i8
func.func @bitwise_xor(%x: tensor<6x1xi8>, %y: tensor<1x6xi8>) -> tensor<6x6xi8> {
  %0 = "blu.bitwise_xor"(%x, %y) : (tensor<6x1xi8>, tensor<1x6xi8>) -> tensor<6x6xi8>
  return %0 : tensor<6x6xi8>
}

// -----

// CHECK-LABEL: func.func @copysign(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: math.copysign %{{.+}}, %{{.+}} : f32
func.func @copysign(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.copysign"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @divide(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.divf %{{.+}}, %{{.+}} : f32
func.func @divide(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.divide"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @equal(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.cmpf oeq, %{{.+}}, %{{.+}} : f32
func.func @equal(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xi1> {
  %0 = "blu.equal"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xi1>
  return %0 : tensor<3x4xi1>
}

// -----

// CHECK-LABEL: func.func @greater(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.cmpf ogt, %{{.+}}, %{{.+}} : f32
func.func @greater(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xi1> {
  %0 = "blu.greater"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xi1>
  return %0 : tensor<3x4xi1>
}

// -----

// CHECK-LABEL: func.func @greater_equal(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.cmpf oge, %{{.+}}, %{{.+}} : f32
func.func @greater_equal(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xi1> {
  %0 = "blu.greater_equal"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xi1>
  return %0 : tensor<3x4xi1>
}

// -----

// CHECK-LABEL: func.func @less_equal(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.cmpf ole, %{{.+}}, %{{.+}} : f32
func.func @less_equal(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xi1> {
  %0 = "blu.less_equal"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xi1>
  return %0 : tensor<3x4xi1>
}

// -----

// CHECK-LABEL: func.func @minimum(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.minimumf %{{.+}}, %{{.+}} : f32
func.func @minimum(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.minimum"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @not_equal(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.cmpf une, %{{.+}}, %{{.+}} : f32
func.func @not_equal(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xi1> {
  %0 = "blu.not_equal"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xi1>
  return %0 : tensor<3x4xi1>
}

// -----

// CHECK-LABEL: func.func @power(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: math.powf %{{.+}}, %{{.+}} : f32
func.func @power(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.power"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @remainder(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.remf %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.cmpf oeq, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.cmpf olt, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.cmpf olt, %{{.+}}, %{{.+}} : f32
// CHECK: arith.xori %{{.+}}, %{{.+}} : i1
// CHECK: arith.addf %{{.+}}, %{{.+}} : f32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: math.copysign %{{.+}}, %{{.+}} : f32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
func.func @remainder(%x: tensor<3x1xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.remainder"(%x, %y) : (tensor<3x1xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: func.func @right_shift(
// CHECK: tensor.collapse_shape
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.constant 8 : i8
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i8
// CHECK: arith.constant 0 : i8
// CHECK: arith.cmpi sge, %{{.+}}, %{{.+}} : i8
// CHECK: arith.andi %{{.+}}, %{{.+}} : i1
// CHECK: arith.constant 0 : i8
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i8
// CHECK: arith.constant 0 : i8
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i8
// CHECK: arith.constant 0 : i8
// CHECK: arith.select %{{.+}}, %{{.+}}-1_i8, %{{.+}} : i8
// CHECK: arith.shrsi %{{.+}}, %{{.+}} : i8
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i8
func.func @right_shift(%x: tensor<6x1xi8>, %y: tensor<1x7xi8>) -> tensor<6x7xi8> {
  %0 = "blu.right_shift"(%x, %y) : (tensor<6x1xi8>, tensor<1x7xi8>) -> tensor<6x7xi8>
  return %0 : tensor<6x7xi8>
}
