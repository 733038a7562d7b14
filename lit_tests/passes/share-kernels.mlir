// Kernels that differ in their names, and in how many blocks run, are one; others stay.
// RUN: %blu-opt %s --blu-share-kernels --mlir-print-local-scope | %filecheck %s

// CHECK: gpu.launch_func @kernels::@rows_0 blocks in (%c12,
// CHECK: gpu.launch_func @kernels::@rows_0 blocks in (%c96,
// CHECK: gpu.launch_func @kernels::@rows_2 blocks in (%c12,
// CHECK: gpu.launch_func @kernels::@rows_3 blocks in (%c12,
// CHECK: gpu.launch_func @kernels::@rows_4 blocks in (%c12, {{.*}} dynamic_shared_memory_size %c64_i32
// CHECK: llvm.func @rows_0
// CHECK-NOT: llvm.func @rows_1
// CHECK: llvm.func @rows_2
// CHECK: llvm.func @rows_3
// CHECK: llvm.func @rows_4
module attributes {gpu.container_module} {
  func.func @main(%x: memref<1xf32>) {
    %c1 = arith.constant 1 : index
    %c12 = arith.constant 12 : index
    %c96 = arith.constant 96 : index
    %c128 = arith.constant 128 : index
    %c256 = arith.constant 256 : index
    %c0_i32 = arith.constant 0 : i32
    %c64_i32 = arith.constant 64 : i32
    gpu.launch_func @kernels::@rows_0 blocks in (%c12, %c1, %c1) threads in (%c128, %c1, %c1) dynamic_shared_memory_size %c0_i32 args(%x : memref<1xf32>)
    gpu.launch_func @kernels::@rows_1 blocks in (%c96, %c1, %c1) threads in (%c128, %c1, %c1) dynamic_shared_memory_size %c0_i32 args(%x : memref<1xf32>)
    gpu.launch_func @kernels::@rows_2 blocks in (%c12, %c1, %c1) threads in (%c256, %c1, %c1) dynamic_shared_memory_size %c0_i32 args(%x : memref<1xf32>)
    gpu.launch_func @kernels::@rows_3 blocks in (%c12, %c1, %c1) threads in (%c128, %c1, %c1) dynamic_shared_memory_size %c0_i32 args(%x : memref<1xf32>)
    gpu.launch_func @kernels::@rows_4 blocks in (%c12, %c1, %c1) threads in (%c128, %c1, %c1) dynamic_shared_memory_size %c64_i32 args(%x : memref<1xf32>)
    return
  }
  gpu.module @kernels {
    llvm.func @rows_0(%x: !llvm.ptr) attributes {blu.kernel = "rows", gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>} {
      %0 = llvm.mlir.constant(1.0 : f32) : f32
      llvm.store %0, %x : f32, !llvm.ptr
      llvm.return
    }
    llvm.func @rows_1(%x: !llvm.ptr) attributes {blu.kernel = "rows", gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>} {
      %one = llvm.mlir.constant(1.0 : f32) : f32
      llvm.store %one, %x : f32, !llvm.ptr
      llvm.return
    }
    llvm.func @rows_2(%x: !llvm.ptr) attributes {blu.kernel = "rows", gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 256, 1, 1>} {
      %0 = llvm.mlir.constant(1.0 : f32) : f32
      llvm.store %0, %x : f32, !llvm.ptr
      llvm.return
    }
    llvm.func @rows_3(%x: !llvm.ptr) attributes {blu.kernel = "rows", gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>} {
      %0 = llvm.mlir.constant(2.0 : f32) : f32
      llvm.store %0, %x : f32, !llvm.ptr
      llvm.return
    }
    llvm.func @rows_4(%x: !llvm.ptr) attributes {blu.kernel = "rows", gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 128, 1, 1>} {
      %0 = llvm.mlir.constant(1.0 : f32) : f32
      llvm.store %0, %x : f32, !llvm.ptr
      llvm.return
    }
  }
}
