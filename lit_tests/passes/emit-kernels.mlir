// Kernels become vector code in loops over a range of blocks, and their calls say how many blocks there are.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse,blu-choose-cpu-schedules,blu-reserve-scratch,blu-pair-donations,blu-bufferize,blu-plan-memory,blu-fit-cpu-schedules,blu-emit-kernels' --mlir-print-local-scope | %filecheck %s

// A tile of 6 rows by 2 vectors, as the target says, and the bias added before it is stored.
// CHECK-LABEL: func.func @gemm(
// CHECK: call @gemm_0({{.*}}) {blu.blocks = {{[0-9]+}} : i64, blu.chunk = {{[0-9]+}} : i64}
// CHECK: func.func private @gemm_0(memref<60x32xf32>, memref<32x48xf32>, memref<48xf32>, memref<60x48xf32>)
// CHECK: module @kernels {
// CHECK-LABEL: func.func @gemm_0(
// CHECK-SAME: %[[X:.+]]: memref<60x32xf32>, %[[W:.+]]: memref<32x48xf32>, %[[B:.+]]: memref<48xf32>, %[[OUT:.+]]: memref<60x48xf32>, %[[BEGIN:[a-z0-9_]+]]: index, %[[END:[a-z0-9_]+]]: index) attributes {blu.kernel = "gemm", blu.schedule = {{{.*}}}}
// CHECK: scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK: :12 = scf.for
// CHECK: vector.load %[[W]]
// CHECK-COUNT-12: vector.fma {{.*}} : vector<8xf32>
// CHECK: vector.load %[[B]]
// CHECK: arith.addf {{.*}} : vector<8xf32>
// CHECK: vector.store {{.*}}, %[[OUT]]
module attributes {blu.target = {gemm_rows = 6 : i64, gemm_vectors = 2 : i64, l2_bytes = 262144 : i64, name = "x86-64-v3"}} {
  func.func @gemm(%x: tensor<60x32xf32>, %w: tensor<32x48xf32>, %b: tensor<48xf32>) -> tensor<60x48xf32> {
    %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<60x32xf32>, tensor<32x48xf32>) -> tensor<60x48xf32>
    %1 = "blu.add"(%0, %b) : (tensor<60x48xf32>, tensor<48xf32>) -> tensor<60x48xf32>
    return %1 : tensor<60x48xf32>
  }
}

// -----

// A row at a time: vectors, a masked rest, and a sum across the lanes.
// CHECK-LABEL: func.func @rows(
// CHECK-LABEL: func.func @rows_0(
// CHECK-SAME: %[[BEGIN:[a-z0-9_]+]]: index, %[[END:[a-z0-9_]+]]: index) attributes {blu.kernel = "rows", blu.schedule = {chain = 0 : i64, kind = "rows", rows = {{[0-9]+}} : i64}}
// CHECK: scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK: vector.load
// CHECK: vector.maskedload
// CHECK: arith.addf
// CHECK: memref.store
module attributes {blu.target = {gemm_rows = 6 : i64, gemm_vectors = 2 : i64, l2_bytes = 262144 : i64, name = "x86-64-v3"}} {
  func.func @rows(%x: tensor<64x20xf32>) -> tensor<64xf32> {
    %0 = "blu.sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<64x20xf32>) -> tensor<64xf32>
    return %0 : tensor<64xf32>
  }
}

// -----

// An update writes what changes, at a place that is known when it runs.
// CHECK-LABEL: func.func @update(
// CHECK-LABEL: func.func @update_0(
// CHECK-SAME: %[[ROW:.+]]: memref<1x4xf32>, %[[I:.+]]: memref<i32>, %[[CACHE:.+]]: memref<8x4xf32>, %[[BEGIN:[a-z0-9_]+]]: index, %[[END:[a-z0-9_]+]]: index)
// CHECK: memref.load %[[I]][] : memref<i32>
// CHECK: vector.maskedload %[[ROW]]
// CHECK: vector.maskedstore %[[CACHE]]
module attributes {blu.target = {gemm_rows = 6 : i64, gemm_vectors = 2 : i64, l2_bytes = 262144 : i64, name = "x86-64-v3"}} {
  func.func @update(%cache: tensor<8x4xf32> {blu.donated}, %row: tensor<1x4xf32>, %i: tensor<i32>) -> tensor<8x4xf32> {
    %c = "blu.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
    %0 = "blu.dynamic_update_slice"(%cache, %row, %i, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
    return %0 : tensor<8x4xf32>
  }
}

// -----

// Attention never holds all scores: its scratch memory is a few tiles, 512 queries by 512 keys are nowhere.
// CHECK-LABEL: func.func @attention(
// CHECK-NOT: 512x512
// CHECK-LABEL: func.func @attention_0(
// CHECK-SAME: %[[BEGIN:[a-z0-9_]+]]: index, %[[END:[a-z0-9_]+]]: index)
// CHECK-NOT: memref.alloc(
// CHECK: scf.for %{{.+}} = %[[BEGIN]] to %[[END]]
// CHECK: vector.fma
// CHECK-NOT: 512x512
module attributes {blu.target = {gemm_rows = 6 : i64, gemm_vectors = 2 : i64, l2_bytes = 262144 : i64, name = "x86-64-v3"}} {
  func.func @attention(%q: tensor<1x2x512x16xf32>, %k: tensor<1x2x512x16xf32>, %v: tensor<1x2x512x16xf32>) -> tensor<1x2x512x16xf32> {
    %0 = "blu.attention"(%q, %k, %v) {causal = true, precision = "highest", scale = 0.25 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<1x2x512x16xf32>, tensor<1x2x512x16xf32>, tensor<1x2x512x16xf32>) -> tensor<1x2x512x16xf32>
    return %0 : tensor<1x2x512x16xf32>
  }
}
