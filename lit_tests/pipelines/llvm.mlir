// Level llvm, for processors: kernels are functions on bare pointers, and a range of blocks; the program stays.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --compile-to=llvm | %filecheck %s
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --emit=llvm | %filecheck %s --check-prefix=TRANSLATED

// CHECK: blu.level = "llvm"
// CHECK-LABEL: func.func @main(
// CHECK: call @rows_0(%tokens, %{{.+}}) {blu.blocks = {{[0-9]+}} : i64, blu.chunk = {{[0-9]+}} : i64}
// CHECK: "plan.check"(
// CHECK: call @gemm_0(
// CHECK: module @kernels {
// CHECK: llvm.func @gemm_0(
// CHECK-NEXT: !llvm.ptr,
// CHECK-NEXT: !llvm.ptr,
// CHECK-NEXT: %up.bias: !llvm.ptr,
// CHECK-NEXT: !llvm.ptr,
// CHECK-NEXT: %begin: i64,
// CHECK-NEXT: %end: i64) attributes {blu.kernel = "gemm"
// CHECK-NOT: {{(scf|vector|memref|arith|math)\.}}
// CHECK: llvm.icmp "slt" %{{.+}}, %end : i64
// CHECK: llvm.intr.fmuladd({{.*}}) : (vector<8xf32>, vector<8xf32>, vector<8xf32>) -> vector<8xf32>
// CHECK: llvm.getelementptr %up.bias[

// In LLVM IR, each carries the user's lines, and has an entry beside it that the runtime calls.
// TRANSLATED: define void @gemm_0(ptr {{.*}}, ptr {{.*}}, ptr {{.*}}, ptr {{.*}}, i64 {{.*}}, i64 {{.*}}) {{.*}}!dbg
// TRANSLATED: call <8 x float> @llvm.fmuladd{{.*}}, !dbg
// TRANSLATED: define void @gemm_0.entry(ptr {{.*}}%args, i64 %begin, i64 %end)
// TRANSLATED: !DIFile(filename: "model.py"
// TRANSLATED: define void @rows_2(
// TRANSLATED: define void @rows_2.entry(
