// Level plan: the program is JSON in an attribute, kernels stay what they were.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --compile-to=plan | %filecheck %s
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --compile-to=plan | %filecheck %s --check-prefix=GPU

// CHECK: #blu_plan = "{\22entry\22: \22main\22, \22inputs\22: [{\22shape\22: [1024], \22dtype\22: \22i32\22, \22name\22: \22tokens\22, \22donated\22: false},
// CHECK-SAME: \22launches\22: [{\22kernel\22: \22rows_0\22, \22blocks\22:
// CHECK: blu.level = "plan"
// CHECK-NOT: func.func
// CHECK: module @kernels {
// CHECK: llvm.func @gemm_0(

// GPU: #blu_plan = {{.*}}\22launches\22: [{\22kernel\22: \22rows_0\22, \22grid\22: [1, 1, 1], \22threads\22: 128,
// GPU-SAME: \22tensor_maps\22: [{\22buffer\22: [\22arena\22,
// GPU-NOT: func.func
// GPU: gpu.module @kernels {
// GPU: llvm.func @gemm_0(
