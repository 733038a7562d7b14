// Calls of a batch become one launch of a kernel that takes the arguments of all from a table.
// RUN: %blu-opt %s --blu-launch-batches | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-launch-batches,blu-export-plan' --mlir-print-local-scope | %filecheck %s --check-prefix=PLAN
// RUN: %blu-opt %s --pass-pipeline='blu-launch-batches,blu-export-plan,lower-to-nvvm' | %filecheck %s --check-prefix=LLVM

// The first kernel of both calls comes before the second of any. A kernel with a grid of three sizes is called alone.
// CHECK-LABEL: func.func @main(
// CHECK: call @first_batch(%arg0, %[[A:.+]]) {blu.batch = 0 : i64}
// CHECK-NEXT: call @first_batch(%arg1, %[[B:.+]]) {blu.batch = 0 : i64}
// CHECK-NEXT: call @second_batch(%arg0, %[[A]]) {blu.batch = 0 : i64, blu.launch = 1 : i64}
// CHECK-NEXT: call @second_batch(%arg1, %[[B]]) {blu.batch = 0 : i64, blu.launch = 1 : i64}
// CHECK-NEXT: call @third(%arg0, %[[A]]) :
// CHECK-NEXT: call @third(%arg1, %[[B]]) :
// CHECK-NEXT: call @first(%[[A]], %[[B]]) :
// CHECK-NEXT: return
// CHECK: func.func @first_batch(%{{.+}}: memref<4xf32>, %{{.+}}: memref<4xf32>) attributes {blu.batch,
// CHECK: func.func @first(

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
module attributes {blu.arena_bytes = 128 : i64} {
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {arg_attrs = [{}, {}], blu.inputs = [tensor<4xf32>, tensor<4xf32>], blu.results = []} {
    %0 = "plan.buffer"() {space = "arena", index = 0, offset = 0} : () -> memref<4xf32>
    call @first(%x, %0) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @second(%x, %0) {blu.batch = 0 : i64, blu.launch = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @third(%x, %0) {blu.batch = 0 : i64, blu.launch = 2 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1, offset = 64} : () -> memref<4xf32>
    call @first(%y, %1) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @second(%y, %1) {blu.batch = 0 : i64, blu.launch = 1 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @third(%y, %1) {blu.batch = 0 : i64, blu.launch = 2 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
    call @first(%0, %1) : (memref<4xf32>, memref<4xf32>) -> ()
    return
  }
  func.func @first(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows", blu.grid = array<i64: 2, 1, 1>, blu.threads = 32 : i64, blu.shared_bytes = 0 : i64} {
    %c0 = arith.constant 0 : index
    %0 = memref.load %x[%c0] : memref<4xf32>
    memref.store %0, %y[%c0] : memref<4xf32>
    return
  }
  func.func @second(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows", blu.grid = array<i64: 3, 1, 1>, blu.threads = 32 : i64, blu.shared_bytes = 0 : i64} {
    return
  }
  func.func @third(%x: memref<4xf32>, %y: memref<4xf32>) attributes {blu.kernel = "rows", blu.grid = array<i64: 3, 1, 4>, blu.threads = 32 : i64, blu.shared_bytes = 0 : i64} {
    return
  }
}
