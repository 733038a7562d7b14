// Calls of a batch become one launch of a kernel whose blocks find the arguments of their call in a table.
// RUN: %blu-opt %s --blu-launch-batches | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-launch-batches,lower-to-nvvm,blu-export-plan' --mlir-print-local-scope | %filecheck %s --check-prefix=PLAN
// RUN: %blu-opt %s --pass-pipeline='blu-launch-batches,lower-to-nvvm' | %filecheck %s --check-prefix=LLVM

// The first kernel of both calls comes before the second of any. A kernel with a grid of three sizes is launched alone.
// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.+]] = "plan.buffer"() {index = 0
// CHECK: %[[B:.+]] = "plan.buffer"() {index = 1
// CHECK-NEXT: %[[X:.+]] = "plan.each"(%arg0, %arg1) : (memref<4xf32>, memref<4xf32>) -> memref<4xf32>
// CHECK-NEXT: %[[Y:.+]] = "plan.each"(%[[A]], %[[B]])
// CHECK-NEXT: gpu.launch_func @kernels::@first_batch blocks in (%c2, %c1, %c2) threads in (%c32, %c1, %c1) {{.*}}args(%[[X]] : {{.+}}, %[[Y]] : {{.+}})
// CHECK: gpu.launch_func @kernels::@second_batch blocks in (%c3, %c1, %c2)
// CHECK-NEXT: gpu.launch_func @kernels::@third {{.*}} args(%arg0 : {{.+}}, %[[A]] : {{.+}})
// CHECK-NEXT: gpu.launch_func @kernels::@third {{.*}} args(%arg1 : {{.+}}, %[[B]] : {{.+}})
// CHECK-NEXT: gpu.launch_func @kernels::@first blocks in (%c2, %c1, %c1) {{.*}} args(%[[A]] : {{.+}}, %[[B]] : {{.+}})
// CHECK-NEXT: return
// CHECK: gpu.func @first_batch(%{{.+}}: memref<4xf32>, %{{.+}}: memref<4xf32>) kernel attributes {blu.batch,
// CHECK: gpu.func @first(
// CHECK-NOT: gpu.func @second(

// PLAN: \22kernel\22: \22first_batch\22, \22grid\22: [2, 1, 2]
// PLAN-SAME: \22args\22: {{\[\[}}\22table\22, 0, 0]]
// PLAN-SAME: and 1 more\22
// PLAN-SAME: \22kernel\22: \22second_batch\22, \22grid\22: [3, 1, 2]
// PLAN-SAME: \22args\22: {{\[\[}}\22table\22, 1, 0]]
// PLAN-SAME: \22tables\22: {{\[\[\[}}\22input\22, 0, 0], [\22arena\22, 0], [\22input\22, 1, 0], [\22arena\22, 64]], {{\[\[}}\22input\22, 0, 0],

// LLVM-LABEL: llvm.func @first_batch(
// LLVM-SAME: %[[TABLE:.+]]: !llvm.ptr) attributes
// LLVM: %[[CALL:.+]] = nvvm.read.ptx.sreg.ctaid.z
// LLVM: %[[ROW:.+]] = llvm.zext %[[CALL]] : i32 to i64
// LLVM: llvm.getelementptr %[[TABLE]][%[[ROW]], 0] : (!llvm.ptr, i64) -> !llvm.ptr, !llvm.array<2 x i64>
// LLVM: llvm.load %{{.+}} invariant {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr<1>
// LLVM-LABEL: llvm.func @first(
// LLVM-SAME: %{{.+}}: !llvm.ptr, %{{.+}}: !llvm.ptr) attributes
module attributes {gpu.container_module, blu.arena_bytes = 128 : i64} {
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {arg_attrs = [{}, {}], blu.inputs = [tensor<4xf32>, tensor<4xf32>], blu.results = []} {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c4 = arith.constant 4 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0, offset = 0} : () -> memref<4xf32>
    gpu.launch_func @kernels::@first blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %0 : memref<4xf32>) {blu.batch = 0 : i64}
    gpu.launch_func @kernels::@second blocks in (%c3, %c1, %c1) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %0 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 1 : i64}
    gpu.launch_func @kernels::@third blocks in (%c3, %c1, %c4) threads in (%c32, %c1, %c1) args(%x : memref<4xf32>, %0 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 2 : i64}
    %1 = "plan.buffer"() {space = "arena", index = 1, offset = 64} : () -> memref<4xf32>
    gpu.launch_func @kernels::@first blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<4xf32>, %1 : memref<4xf32>) {blu.batch = 0 : i64}
    gpu.launch_func @kernels::@second blocks in (%c3, %c1, %c1) threads in (%c32, %c1, %c1) args(%y : memref<4xf32>, %1 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 1 : i64}
    gpu.launch_func @kernels::@third blocks in (%c3, %c1, %c4) threads in (%c32, %c1, %c1) args(%y : memref<4xf32>, %1 : memref<4xf32>) {blu.batch = 0 : i64, blu.launch = 2 : i64}
    gpu.launch_func @kernels::@first blocks in (%c2, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<4xf32>, %1 : memref<4xf32>)
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
      gpu.return
    }
    gpu.func @third(%x: memref<4xf32>, %y: memref<4xf32>) kernel attributes {blu.kernel = "rows", known_block_size = array<i32: 32, 1, 1>} {
      gpu.return
    }
  }
}
