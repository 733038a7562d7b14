// Each kernel becomes the code of one thread, which knows its block and its place in that; who launches it says how many.
// RUN: %blu-compile %s -q --target=sm_80 --compile-to=blu-emit-gpu-kernels | %filecheck %s
// RUN: %blu-compile %s -q --target=sm_90a --compile-to=blu-emit-gpu-kernels | %filecheck %s --check-prefix=HOPPER

// A row of 20 numbers belongs to eight threads, of which five have four each; they put their sums together.
// CHECK: func{{.*}} @rows_0(
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK-NOT: linalg
// CHECK: %[[HAS_SOME:.+]] = arith.cmpi slt, %{{.+}}, %c20_i32 : i32
// CHECK: %[[LOADED:.+]] = vector.load {{.*}}{alignment = 16 : i64} : memref<1280xf32, {{.*}}>, vector<4xf32>
// CHECK-NEXT: %[[E:.+]] = math.exp %[[LOADED]] : vector<4xf32>
// CHECK: arith.select %[[HAS_SOME]], %[[E]], %{{.+}} : vector<4xf32>
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.shfl.sync
// CHECK: return

// Tensor cores: copies to shared memory are on their way while the tile before is multiplied.
// CHECK: func{{.*}} @gemm_0(
// CHECK-NOT: linalg
// CHECK: cp.async.cg.shared.global
// CHECK: nvvm.cp.async.commit.group
// CHECK: scf.for
// CHECK: nvvm.cp.async.wait.group
// CHECK-NEXT: nvvm.barrier
// CHECK: ldmatrix
// CHECK: mma.sync.aligned.m16n8k16
// CHECK: scf.yield

// The same product on Hopper is too small for warpgroups, which want a tile for each multiprocessor.
// HOPPER: func{{.*}} @gemm_0(
// HOPPER: mma.sync.aligned.m16n8k16
// HOPPER-NOT: wgmma.mma_async
func.func @main(%x: tensor<64x20xf32>, %a: tensor<256x128xbf16>, %b: tensor<128x256xbf16>) -> (tensor<64xf32>, tensor<256x256xbf16>) {
  %0 = "blu.exp"(%x) : (tensor<64x20xf32>) -> tensor<64x20xf32>
  %1 = "blu.sum"(%0) {axes = array<i64: 1>, keepdims = false} : (tensor<64x20xf32>) -> tensor<64xf32>
  %2 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<256x128xbf16>, tensor<128x256xbf16>) -> tensor<256x256xbf16>
  return %1, %2 : tensor<64xf32>, tensor<256x256xbf16>
}
