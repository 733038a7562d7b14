// Equal calls whose operands lie differently in memory have kernels of their own by now, and are in one batch all the same.
// RUN: %blu-opt %s --blu-launch-batches | %filecheck %s

// All calls go after the last of them, whichever kernel that one calls; the first launch of a call stays before its second.
// CHECK-LABEL: func.func @main(
// CHECK: "plan.buffer"
// CHECK: %[[B:.+]] = "plan.buffer"
// CHECK: %[[C:.+]] = "plan.buffer"
// CHECK-NEXT: call @dense_batch(%arg0, %[[A:.+]]) {blu.batch = 0 : i64}
// CHECK-NEXT: call @dense_batch(%arg0, %[[C]]) {blu.batch = 0 : i64}
// CHECK-NEXT: call @strided(%arg1, %[[B]]) :
// CHECK-NEXT: call @finish_batch(%arg0, %[[A]]) {blu.batch = 0 : i64, blu.launch = 1 : i64}
// CHECK-NEXT: call @finish_batch(%arg1, %[[B]]) {blu.batch = 0 : i64, blu.launch = 1 : i64}
// CHECK-NEXT: call @finish_batch(%arg0, %[[C]]) {blu.batch = 0 : i64, blu.launch = 1 : i64}
// CHECK-NEXT: return
module attributes {blu.arena_bytes = 192 : i64} {
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {arg_attrs = [{}, {}], blu.inputs = [tensor<4xf32>, tensor<4xf32>], blu.results = []} {
    %0 = "plan.buffer"() {space = "arena", index = 0, offset = 0} : () -> memref<4xf32>
    call @dense(%x, %0) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @finish(%x, %0) {blu.batch = 0 : i64, blu.launch = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1, offset = 64} : () -> memref<4xf32>
    call @strided(%y, %1) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @finish(%y, %1) {blu.batch = 0 : i64, blu.launch = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    %2 = "plan.buffer"() {space = "arena", index = 2, offset = 128} : () -> memref<4xf32>
    call @dense(%x, %2) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @finish(%x, %2) {blu.batch = 0 : i64, blu.launch = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    return
  }
  func.func @dense(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows", blu.grid = array<i64: 2, 1, 1>, blu.threads = 32 : i64, blu.shared_bytes = 0 : i64} {
    return
  }
  func.func @strided(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows", blu.grid = array<i64: 2, 1, 1>, blu.threads = 32 : i64, blu.shared_bytes = 0 : i64} {
    return
  }
  func.func @finish(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows", blu.grid = array<i64: 3, 1, 1>, blu.threads = 32 : i64, blu.shared_bytes = 0 : i64} {
    return
  }
}
