// Level llvm, for GPUs before Hopper.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_80 --compile-to=llvm | %filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK: gpu.launch_func @kernels::@gemm_0 blocks in (%c96, %c1, %c1) threads in (%c128, %c1, %c1)
// CHECK-LABEL: gpu.module @kernels {
// CHECK: llvm.func @gemm_0(
// CHECK: gpu.kernel, {{.*}}nvvm.reqntid = array<i32: 128, 1, 1>
// CHECK-NOT: {{(scf|vector|memref|arith|math)\.}}
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
