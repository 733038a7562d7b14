// Choosing, converting and clipping.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg' --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s --check-prefix=DECOMPOSED

// The condition is broadcast like any operand.
// CHECK-LABEL: func.func @where(
// CHECK-SAME: %[[C:.+]]: tensor<4xi1>, %[[X:.+]]: tensor<3x4xf32>, %[[Y:.+]]: tensor<f32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ()>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[C]], %[[X]], %[[Y]] : tensor<4xi1>, tensor<3x4xf32>, tensor<f32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i1, %[[IN_1:.+]]: f32, %[[IN_2:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[IN]], %[[IN_1]], %[[IN_2]] : f32
// CHECK-NEXT: linalg.yield %[[SELECT]] : f32
// CHECK: return %[[LOOP]] : tensor<3x4xf32>
func.func @where(%c: tensor<4xi1>, %x: tensor<3x4xf32>, %y: tensor<f32>) -> tensor<3x4xf32> {
  %0 = "blu.where"(%c, %x, %y) : (tensor<4xi1>, tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Floats saturate to integers, NaN becomes 0.
// CHECK-LABEL: func.func @float_to_integer(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: i8):
// CHECK-NEXT: %[[CM128:.+]] = arith.constant -1.280000e+02 : f32
// CHECK-NEXT: %[[CMPF:.+]] = arith.cmpf ole, %[[IN]], %[[CM128]] : f32
// CHECK-NEXT: %[[C127:.+]] = arith.constant 1.270000e+02 : f32
// CHECK-NEXT: %[[CMPF_1:.+]] = arith.cmpf oge, %[[IN]], %[[C127]] : f32
// CHECK-NEXT: %[[CMPF_2:.+]] = arith.cmpf une, %[[IN]], %[[IN]] : f32
// CHECK-NEXT: %[[ORI:.+]] = arith.ori %[[CMPF]], %[[CMPF_1]] : i1
// CHECK-NEXT: %[[ORI_1:.+]] = arith.ori %[[ORI]], %[[CMPF_2]] : i1
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[ORI_1]], %[[C0]], %[[IN]] : f32
// CHECK-NEXT: %[[FPTOSI:.+]] = arith.fptosi %[[SELECT]] : f32 to i8
// CHECK-NEXT: %[[CM128_1:.+]] = arith.constant -128 : i8
// CHECK-NEXT: %[[C127_1:.+]] = arith.constant 127 : i8
// CHECK-NEXT: %[[SELECT_1:.+]] = arith.select %[[CMPF_1]], %[[C127_1]], %[[FPTOSI]] : i8
// CHECK-NEXT: %[[SELECT_2:.+]] = arith.select %[[CMPF]], %[[CM128_1]], %[[SELECT_1]] : i8
// CHECK-NEXT: linalg.yield %[[SELECT_2]] : i8
// CHECK: return %[[LOOP]] : tensor<4xi8>
func.func @float_to_integer(%x: tensor<4xf32>) -> tensor<4xi8> {
  %0 = "blu.convert"(%x) {dtype = i8} : (tensor<4xf32>) -> tensor<4xi8>
  return %0 : tensor<4xi8>
}

// -----

// CHECK-LABEL: func.func @integer_to_float(
// CHECK-SAME: %[[I:.+]]: tensor<4xi64>, %[[U:.+]]: tensor<4xi8>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[I]] : tensor<4xi64>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i64, %{{.+}}: f32):
// CHECK-NEXT: %[[SITOFP:.+]] = arith.sitofp %[[IN]] : i64 to f32
// CHECK-NEXT: linalg.yield %[[SITOFP]] : f32
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[U]] : tensor<4xi8>)
// CHECK-NEXT: ^bb0(%[[IN_1:.+]]: i8, %{{.+}}: f32):
// CHECK-NEXT: %[[UITOFP:.+]] = arith.uitofp %[[IN_1]] : i8 to f32
// CHECK-NEXT: linalg.yield %[[UITOFP]] : f32
// CHECK: return %[[LOOP]], %[[LOOP_1]] : tensor<4xf32>, tensor<4xf32>
func.func @integer_to_float(%i: tensor<4xi64>, %u: tensor<4xui8>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "blu.convert"(%i) {dtype = f32} : (tensor<4xi64>) -> tensor<4xf32>
  %1 = "blu.convert"(%u) {dtype = f32} : (tensor<4xui8>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// -----

// bf16 converts from and to f32 only.
// CHECK-LABEL: func.func @narrow(
// CHECK-SAME: %[[X:.+]]: tensor<4xf64>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xf64>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f64, %{{.+}}: bf16):
// CHECK-NEXT: %[[TRUNCF:.+]] = arith.truncf %[[IN]] : f64 to f32
// CHECK-NEXT: %[[TRUNCF_1:.+]] = arith.truncf %[[TRUNCF]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[TRUNCF_1]] : bf16
// CHECK: return %[[LOOP]] : tensor<4xbf16>
func.func @narrow(%x: tensor<4xf64>) -> tensor<4xbf16> {
  %0 = "blu.convert"(%x) {dtype = bf16} : (tensor<4xf64>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// Whatever is not 0 is true.
// CHECK-LABEL: func.func @to_bool(
// CHECK-SAME: %[[X:.+]]: tensor<4xf32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: i1):
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %[[CMPF:.+]] = arith.cmpf une, %[[IN]], %[[C0]] : f32
// CHECK-NEXT: linalg.yield %[[CMPF]] : i1
// CHECK: return %[[LOOP]] : tensor<4xi1>
func.func @to_bool(%x: tensor<4xf32>) -> tensor<4xi1> {
  %0 = "blu.convert"(%x) {dtype = i1} : (tensor<4xf32>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

// DECOMPOSED-LABEL: func.func @clip(
// DECOMPOSED-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[LOW:.+]]: tensor<f32>, %[[HIGH:.+]]: tensor<4xf32>)
// DECOMPOSED: %[[RAISED:.+]] = "blu.maximum"(%[[X]], %[[LOW]])
// DECOMPOSED: %[[RESULT:.+]] = "blu.minimum"(%[[RAISED]], %[[HIGH]])
// DECOMPOSED: return %[[RESULT]] : tensor<3x4xf32>
func.func @clip(%x: tensor<3x4xf32>, %low: tensor<f32>, %high: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.clip"(%x, %low, %high) {operandSegmentSizes = array<i32: 1, 1, 1>}
    : (tensor<3x4xf32>, tensor<f32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Without a comparison: the low bits of a sum with a large number.
// CHECK-LABEL: func.func @nearest_byte(
// CHECK: arith.addf
// CHECK-NEXT: arith.bitcast %{{.+}} : f32 to i32
// CHECK-NEXT: arith.trunci %{{.+}} : i32 to i8
func.func @nearest_byte(%x: tensor<8xf32>) -> tensor<8xui8> {
  %0 = "blu.nearest_byte"(%x) {above = 27 : i64} : (tensor<8xf32>) -> tensor<8xui8>
  return %0 : tensor<8xui8>
}
