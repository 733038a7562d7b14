// A sort is a key for each element, the order of the keys, and a gather; only the order is a kernel of its own family.
// RUN: %blu-opt %s --lower-to-linalg | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-choose-cpu-schedules,blu-reserve-scratch,blu-bufferize' | %filecheck %s --check-prefix=PLACED

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<300x2xi8>)
// CHECK: %[[KEYS:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<300x2xi8>)
// CHECK: %[[FLIPPED:.*]] = arith.xori %in, %c-128_i8
// CHECK: arith.xori %[[FLIPPED]], %c-1_i8
// CHECK: %[[ROWS:.*]] = linalg.transpose ins(%[[KEYS]] : tensor<300x2xi8>)
// CHECK: "blu.argsort"(%[[ROWS]]) {axis = 1 : i64, descending = false} : (tensor<2x300xi8>) -> tensor<2x300xi64>
// CHECK: tensor.extract %[[X]]

module attributes {blu.target = {name = "x86-64-v3"}} {
// The transposes are layouts, and the kernel gets two rows of keys and positions to work in.
// PLACED-LABEL: func.func @main
// PLACED-SAME: (%[[X:.*]]: memref<300x2xi8>)
// PLACED: %[[KEYS:.*]] = "plan.buffer"() {{.*}} memref<2x300xi8>
// PLACED: call @rows_0(%[[X]],
// PLACED: %[[MOVING:.*]] = "plan.buffer"() {{.*}} memref<1x600xi8>
// PLACED: %[[PLACES:.*]] = "plan.buffer"() {{.*}} memref<1x600xi32>
// PLACED: call @argsort_0(%[[KEYS]], %{{.*}}, %[[MOVING]], %[[PLACES]])
// PLACED: func.func private @argsort_0({{.*}}) attributes {blu.kernel = "argsort", blu.schedule = {blocks = 1 : i64, kind = "radix"}, blu.scratch = [memref<1x600xi8>, memref<1x600xi32>]}
  func.func @main(%x: tensor<300x2xui8>) -> tensor<300x2xui8> {
    %0 = "blu.sort"(%x) {axis = 0 : i64, descending = true} : (tensor<300x2xui8>) -> tensor<300x2xui8>
    return %0 : tensor<300x2xui8>
  }
}
