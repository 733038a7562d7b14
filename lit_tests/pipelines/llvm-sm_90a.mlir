// Level llvm, for GPUs: kernels are LLVM functions in the gpu.module; the program and its launches stay what they were.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --compile-to=llvm | %filecheck %s
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --emit=asm | %filecheck %s --check-prefix=PTX

// CHECK: blu.level = "llvm"
// CHECK-LABEL: func.func @main(
// CHECK: gpu.launch_func @kernels::@rows_0
// CHECK: "plan.check"(
// CHECK: "plan.tensor_map"(
// CHECK: gpu.launch_func @kernels::@gemm_0 blocks in (%c{{[0-9]+}}, %c1, %c1) threads in (%c384, %c1, %c1)
// CHECK: "plan.alias"(%total)
// CHECK-LABEL: gpu.module @kernels {
// CHECK: llvm.func @gemm_0(
// CHECK-NEXT: !llvm.ptr,
// CHECK: %up.weight.map: !llvm.ptr,
// CHECK-NEXT: !llvm.ptr) attributes {{{.*}}blu.kernel = "gemm", {{.*}}gpu.kernel, nvvm.kernel, nvvm.reqntid = array<i32: 384, 1, 1>}
// CHECK-NOT: {{(scf|vector|memref|arith|math)\.}}
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: llvm.func @rows_2(

// PTX: .visible .entry gemm_0(
// PTX: .reqntid 384
// PTX: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// PTX: .loc
