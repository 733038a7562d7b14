// The place of the largest or smallest element is found in any order: element and place are one number of 64 bits.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,canonicalize,blu-merge-duplicates,blu-pack-searches' --mlir-print-local-scope | %filecheck %s

// High half: floats in the order of unsigned numbers, -0.0 as 0.0, NaN above all. Low half: the place, turned over.
// CHECK-LABEL: func.func @floats(
// CHECK-SAME: %[[X:.+]]: tensor<4x9xf32>)
// CHECK: %[[MOST:.+]] = linalg.generic {{{.*}}iterator_types = ["parallel", "reduction"]} ins(%[[X]] : tensor<4x9xf32>) outs(%{{.+}} : tensor<4xi64>)
// CHECK-NEXT: ^bb0(%[[A:.+]]: f32, %[[SO_FAR:.+]]: i64):
// CHECK: %[[PLACE:.+]] = arith.index_cast %{{.+}} : index to i64
// CHECK: %[[IS_ZERO:.+]] = arith.cmpf oeq, %[[A]], %[[ZERO:.+]] : f32
// CHECK-NEXT: %[[B:.+]] = arith.select %[[IS_ZERO]], %[[ZERO]], %[[A]] : f32
// CHECK-NEXT: %[[BITS:.+]] = arith.bitcast %[[B]] : f32 to i32
// CHECK: arith.shrsi %[[BITS]]
// CHECK: %[[ORDERED:.+]] = arith.xori %[[BITS]]
// CHECK-NEXT: %[[IS_NAN:.+]] = arith.cmpf uno, %[[A]], %[[A]]
// CHECK-NEXT: %[[ONES:.+]] = arith.constant -1 : i32
// CHECK-NEXT: %[[KEY:.+]] = arith.select %[[IS_NAN]], %[[ONES]], %[[ORDERED]]
// CHECK-NEXT: %[[WIDE:.+]] = arith.extui %[[KEY]] : i32 to i64
// CHECK: %[[HIGH:.+]] = arith.shli %[[WIDE]]
// CHECK: %[[LOW:.+]] = arith.xori %[[PLACE]]
// CHECK-NEXT: %[[PACKED:.+]] = arith.ori %[[HIGH]], %[[LOW]]
// CHECK-NEXT: %[[BEST:.+]] = arith.maxui %[[SO_FAR]], %[[PACKED]]
// CHECK-NEXT: linalg.yield %[[BEST]]
// CHECK: linalg.generic {{.*}} ins(%[[MOST]] : tensor<4xi64>)
// CHECK: arith.andi
// CHECK-NEXT: arith.xori
func.func @floats(%x: tensor<4x9xf32>) -> tensor<4xi64> {
  %0 = "blu.argmax"(%x) {axis = 1 : i64, keepdims = false} : (tensor<4x9xf32>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// The smallest is the largest turned over, and signed numbers are moved so that the lowest is 0.
// CHECK-LABEL: func.func @integers(
// CHECK: %[[WIDE:.+]] = arith.extsi %{{.+}} : i16 to i32
// CHECK-NEXT: %[[LOWEST:.+]] = arith.constant -2147483648 : i32
// CHECK-NEXT: %[[MOVED:.+]] = arith.xori %[[WIDE]], %[[LOWEST]]
// CHECK-NEXT: %[[ONES:.+]] = arith.constant -1 : i32
// CHECK-NEXT: arith.xori %[[MOVED]], %[[ONES]]
// CHECK: arith.maxui
func.func @integers(%x: tensor<4x9xi16>) -> tensor<4xi64> {
  %0 = "blu.argmin"(%x) {axis = 1 : i64, keepdims = false} : (tensor<4x9xi16>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// Unsigned ones stay where they are.
// CHECK-LABEL: func.func @unsigned(
// CHECK: arith.extui %{{.+}} : i8 to i32
// CHECK-NEXT: arith.extui %{{.+}} : i32 to i64
// CHECK: arith.maxui
func.func @unsigned(%x: tensor<4x9xui8>) -> tensor<4xi64> {
  %0 = "blu.argmax"(%x) {axis = 1 : i64, keepdims = false} : (tensor<4x9xui8>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// 64 bits leave no room for a place: first the largest element, then the first place where it is, or a NaN.
// CHECK-LABEL: func.func @doubles(
// CHECK-SAME: %[[X:.+]]: tensor<4x9xf64>)
// CHECK: %[[LARGEST:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<4x9xf64>) outs(%{{.+}} : tensor<4xf64>)
// CHECK: arith.maximumf
// CHECK: %[[FIRST:.+]] = linalg.generic {{.*}} ins(%[[X]], %[[LARGEST]] : tensor<4x9xf64>, tensor<4xf64>) outs(%{{.+}} : tensor<4xi64>)
// CHECK: %[[IS_IT:.+]] = arith.cmpf oeq
// CHECK-NEXT: %[[IS_NAN:.+]] = arith.cmpf uno
// CHECK-NEXT: %[[WINS:.+]] = arith.ori %[[IS_IT]], %[[IS_NAN]]
// CHECK: %[[PLACE:.+]] = arith.select %[[WINS]]
// CHECK-NEXT: arith.minui %{{.+}}, %[[PLACE]]
// CHECK: return %[[FIRST]]
func.func @doubles(%x: tensor<4x9xf64>) -> tensor<4xi64> {
  %0 = "blu.argmax"(%x) {axis = 1 : i64, keepdims = false} : (tensor<4x9xf64>) -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
