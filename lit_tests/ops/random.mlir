// Random bits are computed from a position and a key, as often as they are asked for.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// Word i % 4 of the Philox block with counter i / 4: ten rounds of two multiplications, no state.
// CHECK-LABEL: func.func @random_bits(
// CHECK-SAME: %[[KEY:.+]]: tensor<2xi64>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]
// CHECK: %[[SEED:.+]] = tensor.extract %[[KEY]][%{{.+}}] : tensor<2xi64>
// CHECK: %[[STREAM:.+]] = tensor.extract %[[KEY]][%{{.+}}] : tensor<2xi64>
// CHECK: %[[I:.+]] = linalg.index 0 : index
// CHECK: %[[POSITION:.+]] = arith.index_cast %[[I]] : index to i64
// CHECK: %[[TWO:.+]] = arith.constant 2 : i64
// CHECK: %[[BLOCK:.+]] = arith.shrui %[[POSITION]], %[[TWO]] : i64
// CHECK-COUNT-20: arith.muli
// CHECK-NOT: arith.muli
// CHECK: %[[THREE:.+]] = arith.constant 3 : i64
// CHECK: %[[WORD:.+]] = arith.andi %[[POSITION]], %[[THREE]] : i64
// CHECK-COUNT-3: arith.select
// CHECK: %[[BITS:.+]] = arith.trunci %{{.+}} : i64 to i32
// CHECK-NEXT: linalg.yield %[[BITS]] : i32
// CHECK: tensor.expand_shape %[[LOOP]] {{.*}} tensor<6xi32> into tensor<2x3xi32>
func.func @random_bits(%key: tensor<2xi64>) -> tensor<2x3xi32> {
  %0 = "blu.random_bits"(%key) {shape = array<i64: 2, 3>} : (tensor<2xi64>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}
