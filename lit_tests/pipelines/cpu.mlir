// The whole pipeline for processors, level by level: a network of two layers and a softmax is three kernels.
// RUN: %blu-compile %s -q --no-readable --target=x86-64-v3 --compile-to=linalg | %filecheck %s --check-prefix=LINALG
// RUN: %blu-compile %s -q --no-readable --target=x86-64-v3 --compile-to=memref | %filecheck %s --check-prefix=MEMREF
// RUN: %blu-compile %s -q --target=x86-64-v3 --emit=llvm | %filecheck %s --check-prefix=LLVM

// LINALG: blu.level = "linalg"
// LINALG-LABEL: func.func @main(
// LINALG-SAME: %[[X:[a-z0-9]+]]: tensor<32x16xf32> {blu.name = "x"}, %[[W1:[a-z0-9]+]]: tensor<64x16xf32> {blu.name = "up.weight"}, %[[B1:[a-z0-9]+]]: tensor<64xf32> {blu.name = "up.bias"}, %[[W2:[a-z0-9]+]]: tensor<8x64xf32> {blu.name = "down.weight"}, %[[B2:[a-z0-9]+]]: tensor<8xf32> {blu.name = "down.bias"})
// LINALG: %[[T1:.+]] = linalg.transpose ins(%[[W1]]
// LINALG: %[[HIDDEN:.+]] = call @gemm_0(%[[X]], %[[T1]], %[[B1]])
// LINALG: %[[T2:.+]] = linalg.transpose ins(%[[W2]]
// LINALG: %[[SCORES:.+]] = call @gemm_1(%[[HIDDEN]], %[[T2]], %[[B2]])
// LINALG: %[[RESULT:.+]] = call @rows_0(%[[SCORES]])
// LINALG: return %[[RESULT]]
// LINALG: func.func private @gemm_0(
// LINALG: linalg.contract
// LINALG: math.exp
// LINALG: func.func private @gemm_1(
// LINALG: func.func private @rows_0(
// LINALG-NOT: func.func

// The transposed weights are strides, and the hidden layer and the scores lie in the arena.
// MEMREF: blu.arena_bytes = 9216 : i64, blu.level = "memref"
// MEMREF-LABEL: func.func @main(
// MEMREF-SAME: %[[X:[a-z0-9]+]]: memref<32x16xf32> {{{.*}}}, %[[W1:[a-z0-9]+]]: memref<64x16xf32> {{{.*}}}, %[[B1:[a-z0-9]+]]: memref<64xf32>
// MEMREF: %[[HIDDEN:.+]] = "plan.buffer"() {index = 0 : i64, offset = 0 : i64, space = "arena"} : () -> memref<32x64xf32>
// MEMREF: %[[T1:.+]] = memref.reinterpret_cast %[[W1]] to offset: [0], sizes: [16, 64], strides: [1, 16]
// MEMREF: call @gemm_0(%[[X]], %[[T1]], %[[B1]], %[[HIDDEN]])
// MEMREF: %[[SCORES:.+]] = "plan.buffer"() {index = 1 : i64, offset = 8192 : i64, space = "arena"} : () -> memref<32x8xf32>
// MEMREF: call @gemm_1(%[[HIDDEN]], %{{.+}}, %{{.+}}, %[[SCORES]])
// MEMREF: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<32x8xf32>
// MEMREF: call @rows_0(%[[SCORES]], %[[OUT]])
// MEMREF: return

// One function per kernel that carries the user's lines, and beside it the entry that the runtime calls.
// LLVM: define void @gemm_0(ptr {{.*}}, ptr {{.*}}, ptr {{.*}}, ptr {{.*}}, i64 {{.*}}, i64 {{.*}}) {{.*}}!dbg
// LLVM: call <8 x float> @llvm.fmuladd
// LLVM: define void @gemm_0.entry(ptr {{.*}}%args, i64 %begin, i64 %end)
// LLVM: !DIFile(filename: "cpu.mlir"
// LLVM: define void @gemm_1(
// LLVM: define void @rows_0(
// LLVM: define void @rows_0.entry(
func.func @main(%x: tensor<32x16xf32> {blu.name = "x"}, %w1: tensor<64x16xf32> {blu.name = "up.weight"}, %b1: tensor<64xf32> {blu.name = "up.bias"}, %w2: tensor<8x64xf32> {blu.name = "down.weight"}, %b2: tensor<8xf32> {blu.name = "down.bias"}) -> tensor<32x8xf32> {
  %t1 = "blu.transpose"(%w1) {permutation = array<i64: 1, 0>} : (tensor<64x16xf32>) -> tensor<16x64xf32>
  %0 = "blu.matmul"(%x, %t1) {precision = "highest"} : (tensor<32x16xf32>, tensor<16x64xf32>) -> tensor<32x64xf32>
  %1 = "blu.add"(%0, %b1) : (tensor<32x64xf32>, tensor<64xf32>) -> tensor<32x64xf32>
  %2 = "blu.gelu"(%1) {approximate = "tanh"} : (tensor<32x64xf32>) -> tensor<32x64xf32>
  %t2 = "blu.transpose"(%w2) {permutation = array<i64: 1, 0>} : (tensor<8x64xf32>) -> tensor<64x8xf32>
  %3 = "blu.matmul"(%2, %t2) {precision = "highest"} : (tensor<32x64xf32>, tensor<64x8xf32>) -> tensor<32x8xf32>
  %4 = "blu.add"(%3, %b2) : (tensor<32x8xf32>, tensor<8xf32>) -> tensor<32x8xf32>
  %5 = "blu.softmax"(%4) {axis = 1 : i64} : (tensor<32x8xf32>) -> tensor<32x8xf32>
  return %5 : tensor<32x8xf32>
}
