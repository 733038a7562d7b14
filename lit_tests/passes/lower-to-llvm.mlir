// Kernels become functions of the LLVM dialect that take bare pointers and a range of blocks; the user's lines stay.
// RUN: %blu-opt %s --lower-to-llvm --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --lower-to-llvm --ensure-debug-info-scope-on-llvm-func --mlir-print-debuginfo | %filecheck %s --check-prefix=DEBUG

// CHECK-LABEL: llvm.func @rows_0(
// CHECK-SAME: %[[X:.+]]: !llvm.ptr, %[[OUT:.+]]: !llvm.ptr, %[[BEGIN:.+]]: i64, %[[END:.+]]: i64)
// CHECK-SAME: blu.blocks = 4 : i64, blu.chunk = 1 : i64, blu.kernel = "rows"
// CHECK: llvm.icmp "slt"
// CHECK: llvm.getelementptr {{.*}}%[[X]][
// CHECK: llvm.load {{.*}} vector<8xf32>
// CHECK: llvm.intr.fmuladd
// CHECK: llvm.store {{.*}} vector<8xf32>
// CHECK: llvm.return

// Each function has a scope of its own that says file and line, and each operation the line it comes from.
// DEBUG: llvm.func @rows_0(
// DEBUG: llvm.intr.fmuladd{{.*}} loc(#[[FMA:.+]])
// DEBUG: } loc(#[[SCOPED:.+]])
// DEBUG-DAG: #[[LINE:.+]] = loc("model.py":7:1)
// DEBUG-DAG: #[[FILE:.+]] = #llvm.di_file<"model.py" in "">
// DEBUG-DAG: #[[PROGRAM:.+]] = #llvm.di_subprogram<{{.*}}name = "rows_0", {{.*}}file = #[[FILE]], line = 7,
// DEBUG-DAG: #[[FMA]] = loc("h.0.mlp"
// DEBUG-DAG: #[[SCOPED]] = loc(fused<#[[PROGRAM]]>
func.func private @rows_0(%x: memref<4x8xf32>, %out: memref<4x8xf32, strided<[16, 1], offset: 8>>, %begin: index, %end: index) attributes {blu.kernel = "rows", blu.blocks = 4 : i64, blu.chunk = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %row = %begin to %end step %c1 {
    %0 = vector.load %x[%row, %c0] : memref<4x8xf32>, vector<8xf32> loc("model.py":8:1)
    %1 = vector.fma %0, %0, %0 : vector<8xf32> loc("h.0.mlp"("model.py":8:1))
    vector.store %1, %out[%row, %c0] : memref<4x8xf32, strided<[16, 1], offset: 8>>, vector<8xf32> loc("model.py":8:1)
  }
  return
} loc("model.py":7:1)
