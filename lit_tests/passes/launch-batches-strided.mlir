// Equal calls whose operands lie differently in memory have kernels of their own by now, and are in one batch all the same.
// RUN: %blu-opt %s --blu-launch-batches | %filecheck %s

// All calls go after the last of them, whichever kernel that one calls; the first launch of a call stays before its second.
// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.+]] = "plan.buffer"() {index = 0
// CHECK: %[[B:.+]] = "plan.buffer"() {index = 1
// CHECK: %[[C:.+]] = "plan.buffer"() {index = 2
// CHECK-NEXT: %[[X:.+]] = "plan.each"(%arg0, %arg0)
// CHECK-NEXT: %[[Y:.+]] = "plan.each"(%[[A]], %[[C]])
// CHECK-NEXT: gpu.launch_func @kernels::@dense_batch {{.*}} args(%[[X]] : {{.+}}, %[[Y]] : {{.+}})
// CHECK-NEXT: gpu.launch_func @kernels::@strided {{.*}} args(%arg1 : {{.+}}, %[[B]] : {{.+}})
// CHECK-NEXT: %[[X:.+]] = "plan.each"(%arg0, %arg1, %arg0)
// CHECK-NEXT: %[[Y:.+]] = "plan.each"(%[[A]], %[[B]], %[[C]])
// CHECK-NEXT: gpu.launch_func @kernels::@finish_batch {{.*}} args(%[[X]] : {{.+}}, %[[Y]] : {{.+}})
// CHECK-NEXT: return
module attributes {gpu.container_module, blu.arena_bytes = 192 : i64} {
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {arg_attrs = [{}, {}], blu.inputs = [tensor<4xf32>, tensor<4xf32>], blu.results = []} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0, offset = 0} : () -> memref<4xf32>
    gpu.launch_func @kernels::@dense blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %0 : memref<4xf32>) {blu.batch = 0 : i64}
    gpu.launch_func @kernels::@finish blocks in (%c3, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %0 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 1 : i64}
    %1 = "plan.buffer"() {space = "arena", index = 1, offset = 64} : () -> memref<4xf32>
    gpu.launch_func @kernels::@strided blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<4xf32>, %1 : memref<4xf32>) {blu.batch = 0 : i64}
    gpu.launch_func @kernels::@finish blocks in (%c3, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<4xf32>, %1 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 1 : i64}
    %2 = "plan.buffer"() {space = "arena", index = 2, offset = 128} : () -> memref<4xf32>
    gpu.launch_func @kernels::@dense blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %2 : memref<4xf32>) {blu.batch = 0 : i64}
    gpu.launch_func @kernels::@finish blocks in (%c3, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %2 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 1 : i64}
    return
  }
  gpu.module @kernels {
    gpu.func @dense(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      gpu.return
    }
    gpu.func @strided(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      gpu.return
    }
    gpu.func @finish(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      gpu.return
    }
  }
}
