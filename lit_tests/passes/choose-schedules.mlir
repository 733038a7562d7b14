// Matrix products get a schedule: their sizes decide how k is split, strides by which kind of kernel.
// RUN: %blu-opt %s --blu-choose-schedules | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-choose-schedules,blu-split-products,blu-reserve-gpu-scratch,blu-bufferize,blu-plan-memory,blu-fit-schedules' | %filecheck %s --check-prefix=FIT

// What others wish is done, and said no longer.
// CHECK: module attributes {blu.target = {name = "sm_90a"}}
module attributes {blu.target = {name = "sm_90a"}, blu.schedules = {gemm_3 = {kind = "wgmma", columns = 64 : i64, stages = 2 : i64}}} {
  func.func @main(%x: tensor<36x2112xbf16>, %y: tensor<2112x40xbf16>, %i: tensor<8x8xi32>, %a: tensor<256x512xbf16>, %b: tensor<512x256xbf16>) -> (tensor<36x40xf32>, tensor<8x8xi32>, tensor<256x256xf32>, tensor<256x256xf32>) {
    %0 = call @gemm_0(%x, %y) : (tensor<36x2112xbf16>, tensor<2112x40xbf16>) -> tensor<36x40xf32>
    %1 = call @gemm_1(%i, %i) : (tensor<8x8xi32>, tensor<8x8xi32>) -> tensor<8x8xi32>
    %2 = call @gemm_2(%a, %b) : (tensor<256x512xbf16>, tensor<512x256xbf16>) -> tensor<256x256xf32>
    %3 = call @gemm_3(%a, %b) : (tensor<256x512xbf16>, tensor<512x256xbf16>) -> tensor<256x256xf32>
    return %0, %1, %2, %3 : tensor<36x40xf32>, tensor<8x8xi32>, tensor<256x256xf32>, tensor<256x256xf32>
  }

  // A long k is split among blocks, and what is not said by sizes is left open.
  // CHECK-LABEL: func.func private @gemm_0(
  // CHECK-SAME: blu.schedule = {columns = 64 : i64, copied = "undecided", instruction = "bf16", kind = "product", rows = 64 : i64, split = [[PARTS:[0-9]+]] : i64}
  // FIT-LABEL: func.func private @gemm_0(
  // FIT-SAME: memref<[[PARTS:[0-9]+]]x36x40xf32>
  // FIT-SAME: blu.schedule = {columns = 64 : i64, group = 8 : i64, instruction = "bf16", kind = "mma", rows = 64 : i64, split = [[PARTS]] : i64, stages = 4 : i64, warp_columns = 32 : i64, warp_rows = 32 : i64}
  func.func private @gemm_0(%x: tensor<36x2112xbf16>, %y: tensor<2112x40xbf16>) -> tensor<36x40xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<36x40xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<36x40xf32>) -> tensor<36x40xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<36x2112xbf16>, tensor<2112x40xbf16>) outs(%1 : tensor<36x40xf32>) -> tensor<36x40xf32>
    return %2 : tensor<36x40xf32>
  }

  // No tile multiplies integers.
  // CHECK-LABEL: func.func private @gemm_1(
  // CHECK-SAME: blu.schedule = {kind = "loops"}
  // FIT: blu.schedule = {kind = "loops"}
  func.func private @gemm_1(%x: tensor<8x8xi32>, %y: tensor<8x8xi32>) -> tensor<8x8xi32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0 : i32
    %0 = tensor.empty() : tensor<8x8xi32>
    %1 = linalg.fill ins(%zero : i32) outs(%0 : tensor<8x8xi32>) -> tensor<8x8xi32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<8x8xi32>, tensor<8x8xi32>) outs(%1 : tensor<8x8xi32>) -> tensor<8x8xi32>
    return %2 : tensor<8x8xi32>
  }

  // What a kernel says itself stays; the rest is chosen.
  // CHECK-LABEL: func.func private @gemm_2(
  // CHECK-SAME: blu.schedule = {columns = 128 : i64, group = 8 : i64, instruction = "bf16", kind = "mma", rows = 64 : i64, split = 1 : i64, stages = 2 : i64, warp_columns = 32 : i64, warp_rows = 32 : i64}
  // FIT: blu.schedule = {columns = 128 : i64, group = 8 : i64, instruction = "bf16", kind = "mma", rows = 64 : i64, split = 1 : i64, stages = 2 : i64, warp_columns = 32 : i64, warp_rows = 32 : i64}
  func.func private @gemm_2(%x: tensor<256x512xbf16>, %y: tensor<512x256xbf16>) -> tensor<256x256xf32> attributes {blu.kernel = "gemm", blu.schedule = {kind = "mma", rows = 64 : i64, columns = 128 : i64, warp_columns = 32 : i64, stages = 2 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<256x256xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<256x256xf32>) -> tensor<256x256xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<256x512xbf16>, tensor<512x256xbf16>) outs(%1 : tensor<256x256xf32>) -> tensor<256x256xf32>
    return %2 : tensor<256x256xf32>
  }

  // Equal kernels of which one is to be emitted otherwise stay two.
  // CHECK-LABEL: func.func private @gemm_3(
  // CHECK-SAME: blu.schedule = {columns = 64 : i64, copied = "undecided", group = 8 : i64, instruction = "bf16", kind = "wgmma", lead = 1 : i64, registers = "none", rows = 128 : i64, split = 1 : i64, stages = 2 : i64, sums = "staged"}
  // FIT: blu.schedule = {columns = 64 : i64, copied = "undecided", group = 8 : i64, instruction = "bf16", kind = "wgmma", lead = 1 : i64, registers = "none", rows = 128 : i64, split = 1 : i64, stages = 2 : i64, sums = "staged"}
  func.func private @gemm_3(%x: tensor<256x512xbf16>, %y: tensor<512x256xbf16>) -> tensor<256x256xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<256x256xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<256x256xf32>) -> tensor<256x256xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<256x512xbf16>, tensor<512x256xbf16>) outs(%1 : tensor<256x256xf32>) -> tensor<256x256xf32>
    return %2 : tensor<256x256xf32>
  }
}
