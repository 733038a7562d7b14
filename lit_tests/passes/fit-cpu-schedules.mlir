// Schedules of kernels for processors are refused where they do not fit, with the kernel's line and the limit.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --blu-fit-cpu-schedules

module attributes {blu.target = {name = "x86-64-v3"}} {
  func.func private @gemm_0(%x: memref<64x32xf32>, %y: memref<32x48xf32>, %z: memref<64x48xf32>) attributes {blu.kernel = "gemm", blu.schedule = {kind = "tiles", rows = 8 : i64, vectors = 2 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<64x32xf32> to tensor<64x32xf32>
    %1 = bufferization.to_tensor %y restrict : memref<32x48xf32> to tensor<32x48xf32>
    %2 = tensor.empty() : tensor<64x48xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<64x48xf32>) -> tensor<64x48xf32>
    // expected-error@+1 {{the schedule of kernel 'gemm_0': a tile of 8 x 2 vectors takes more than the 16 registers of x86-64-v3}}
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<64x32xf32>, tensor<32x48xf32>) outs(%3 : tensor<64x48xf32>) -> tensor<64x48xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<64x48xf32>, memref<64x48xf32>) -> ()
    return
  }
}

// -----

#each = affine_map<(d0) -> (d0)>
module attributes {blu.target = {name = "x86-64-v3"}} {
  // expected-error@+1 {{the schedule of kernel 'rows_0': columns = 100: pieces are multiples of 128 columns}}
  func.func private @rows_0(%x: memref<4000xf32>, %y: memref<4000xf32>) attributes {blu.kernel = "rows", blu.schedule = {kind = "pieces", columns = 100 : i64}} {
    %0 = bufferization.to_tensor %x restrict : memref<4000xf32> to tensor<4000xf32>
    %1 = tensor.empty() : tensor<4000xf32>
    %2 = linalg.generic {indexing_maps = [#each, #each], iterator_types = ["parallel"]} ins(%0 : tensor<4000xf32>) outs(%1 : tensor<4000xf32>) {
    ^bb0(%in: f32, %out: f32):
      %3 = arith.negf %in : f32
      linalg.yield %3 : f32
    } -> tensor<4000xf32>
    bufferization.materialize_in_destination %2 in restrict writable %y : (tensor<4000xf32>, memref<4000xf32>) -> ()
    return
  }
}

// -----

module attributes {blu.target = {name = "x86-64-v3"}} {
  // expected-error@+1 {{the schedule of kernel 'attention_0': lanes = 4: a vector of x86-64-v3 has 8 elements here}}
  func.func private @attention_0(%x: memref<2x70x32xf32>, %y: memref<2x70x32xf32>) attributes {blu.kernel = "attention", blu.schedule = {kind = "prefill", lanes = 4 : i64}} {
    %0 = bufferization.to_tensor %x restrict : memref<2x70x32xf32> to tensor<2x70x32xf32>
    %1 = "blu.attention"(%0, %0, %0) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x70x32xf32>, tensor<2x70x32xf32>, tensor<2x70x32xf32>) -> tensor<2x70x32xf32>
    bufferization.materialize_in_destination %1 in restrict writable %y : (tensor<2x70x32xf32>, memref<2x70x32xf32>) -> ()
    return
  }
}
