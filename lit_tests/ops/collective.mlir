// Collectives are steps of the host program, at level linalg as they were written; the rest of their form is memory.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-check-level{to=linalg}' | %filecheck %s --check-prefix=LINALG
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

module attributes {blu.mesh = [["dp", 2]]} {
// LINALG-LABEL: func.func @main
// LINALG-NOT: func.call
// LINALG: "blu.all_reduce"
// LINALG: "blu.all_gather"
// LINALG: "blu.reduce_scatter"
// LINALG: "blu.broadcast"
// LINALG: "blu.all_to_all"
// LINALG: "blu.permute"
// LINALG: "blu.axis_index"

// Each begins and is waited for; what a kernel made and nobody else reads is reduced in place.
// MEMORY-LABEL: func.func @main
// MEMORY: %[[TOTAL:.*]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"}
// MEMORY: %[[TOKEN:.*]] = "plan.start"(%{{.*}}, %[[TOTAL]]) {amount = 0 : i64, axis = "dp", dtype = "f32", kind = "all_reduce", ranks = 2 : i64, reduction = "sum"} : (memref<4x3xf32>, memref<4x3xf32>) -> !async.token
// MEMORY: "plan.wait"(%[[TOKEN]], %{{.*}}, %[[TOTAL]])
// MEMORY: "plan.start"{{.*}} kind = "all_gather"{{.*}} : (memref<4x3xf32>, memref<8x3xf32>)
// MEMORY: "plan.start"{{.*}} kind = "reduce_scatter"{{.*}} : (memref<4x3xf32>, memref<2x3xf32>)
// MEMORY: "plan.start"{{.*}}amount = 1 : i64{{.*}} kind = "broadcast"
// MEMORY: "plan.start"{{.*}} kind = "all_to_all"
// MEMORY: "plan.start"{{.*}}amount = -1 : i64{{.*}} kind = "permute"
// MEMORY: "plan.start"{{.*}} dtype = "i32", kind = "axis_index"
func.func @main(%x: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<8x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<i32>) {
  %0 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %1 = "blu.all_gather"(%x) {axis = "dp", ranks = 2 : i64} : (tensor<4x3xf32>) -> tensor<8x3xf32>
  %2 = "blu.reduce_scatter"(%x) {axis = "dp", ranks = 2 : i64, reduction = "max"} : (tensor<4x3xf32>) -> tensor<2x3xf32>
  %3 = "blu.broadcast"(%x) {axis = "dp", ranks = 2 : i64, root = 1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = "blu.all_to_all"(%x) {axis = "dp", ranks = 2 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %5 = "blu.permute"(%x) {axis = "dp", ranks = 2 : i64, shift = -1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %6 = "blu.axis_index"() {axis = "dp", ranks = 2 : i64} : () -> tensor<i32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<4x3xf32>, tensor<8x3xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<i32>
}
}
