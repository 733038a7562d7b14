// On processors strides decide all: before bufferization, kernels only keep what others say of them.
// RUN: %blu-opt %s --blu-choose-cpu-schedules | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-choose-cpu-schedules,blu-bufferize,blu-plan-memory,blu-fit-cpu-schedules' | %filecheck %s --check-prefix=FIT

#each = affine_map<(d0) -> (d0)>

// CHECK: module attributes {blu.target = {name = "x86-64-v3"}}
module attributes {blu.target = {name = "x86-64-v3"}, blu.schedules = {gemm_0 = {kind = "tiles", rows = 4 : i64, chunk_rows = 8 : i64}, rows_1 = {kind = "pieces", columns = 256 : i64}, attention_0 = {kind = "prefill", query_groups = 1 : i64}}} {
  func.func @main(%x: tensor<64x32xf32>, %y: tensor<32x48xf32>, %z: tensor<4000xf32>, %q: tensor<2x70x32xf32>) -> (tensor<64x48xf32>, tensor<4000xf32>, tensor<4000xf32>, tensor<2x70x32xf32>) {
    %0 = call @gemm_0(%x, %y) : (tensor<64x32xf32>, tensor<32x48xf32>) -> tensor<64x48xf32>
    %1 = call @rows_0(%z) : (tensor<4000xf32>) -> tensor<4000xf32>
    %2 = call @rows_1(%z) : (tensor<4000xf32>) -> tensor<4000xf32>
    %3 = call @attention_0(%q) : (tensor<2x70x32xf32>) -> tensor<2x70x32xf32>
    return %0, %1, %2, %3 : tensor<64x48xf32>, tensor<4000xf32>, tensor<4000xf32>, tensor<2x70x32xf32>
  }

  // CHECK-LABEL: func.func private @gemm_0(
  // CHECK-SAME: blu.schedule = {chunk_rows = 8 : i64, kind = "tiles", rows = 4 : i64}
  // FIT-LABEL: func.func private @gemm_0(
  // FIT-SAME: blu.schedule = {chunk_rows = 8 : i64, {{.*}}kind = "tiles", lanes = 8 : i64, {{.*}}rows = 4 : i64, vectors = 3 : i64}
  func.func private @gemm_0(%x: tensor<64x32xf32>, %y: tensor<32x48xf32>) -> tensor<64x48xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<64x48xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<64x48xf32>) -> tensor<64x48xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<64x32xf32>, tensor<32x48xf32>) outs(%1 : tensor<64x48xf32>) -> tensor<64x48xf32>
    return %2 : tensor<64x48xf32>
  }

  // CHECK-LABEL: func.func private @rows_0(
  // CHECK-SAME: attributes {blu.kernel = "rows"}
  // FIT-LABEL: func.func private @rows_0(
  // FIT-SAME: blu.schedule = {chain = 0 : i64, columns = 4096 : i64, kind = "pieces"}
  func.func private @rows_0(%x: tensor<4000xf32>) -> tensor<4000xf32> attributes {blu.kernel = "rows"} {
    %0 = tensor.empty() : tensor<4000xf32>
    %1 = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel"]} ins(%x : tensor<4000xf32>) outs(%0 : tensor<4000xf32>) {
    ^bb0(%in: f32, %out: f32):
      %2 = arith.negf %in : f32
      linalg.yield %2 : f32
    } -> tensor<4000xf32>
    return %1 : tensor<4000xf32>
  }

  // CHECK-LABEL: func.func private @rows_1(
  // CHECK-SAME: blu.schedule = {columns = 256 : i64, kind = "pieces"}
  // FIT-LABEL: func.func private @rows_1(
  // FIT-SAME: blu.schedule = {chain = 0 : i64, columns = 256 : i64, kind = "pieces"}
  func.func private @rows_1(%x: tensor<4000xf32>) -> tensor<4000xf32> attributes {blu.kernel = "rows"} {
    %0 = tensor.empty() : tensor<4000xf32>
    %1 = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel"]} ins(%x : tensor<4000xf32>) outs(%0 : tensor<4000xf32>) {
    ^bb0(%in: f32, %out: f32):
      %2 = arith.negf %in : f32
      linalg.yield %2 : f32
    } -> tensor<4000xf32>
    return %1 : tensor<4000xf32>
  }

  // CHECK-LABEL: func.func private @attention_0(
  // CHECK-SAME: blu.schedule = {kind = "prefill", query_groups = 1 : i64}
  // FIT-LABEL: func.func private @attention_0(
  // FIT-SAME: blu.schedule = {key_rows = 6 : i64, kind = "prefill", lanes = 8 : i64, matrices = "in_place", query_groups = 1 : i64, value_rows = 6 : i64, vectors = 2 : i64}
  func.func private @attention_0(%q: tensor<2x70x32xf32>) -> tensor<2x70x32xf32> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%q, %q, %q) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x70x32xf32>, tensor<2x70x32xf32>, tensor<2x70x32xf32>) -> tensor<2x70x32xf32>
    return %0 : tensor<2x70x32xf32>
  }
}
