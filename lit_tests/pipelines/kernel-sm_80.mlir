// Level kernel, for GPUs before Hopper: warps copy what they multiply themselves, and launches take pointers only.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_80 --compile-to=kernel | %filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK: gpu.launch_func @kernels::@rows_0
// CHECK: "plan.check"(
// CHECK-NOT: plan.tensor_map
// CHECK: gpu.launch_func @kernels::@gemm_0 blocks in (%c96, %c1, %c1) threads in (%c128, %c1, %c1)
// CHECK-NEXT: args(%{{.+}} : memref<1024x64xbf16>, %{{.+}} : memref<64x1536xbf16, strided<[1, 64]>>, %up.bias : memref<1536xbf16>, %{{.+}} : memref<1024x1536xbf16>)

// CHECK-LABEL: gpu.module @kernels {
// CHECK: gpu.func @gemm_0(
// CHECK: kernel attributes {blu.kernel = "gemm", {{.*}}blu.schedule = {{{.*}}kind = "mma"
// CHECK: cp.async.cg.shared.global
// CHECK: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32
// CHECK: gpu.return
