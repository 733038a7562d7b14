// A launch begins early that directly follows another one; every kernel waits for those before it as soon as it can.
// RUN: %blu-opt %s --blu-overlap-launches | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-overlap-launches,lower-to-nvvm,blu-export-plan' --mlir-print-local-scope | %filecheck %s --check-prefix=PLAN

// CHECK-LABEL: func.func @main(
// The first of the program has nothing to begin before. Names of memory between two launches are no steps.
// CHECK: gpu.launch_func @kernels::@first {{.*}}args(%arg0 : memref<4xf32>, %{{.+}} : memref<4xf32>){{$}}
// CHECK-NEXT: plan.buffer
// CHECK-NEXT: gpu.launch_func @kernels::@first {{.*}} {blu.early}
// CHECK-NEXT: gpu.launch_func @kernels::@second {{.*}} {blu.early}
// What does not fit on a processor beside the one before waits.
// CHECK-NEXT: gpu.launch_func @kernels::@second {{.*}}memref<4xf32>){{$}}
// Neither what takes long nor what follows it begins early.
// CHECK-NEXT: gpu.launch_func @kernels::@large {{.*}}xf32>){{$}}
// CHECK-NEXT: gpu.launch_func @kernels::@large {{.*}}xf32>){{$}}
// CHECK-NEXT: gpu.launch_func @kernels::@second {{.*}}memref<4xf32>){{$}}
// A few threads read little of what is large.
// CHECK-NEXT: gpu.launch_func @kernels::@large {{.*}} {blu.early}
// CHECK: gpu.func @first(
// The first argument is never written: what is read of it comes into registers before the kernel waits.
// CHECK: memref.load %arg0
// CHECK-NEXT: llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}"
// CHECK-NEXT: llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}"
// CHECK-NEXT: memref.store
// CHECK: gpu.func @second(
// CHECK-NEXT: griddepcontrol.wait
// CHECK-NEXT: griddepcontrol.launch_dependents
// What is read behind a store is not moved: the first thread of each block brings its share of it into the cache.
// CHECK: gpu.func @third(
// CHECK: memref.extract_aligned_pointer_as_index %arg0
// CHECK: llvm.inline_asm {{.*}}"cp.async.bulk.prefetch.L2.global [$0], $1;"
// CHECK-NOT: prefetch
// CHECK: griddepcontrol.wait
// CHECK: memref.store
// CHECK-NEXT: memref.load

// PLAN: \22kernel\22: \22first\22
// PLAN-NOT: \22early\22
// PLAN: \22kernel\22: \22first\22
// PLAN-SAME: \22early\22: true

module attributes {gpu.container_module, blu.arena_bytes = 128 : i64, blu.target = {name = "sm_90a"}} {
  func.func @main(%x: memref<4xf32>, %y: memref<8388609xf32>) attributes {arg_attrs = [{}, {}], blu.inputs = [tensor<4xf32>, tensor<8388609xf32>], blu.results = []} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %c512 = arith.constant 512 : index
    %c232448_i32 = arith.constant 232448 : i32
    %0 = "plan.buffer"() {space = "arena", index = 0, offset = 0} : () -> memref<4xf32>
    gpu.launch_func @kernels::@first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %0 : memref<4xf32>)
    %1 = "plan.buffer"() {space = "arena", index = 1, offset = 64} : () -> memref<4xf32>
    gpu.launch_func @kernels::@first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %1 : memref<4xf32>)
    gpu.launch_func @kernels::@second blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<4xf32>, %1 : memref<4xf32>)
    gpu.launch_func @kernels::@second blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) dynamic_shared_memory_size %c232448_i32 args(%0 : memref<4xf32>, %1 : memref<4xf32>)
    gpu.launch_func @kernels::@large blocks in (%c512, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<8388609xf32>)
    gpu.launch_func @kernels::@large blocks in (%c512, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<8388609xf32>)
    gpu.launch_func @kernels::@second blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<4xf32>, %1 : memref<4xf32>)
    gpu.launch_func @kernels::@large blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<8388609xf32>)
    gpu.launch_func @kernels::@third blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %1 : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @first(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<4xf32>
      memref.store %0, %y[%c0] : memref<4xf32>
      gpu.return
    }
    gpu.func @second(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      %c1 = arith.constant 1 : index
      %0 = memref.load %x[%c1] : memref<4xf32>
      memref.store %0, %y[%c1] : memref<4xf32>
      gpu.return
    }
    gpu.func @third(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      %c1 = arith.constant 1 : index
      %one = arith.constant 1.0 : f32
      memref.store %one, %y[%c1] : memref<4xf32>
      %0 = memref.load %x[%c1] : memref<4xf32>
      memref.store %0, %y[%c1] : memref<4xf32>
      gpu.return
    }
    gpu.func @large(%x: memref<8388609xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      %c1 = arith.constant 1 : index
      %0 = memref.load %x[%c1] : memref<8388609xf32>
      memref.store %0, %x[%c1] : memref<8388609xf32>
      gpu.return
    }
  }
}
