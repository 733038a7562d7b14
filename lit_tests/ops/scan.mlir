// A scan is a loop that carries a value along an axis and writes at every step what it has come to; halves carry f32.
// RUN: %blu-opt %s --split-input-file --blu-outline-loops --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @cumsum(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf16>)
// CHECK: %[[ZERO:.+]] = arith.constant -0.000000e+00 : f32
// CHECK: %[[START:.+]] = linalg.fill ins(%[[ZERO]] : f32) outs(%{{.+}} : tensor<3xf32>)
// CHECK: %[[RESULT:.+]] = tensor.empty() : tensor<3x4xf16>
// CHECK: %[[LOOP:.+]]:2 = linalg.generic
// CHECK-SAME: [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-SAME: ["parallel", "reduction"]} ins(%[[X]] : tensor<3x4xf16>) outs(%[[START]], %[[RESULT]] :
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f16, %[[CARRIED:.+]]: f32, %{{.+}}: f16):
// CHECK-NEXT: %[[WIDE:.+]] = arith.extf %[[IN]] : f16 to f32
// CHECK-NEXT: %[[SUM:.+]] = arith.addf %[[CARRIED]], %[[WIDE]] : f32
// CHECK-NEXT: %[[HALF:.+]] = arith.truncf %[[SUM]] : f32 to f16
// CHECK-NEXT: linalg.yield %[[SUM]], %[[HALF]] : f32, f16
// CHECK: return %[[LOOP]]#1 : tensor<3x4xf16>
func.func @cumsum(%x: tensor<3x4xf16>) -> tensor<3x4xf16> {
  %0 = "blu.cumsum"(%x) {axis = 1 : i64} : (tensor<3x4xf16>) -> tensor<3x4xf16>
  return %0 : tensor<3x4xf16>
}

// -----

// CHECK-LABEL: func.func @products(
// CHECK: %[[ONE:.+]] = arith.constant 1 : i32
// CHECK: linalg.fill ins(%[[ONE]] : i32)
// CHECK: ^bb0(%[[IN:.+]]: i32, %[[CARRIED:.+]]: i32, %{{.+}}: i32):
// CHECK-NEXT: %[[AFTER:.+]] = arith.muli %[[CARRIED]], %[[IN]] : i32
// CHECK-NEXT: linalg.yield %[[AFTER]], %[[AFTER]] : i32, i32
func.func @products(%x: tensor<7xi32>) -> tensor<7xi32> {
  %0 = "blu.cumprod"(%x) {axis = 0 : i64} : (tensor<7xi32>) -> tensor<7xi32>
  return %0 : tensor<7xi32>
}

// -----

// Unsigned bytes begin below and above all of them.
// CHECK-LABEL: func.func @extremes(
// CHECK: %[[LEAST:.+]] = arith.constant 0 : i8
// CHECK: linalg.fill ins(%[[LEAST]] : i8)
// CHECK: arith.maxui
// CHECK: %[[MOST:.+]] = arith.constant -1 : i8
// CHECK: linalg.fill ins(%[[MOST]] : i8)
// CHECK: arith.minui
func.func @extremes(%x: tensor<7xui8>) -> tensor<7xui8> {
  %0 = "blu.cummax"(%x) {axis = 0 : i64} : (tensor<7xui8>) -> tensor<7xui8>
  %1 = "blu.cummin"(%0) {axis = 0 : i64} : (tensor<7xui8>) -> tensor<7xui8>
  return %1 : tensor<7xui8>
}

// -----

// CHECK-LABEL: func.func @logarithms(
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: ^bb0(%[[IN:.+]]: f32, %[[CARRIED:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[HIGH:.+]] = arith.maximumf %[[CARRIED]], %[[IN]] : f32
// CHECK-NEXT: %[[LOW:.+]] = arith.minimumf %[[CARRIED]], %[[IN]] : f32
// CHECK: math.exp
// CHECK-NEXT: math.log1p
// CHECK-NEXT: %[[AFTER:.+]] = arith.addf %[[HIGH]], %{{.+}} : f32
// CHECK-NEXT: linalg.yield %[[AFTER]], %[[AFTER]] : f32, f32
func.func @logarithms(%x: tensor<7xf32>) -> tensor<7xf32> {
  %0 = "blu.logcumsumexp"(%x) {axis = 0 : i64} : (tensor<7xf32>) -> tensor<7xf32>
  return %0 : tensor<7xf32>
}

// -----

// What two parts of a row come to is the product of the decays, and the recurrence: it is that which is written.
// CHECK-LABEL: func.func @recurrence(
// CHECK: linalg.generic
// CHECK-SAME: ["parallel", "reduction"]} ins(%{{.+}}, %{{.+}} : tensor<3x4xf32>, tensor<3x4xf32>) outs(%{{.+}}, %{{.+}}, %{{.+}} : tensor<3xf32>, tensor<3xf32>, tensor<3x4xf32>)
// CHECK-NEXT: ^bb0(%[[DECAY:.+]]: f32, %[[TERM:.+]]: f32, %[[PRODUCT:.+]]: f32, %[[TOTAL:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[DECAYS:.+]] = arith.mulf %[[PRODUCT]], %[[DECAY]] : f32
// CHECK-NEXT: %[[DECAYED:.+]] = arith.mulf %[[TOTAL]], %[[DECAY]] : f32
// CHECK-NEXT: %[[AFTER:.+]] = arith.addf %[[DECAYED]], %[[TERM]] : f32
// CHECK-NEXT: linalg.yield %[[DECAYS]], %[[AFTER]], %[[AFTER]] : f32, f32, f32
func.func @recurrence(%a: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.recurrence"(%a, %b) {axis = 1 : i64} : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// Along another axis than the last, neighbours in memory are neighbouring rows.
// CHECK-LABEL: func.func @columns(
// CHECK: linalg.generic
// CHECK-SAME: [affine_map<(d0, d1, d2) -> (d0, d2, d1)>, affine_map<(d0, d1, d2) -> (d0, d1)>,
// CHECK-SAME: ["parallel", "parallel", "reduction"]} ins(%{{.+}} : tensor<2x3x20xi32>) outs(%{{.+}} : tensor<2x20xi32>,
func.func @columns(%x: tensor<2x3x4x5xi32>) -> tensor<2x3x4x5xi32> {
  %0 = "blu.cumsum"(%x) {axis = 1 : i64} : (tensor<2x3x4x5xi32>) -> tensor<2x3x4x5xi32>
  return %0 : tensor<2x3x4x5xi32>
}

// -----

// A body that is done many times is a function, which is lowered as the program is.
// CHECK-LABEL: func.func private @body_0(
// CHECK-SAME: %[[CARRY:.+]]: tensor<16xf32> {blu.donated, blu.name = "carry.0"}, %[[SLICE:.+]]: tensor<16xf32>, %[[WEIGHT:.+]]: tensor<16xf32>)
// CHECK-SAME: -> (tensor<16xf32> {blu.name = "carry.0"}, tensor<16xf32>)
// CHECK-SAME: blu.loop_body = 1 : i64
// CHECK: %[[PRODUCT:.+]] = linalg.generic {{.*}} ins(%[[CARRY]], %[[WEIGHT]] :
// CHECK: %[[NEXT:.+]] = linalg.generic {{.*}} ins(%[[PRODUCT]], %[[SLICE]] :
// CHECK: return %[[NEXT]], %[[PRODUCT]]
// CHECK-LABEL: func.func @main(
// CHECK: %[[LOOP:.+]]:2 = "plan.loop"(%{{.+}}, %{{.+}}, %{{.+}}) {arena = -1 : i64, body = @body_0, carries = 1 : i64, count = 4 : i64, given = 1 : i64,
// CHECK-SAME: reverse = 1 : i64, slices = 1 : i64}
// CHECK: return %[[LOOP]]#0, %[[LOOP]]#1
#takes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#gives = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#two = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#one = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @main(%h: tensor<16xf32>, %x: tensor<4x16xf32>, %w: tensor<16xf32>) -> (tensor<16xf32>, tensor<4x16xf32>) {
  %0:2 = "blu.scan"(%h, %x, %w) ({
  ^bb0(%carry: tensor<16xf32>, %slice: tensor<16xf32>, %weight: tensor<16xf32>):
    %1 = "blu.multiply"(%carry, %weight) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %2 = "blu.add"(%1, %slice) : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    "blu.yield"(%2, %1) {operandSegmentSizes = #two} : (tensor<16xf32>, tensor<16xf32>) -> ()
  }) {length = 4 : i64, reverse = true, saved = 0 : i64, operandSegmentSizes = #takes, resultSegmentSizes = #gives} : (tensor<16xf32>, tensor<4x16xf32>, tensor<16xf32>) -> (tensor<16xf32>, tensor<4x16xf32>)
  return %0#0, %0#1 : tensor<16xf32>, tensor<4x16xf32>
}
