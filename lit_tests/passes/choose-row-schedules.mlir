// Kernels of rows get a schedule: sizes decide how reductions are split, strides all else. What others wish is done.
// RUN: %blu-opt %s --blu-choose-schedules | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-choose-schedules,blu-reserve-gpu-scratch,blu-bufferize,blu-plan-memory,blu-fit-schedules' | %filecheck %s --check-prefix=FIT

#whole = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
#columns = affine_map<(d0, d1) -> (d1)>

// CHECK: module attributes {blu.target = {name = "sm_90a"}}
module attributes {blu.target = {name = "sm_90a"}, blu.schedules = {rows_2 = {kind = "sweep", threads = 64 : i64, unroll = 2 : i64}}} {
  func.func @main(%x: tensor<300x70xf32>, %y: tensor<2x65536xf32>) -> (tensor<300xf32>, tensor<2xf32>, tensor<300xf32>, tensor<70xf32>) {
    %0 = call @rows_0(%x) : (tensor<300x70xf32>) -> tensor<300xf32>
    %1 = call @rows_1(%y) : (tensor<2x65536xf32>) -> tensor<2xf32>
    %2 = call @rows_2(%x) : (tensor<300x70xf32>) -> tensor<300xf32>
    %3 = call @loops_0(%x) : (tensor<300x70xf32>) -> tensor<70xf32>
    return %0, %1, %2, %3 : tensor<300xf32>, tensor<2xf32>, tensor<300xf32>, tensor<70xf32>
  }

  // A row for each warp: sizes decide nothing.
  // CHECK-LABEL: func.func private @rows_0(
  // CHECK-SAME: attributes {blu.kernel = "rows"}
  // FIT-LABEL: func.func private @rows_0(
  // FIT-SAME: blu.schedule = {keeps = "values", kind = "rows", lanes = 2 : i64, team = 32 : i64, threads = 128 : i64}
  func.func private @rows_0(%x: tensor<300x70xf32>) -> tensor<300xf32> attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<300xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<300xf32>) -> tensor<300xf32>
    %2 = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<300x70xf32>) outs(%1 : tensor<300xf32>) {
    ^bb0(%in: f32, %sum: f32):
      %3 = arith.addf %in, %sum : f32
      linalg.yield %3 : f32
    } -> tensor<300xf32>
    return %2 : tensor<300xf32>
  }

  // Few long rows are shared by blocks, which need memory for what they find.
  // CHECK-LABEL: func.func private @rows_1(
  // CHECK-SAME: blu.schedule = {kind = "nest", split = 8 : i64}
  // FIT-LABEL: func.func private @rows_1(
  // FIT-SAME: memref<16xf32>
  // FIT-SAME: blu.schedule = {kind = "slices", lanes = 4 : i64, split = 8 : i64, threads = 512 : i64, unroll = 4 : i64}
  func.func private @rows_1(%x: tensor<2x65536xf32>) -> tensor<2xf32> attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<2xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<2xf32>) -> tensor<2xf32>
    %2 = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<2x65536xf32>) outs(%1 : tensor<2xf32>) {
    ^bb0(%in: f32, %sum: f32):
      %3 = arith.addf %in, %sum : f32
      linalg.yield %3 : f32
    } -> tensor<2xf32>
    return %2 : tensor<2xf32>
  }

  // CHECK-LABEL: func.func private @rows_2(
  // CHECK-SAME: blu.schedule = {kind = "sweep", threads = 64 : i64, unroll = 2 : i64}
  // FIT-LABEL: func.func private @rows_2(
  // FIT-SAME: blu.schedule = {kind = "sweep", lanes = 2 : i64, per_processor = 2 : i64, threads = 64 : i64, unroll = 2 : i64}
  func.func private @rows_2(%x: tensor<300x70xf32>) -> tensor<300xf32> attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<300xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<300xf32>) -> tensor<300xf32>
    %2 = linalg.generic {indexing_maps = [#whole, #rows], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<300x70xf32>) outs(%1 : tensor<300xf32>) {
    ^bb0(%in: f32, %sum: f32):
      %3 = arith.addf %in, %sum : f32
      linalg.yield %3 : f32
    } -> tensor<300xf32>
    return %2 : tensor<300xf32>
  }

  // A kernel says itself how its columns are shared.
  // CHECK-LABEL: func.func private @loops_0(
  // CHECK-SAME: blu.schedule = {kind = "columns", split = 3 : i64, width = 4 : i64}
  // FIT-LABEL: func.func private @loops_0(
  // FIT-SAME: memref<210xf32>
  // FIT-SAME: blu.schedule = {cluster = 1 : i64, kind = "columns", lanes = 2 : i64, per_processor = 1 : i64, split = 3 : i64, threads = 256 : i64, unroll = 8 : i64, width = 4 : i64}
  func.func private @loops_0(%x: tensor<300x70xf32>) -> tensor<70xf32> attributes {blu.kernel = "loops", blu.schedule = {kind = "columns", split = 3 : i64, width = 4 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<70xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<70xf32>) -> tensor<70xf32>
    %2 = linalg.generic {indexing_maps = [#whole, #columns], iterator_types = ["reduction", "parallel"]}
        ins(%x : tensor<300x70xf32>) outs(%1 : tensor<70xf32>) {
    ^bb0(%in: f32, %sum: f32):
      %3 = arith.addf %in, %sum : f32
      linalg.yield %3 : f32
    } -> tensor<70xf32>
    return %2 : tensor<70xf32>
  }
}
