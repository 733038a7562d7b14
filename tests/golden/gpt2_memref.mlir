#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0) -> ()>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d1)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1)>
module attributes {blu.arena_bytes = 3072 : i64} {
  func.func @main(%arg0: memref<61x16xf32> {blu.name = "model.wte.weight"}, %arg1: memref<12x16xf32> {blu.name = "model.wpe.weight"}, %arg2: memref<16xf32> {blu.name = "model.h.0.ln_1.weight"}, %arg3: memref<16xf32> {blu.name = "model.h.0.ln_1.bias"}, %arg4: memref<16x48xf32> {blu.name = "model.h.0.attn.c_attn.weight"}, %arg5: memref<48xf32> {blu.name = "model.h.0.attn.c_attn.bias"}, %arg6: memref<16x16xf32> {blu.name = "model.h.0.attn.c_proj.weight"}, %arg7: memref<16xf32> {blu.name = "model.h.0.attn.c_proj.bias"}, %arg8: memref<16xf32> {blu.name = "model.h.0.ln_2.weight"}, %arg9: memref<16xf32> {blu.name = "model.h.0.ln_2.bias"}, %arg10: memref<16x64xf32> {blu.name = "model.h.0.mlp.c_fc.weight"}, %arg11: memref<64xf32> {blu.name = "model.h.0.mlp.c_fc.bias"}, %arg12: memref<64x16xf32> {blu.name = "model.h.0.mlp.c_proj.weight"}, %arg13: memref<16xf32> {blu.name = "model.h.0.mlp.c_proj.bias"}, %arg14: memref<16xf32> {blu.name = "model.ln_f.weight"}, %arg15: memref<16xf32> {blu.name = "model.ln_f.bias"}, %arg16: memref<1x8xi32> {blu.name = "tokens"}) attributes {blu.inputs = [tensor<61x16xf32>, tensor<12x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x48xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x64xf32>, tensor<64xf32>, tensor<64x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1x8xi32>], blu.results = [tensor<1x8x61xf32>]} {
    %0 = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "status"} : () -> memref<i64>
    %reinterpret_cast = memref.reinterpret_cast %arg16 to offset: [0], sizes: [8], strides: [1] : memref<1x8xi32> to memref<8xi32>
    call @rows_0(%reinterpret_cast, %0) : (memref<8xi32>, memref<i64>) -> ()
    "plan.check"(%0) {kind = "index", op = "take", size = 61 : i64} : (memref<i64>) -> ()
    %1 = "plan.buffer"() {index = 0 : i64, offset = 1536 : i64, space = "arena"} : () -> memref<8x16xf32>
    %2 = "plan.buffer"() {index = 1 : i64, offset = 2048 : i64, space = "arena"} : () -> memref<8x16xf32>
    %reinterpret_cast_0 = memref.reinterpret_cast %arg16 to offset: [0], sizes: [8], strides: [1] : memref<1x8xi32> to memref<8xi32>
    %reinterpret_cast_1 = memref.reinterpret_cast %arg1 to offset: [0], sizes: [8, 16], strides: [16, 1] : memref<12x16xf32> to memref<8x16xf32>
    call @rows_1(%reinterpret_cast_0, %arg0, %reinterpret_cast_1, %arg2, %arg3, %1, %2) : (memref<8xi32>, memref<61x16xf32>, memref<8x16xf32>, memref<16xf32>, memref<16xf32>, memref<8x16xf32>, memref<8x16xf32>) -> ()
    %3 = "plan.buffer"() {index = 2 : i64, offset = 0 : i64, space = "arena"} : () -> memref<8x48xf32>
    call @gemm_0(%2, %arg4, %arg5, %3) : (memref<8x16xf32>, memref<16x48xf32>, memref<48xf32>, memref<8x48xf32>) -> ()
    %4 = "plan.buffer"() {index = 3 : i64, offset = 2048 : i64, space = "arena"} : () -> memref<1x8x2x8xf32>
    %reinterpret_cast_2 = memref.reinterpret_cast %3 to offset: [0], sizes: [1, 2, 8, 8], strides: [384, 8, 48, 1] : memref<8x48xf32> to memref<1x2x8x8xf32, strided<[384, 8, 48, 1]>>
    %reinterpret_cast_3 = memref.reinterpret_cast %3 to offset: [16], sizes: [1, 2, 8, 8], strides: [384, 8, 48, 1] : memref<8x48xf32> to memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 16>>
    %reinterpret_cast_4 = memref.reinterpret_cast %3 to offset: [32], sizes: [1, 2, 8, 8], strides: [384, 8, 48, 1] : memref<8x48xf32> to memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 32>>
    %reinterpret_cast_5 = memref.reinterpret_cast %4 to offset: [0], sizes: [1, 2, 8, 8], strides: [128, 8, 16, 1] : memref<1x8x2x8xf32> to memref<1x2x8x8xf32, strided<[128, 8, 16, 1]>>
    call @attention_0(%reinterpret_cast_2, %reinterpret_cast_3, %reinterpret_cast_4, %reinterpret_cast_5) : (memref<1x2x8x8xf32, strided<[384, 8, 48, 1]>>, memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 16>>, memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 32>>, memref<1x2x8x8xf32, strided<[128, 8, 16, 1]>>) -> ()
    %5 = "plan.buffer"() {index = 4 : i64, offset = 2560 : i64, space = "arena"} : () -> memref<8x16xf32>
    %reinterpret_cast_6 = memref.reinterpret_cast %4 to offset: [0], sizes: [8, 16], strides: [16, 1] : memref<1x8x2x8xf32> to memref<8x16xf32>
    call @gemm_1(%reinterpret_cast_6, %arg6, %arg7, %1, %5) : (memref<8x16xf32>, memref<16x16xf32>, memref<16xf32>, memref<8x16xf32>, memref<8x16xf32>) -> ()
    %6 = "plan.buffer"() {index = 5 : i64, offset = 2048 : i64, space = "arena"} : () -> memref<8x16xf32>
    call @rows_2(%5, %arg8, %arg9, %6) : (memref<8x16xf32>, memref<16xf32>, memref<16xf32>, memref<8x16xf32>) -> ()
    %7 = "plan.buffer"() {index = 6 : i64, offset = 0 : i64, space = "arena"} : () -> memref<8x64xf32>
    call @gemm_2(%6, %arg10, %arg11, %7) : (memref<8x16xf32>, memref<16x64xf32>, memref<64xf32>, memref<8x64xf32>) -> ()
    %8 = "plan.buffer"() {index = 7 : i64, offset = 2048 : i64, space = "arena"} : () -> memref<8x16xf32>
    call @gemm_3(%7, %arg12, %arg13, %5, %8) : (memref<8x64xf32>, memref<64x16xf32>, memref<16xf32>, memref<8x16xf32>, memref<8x16xf32>) -> ()
    %9 = "plan.buffer"() {index = 8 : i64, offset = 0 : i64, space = "arena"} : () -> memref<8x16xf32>
    call @rows_2(%8, %arg14, %arg15, %9) : (memref<8x16xf32>, memref<16xf32>, memref<16xf32>, memref<8x16xf32>) -> ()
    %10 = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<8x61xf32>
    %reinterpret_cast_7 = memref.reinterpret_cast %arg0 to offset: [0], sizes: [16, 61], strides: [1, 16] : memref<61x16xf32> to memref<16x61xf32, strided<[1, 16]>>
    call @gemm_4(%9, %reinterpret_cast_7, %10) : (memref<8x16xf32>, memref<16x61xf32, strided<[1, 16]>>, memref<8x61xf32>) -> ()
    return
  }
  func.func private @rows_0(%arg0: memref<8xi32>, %arg1: memref<i64>) attributes {blu.kernel = "rows"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8xi32> to tensor<8xi32>
    %c0_i64 = arith.constant 0 : i64
    %1 = tensor.empty() : tensor<i64>
    %2 = linalg.fill ins(%c0_i64 : i64) outs(%1 : tensor<i64>) -> tensor<i64>
    %c-61_i64 = arith.constant -61 : i64
    %c61_i64 = arith.constant 61 : i64
    %3 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction"]} ins(%0 : tensor<8xi32>) outs(%2 : tensor<i64>) {
    ^bb0(%in: i32, %out: i64):
      %4 = arith.extsi %in : i32 to i64
      %5 = arith.cmpi slt, %4, %c-61_i64 : i64
      %6 = arith.cmpi sge, %4, %c61_i64 : i64
      %7 = arith.ori %5, %6 : i1
      %8 = arith.select %7, %4, %c0_i64 : i64
      %9 = arith.maxui %out, %8 : i64
      linalg.yield %9 : i64
    } -> tensor<i64>
    bufferization.materialize_in_destination %3 in restrict writable %arg1 : (tensor<i64>, memref<i64>) -> ()
    return
  }
  func.func private @rows_1(%arg0: memref<8xi32>, %arg1: memref<61x16xf32>, %arg2: memref<8x16xf32>, %arg3: memref<16xf32>, %arg4: memref<16xf32>, %arg5: memref<8x16xf32>, %arg6: memref<8x16xf32>) attributes {blu.kernel = "rows"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8xi32> to tensor<8xi32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<61x16xf32> to tensor<61x16xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %3 = bufferization.to_tensor %arg3 restrict : memref<16xf32> to tensor<16xf32>
    %4 = bufferization.to_tensor %arg4 restrict : memref<16xf32> to tensor<16xf32>
    %5 = tensor.empty() : tensor<8x16xf32>
    %c0_i64 = arith.constant 0 : i64
    %c61_i64 = arith.constant 61 : i64
    %c60_i64 = arith.constant 60 : i64
    %6 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<8xi32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: i32, %out: f32):
      %21 = linalg.index 1 : index
      %22 = arith.extsi %in : i32 to i64
      %23 = arith.cmpi slt, %22, %c0_i64 : i64
      %24 = arith.addi %22, %c61_i64 : i64
      %25 = arith.select %23, %24, %22 : i64
      %26 = arith.maxsi %25, %c0_i64 : i64
      %27 = arith.minsi %26, %c60_i64 : i64
      %28 = arith.index_cast %27 : i64 to index
      %extracted = tensor.extract %1[%28, %21] : tensor<61x16xf32>
      linalg.yield %extracted : f32
    } -> tensor<8x16xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%6, %2 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %21 = arith.addf %in, %in_3 : f32
      linalg.yield %21 : f32
    } -> tensor<8x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %8 = tensor.empty() : tensor<8xf32>
    %9 = linalg.fill ins(%cst : f32) outs(%8 : tensor<8xf32>) -> tensor<8xf32>
    %10 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%7 : tensor<8x16xf32>) outs(%9 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = arith.addf %out, %in : f32
      linalg.yield %21 : f32
    } -> tensor<8xf32>
    %cst_0 = arith.constant 6.250000e-02 : f32
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%10 : tensor<8xf32>) outs(%8 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = arith.mulf %in, %cst_0 : f32
      linalg.yield %21 : f32
    } -> tensor<8xf32>
    %12 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%7, %11 : tensor<8x16xf32>, tensor<8xf32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %21 = arith.subf %in, %in_3 : f32
      linalg.yield %21 : f32
    } -> tensor<8x16xf32>
    %13 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%12 : tensor<8x16xf32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = arith.mulf %in, %in : f32
      linalg.yield %21 : f32
    } -> tensor<8x16xf32>
    %14 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%13 : tensor<8x16xf32>) outs(%9 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = arith.addf %out, %in : f32
      linalg.yield %21 : f32
    } -> tensor<8xf32>
    %15 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%14 : tensor<8xf32>) outs(%8 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = arith.mulf %in, %cst_0 : f32
      linalg.yield %21 : f32
    } -> tensor<8xf32>
    %cst_1 = arith.constant 9.99999974E-6 : f32
    %16 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%15 : tensor<8xf32>) outs(%8 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = arith.addf %in, %cst_1 : f32
      linalg.yield %21 : f32
    } -> tensor<8xf32>
    %cst_2 = arith.constant 1.000000e+00 : f32
    %17 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%16 : tensor<8xf32>) outs(%8 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %21 = math.sqrt %in : f32
      %22 = arith.divf %cst_2, %21 : f32
      linalg.yield %22 : f32
    } -> tensor<8xf32>
    %18 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%12, %17 : tensor<8x16xf32>, tensor<8xf32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %21 = arith.mulf %in, %in_3 : f32
      linalg.yield %21 : f32
    } -> tensor<8x16xf32>
    %19 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%18, %3 : tensor<8x16xf32>, tensor<16xf32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %21 = arith.mulf %in, %in_3 : f32
      linalg.yield %21 : f32
    } -> tensor<8x16xf32>
    %20 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%19, %4 : tensor<8x16xf32>, tensor<16xf32>) outs(%5 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %21 = arith.addf %in, %in_3 : f32
      linalg.yield %21 : f32
    } -> tensor<8x16xf32>
    bufferization.materialize_in_destination %7 in restrict writable %arg5 : (tensor<8x16xf32>, memref<8x16xf32>) -> ()
    bufferization.materialize_in_destination %20 in restrict writable %arg6 : (tensor<8x16xf32>, memref<8x16xf32>) -> ()
    return
  }
  func.func private @gemm_0(%arg0: memref<8x16xf32>, %arg1: memref<16x48xf32>, %arg2: memref<48xf32>, %arg3: memref<8x48xf32>) attributes {blu.kernel = "gemm"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<16x48xf32> to tensor<16x48xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<48xf32> to tensor<48xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %3 = tensor.empty() : tensor<8x48xf32>
    %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<8x48xf32>) -> tensor<8x48xf32>
    %5 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%0, %1 : tensor<8x16xf32>, tensor<16x48xf32>) outs(%4 : tensor<8x48xf32>) -> tensor<8x48xf32>
    %6 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%5, %2 : tensor<8x48xf32>, tensor<48xf32>) outs(%3 : tensor<8x48xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %7 = arith.addf %in, %in_0 : f32
      linalg.yield %7 : f32
    } -> tensor<8x48xf32>
    bufferization.materialize_in_destination %6 in restrict writable %arg3 : (tensor<8x48xf32>, memref<8x48xf32>) -> ()
    return
  }
  func.func private @attention_0(%arg0: memref<1x2x8x8xf32, strided<[384, 8, 48, 1]>>, %arg1: memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 16>>, %arg2: memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 32>>, %arg3: memref<1x2x8x8xf32, strided<[128, 8, 16, 1]>>) attributes {blu.kernel = "attention"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<1x2x8x8xf32, strided<[384, 8, 48, 1]>> to tensor<1x2x8x8xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 16>> to tensor<1x2x8x8xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<1x2x8x8xf32, strided<[384, 8, 48, 1], offset: 32>> to tensor<1x2x8x8xf32>
    %3 = "blu.attention"(%0, %1, %2) {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, precision = "highest", scale = 0.35355339059327373 : f64} : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    bufferization.materialize_in_destination %3 in restrict writable %arg3 : (tensor<1x2x8x8xf32>, memref<1x2x8x8xf32, strided<[128, 8, 16, 1]>>) -> ()
    return
  }
  func.func private @gemm_1(%arg0: memref<8x16xf32>, %arg1: memref<16x16xf32>, %arg2: memref<16xf32>, %arg3: memref<8x16xf32>, %arg4: memref<8x16xf32>) attributes {blu.kernel = "gemm"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<16x16xf32> to tensor<16x16xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<16xf32> to tensor<16xf32>
    %3 = bufferization.to_tensor %arg3 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %4 = tensor.empty() : tensor<8x16xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %6 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%0, %1 : tensor<8x16xf32>, tensor<16x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%6, %2 : tensor<8x16xf32>, tensor<16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %9 = arith.addf %in, %in_0 : f32
      linalg.yield %9 : f32
    } -> tensor<8x16xf32>
    %8 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%3, %7 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %9 = arith.addf %in, %in_0 : f32
      linalg.yield %9 : f32
    } -> tensor<8x16xf32>
    bufferization.materialize_in_destination %8 in restrict writable %arg4 : (tensor<8x16xf32>, memref<8x16xf32>) -> ()
    return
  }
  func.func private @rows_2(%arg0: memref<8x16xf32>, %arg1: memref<16xf32>, %arg2: memref<16xf32>, %arg3: memref<8x16xf32>) attributes {blu.kernel = "rows"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<16xf32> to tensor<16xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<16xf32> to tensor<16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %3 = tensor.empty() : tensor<8xf32>
    %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<8xf32>) -> tensor<8xf32>
    %5 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%0 : tensor<8x16xf32>) outs(%4 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.addf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<8xf32>
    %cst_0 = arith.constant 6.250000e-02 : f32
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%5 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.mulf %in, %cst_0 : f32
      linalg.yield %17 : f32
    } -> tensor<8xf32>
    %7 = tensor.empty() : tensor<8x16xf32>
    %8 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%0, %6 : tensor<8x16xf32>, tensor<8xf32>) outs(%7 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %17 = arith.subf %in, %in_3 : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    %9 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<8x16xf32>) outs(%7 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.mulf %in, %in : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    %10 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%9 : tensor<8x16xf32>) outs(%4 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.addf %out, %in : f32
      linalg.yield %17 : f32
    } -> tensor<8xf32>
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%10 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.mulf %in, %cst_0 : f32
      linalg.yield %17 : f32
    } -> tensor<8xf32>
    %cst_1 = arith.constant 9.99999974E-6 : f32
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%11 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = arith.addf %in, %cst_1 : f32
      linalg.yield %17 : f32
    } -> tensor<8xf32>
    %cst_2 = arith.constant 1.000000e+00 : f32
    %13 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%12 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %17 = math.sqrt %in : f32
      %18 = arith.divf %cst_2, %17 : f32
      linalg.yield %18 : f32
    } -> tensor<8xf32>
    %14 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%8, %13 : tensor<8x16xf32>, tensor<8xf32>) outs(%7 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %17 = arith.mulf %in, %in_3 : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%14, %1 : tensor<8x16xf32>, tensor<16xf32>) outs(%7 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %17 = arith.mulf %in, %in_3 : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    %16 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%15, %2 : tensor<8x16xf32>, tensor<16xf32>) outs(%7 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %17 = arith.addf %in, %in_3 : f32
      linalg.yield %17 : f32
    } -> tensor<8x16xf32>
    bufferization.materialize_in_destination %16 in restrict writable %arg3 : (tensor<8x16xf32>, memref<8x16xf32>) -> ()
    return
  }
  func.func private @gemm_2(%arg0: memref<8x16xf32>, %arg1: memref<16x64xf32>, %arg2: memref<64xf32>, %arg3: memref<8x64xf32>) attributes {blu.kernel = "gemm"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<16x64xf32> to tensor<16x64xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<64xf32> to tensor<64xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %3 = tensor.empty() : tensor<8x64xf32>
    %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %5 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%0, %1 : tensor<8x16xf32>, tensor<16x64xf32>) outs(%4 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %6 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%5, %2 : tensor<8x64xf32>, tensor<64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %13 = arith.addf %in, %in_3 : f32
      linalg.yield %13 : f32
    } -> tensor<8x64xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%6, %6 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %13 = arith.mulf %in, %in_3 : f32
      linalg.yield %13 : f32
    } -> tensor<8x64xf32>
    %cst_0 = arith.constant 0.0713548139 : f32
    %8 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<8x64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %13 = arith.mulf %in, %cst_0 : f32
      linalg.yield %13 : f32
    } -> tensor<8x64xf32>
    %cst_1 = arith.constant 1.59576917 : f32
    %9 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%8 : tensor<8x64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %13 = arith.addf %in, %cst_1 : f32
      linalg.yield %13 : f32
    } -> tensor<8x64xf32>
    %10 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%9, %6 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %13 = arith.mulf %in, %in_3 : f32
      linalg.yield %13 : f32
    } -> tensor<8x64xf32>
    %cst_2 = arith.constant 1.000000e+00 : f32
    %11 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%10 : tensor<8x64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %13 = math.absf %in : f32
      %14 = arith.negf %13 : f32
      %15 = math.exp %14 : f32
      %16 = arith.cmpf olt, %in, %cst : f32
      %17 = arith.select %16, %15, %cst_2 : f32
      %18 = arith.addf %15, %cst_2 : f32
      %19 = arith.divf %17, %18 : f32
      linalg.yield %19 : f32
    } -> tensor<8x64xf32>
    %12 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%6, %11 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%3 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %13 = arith.mulf %in, %in_3 : f32
      linalg.yield %13 : f32
    } -> tensor<8x64xf32>
    bufferization.materialize_in_destination %12 in restrict writable %arg3 : (tensor<8x64xf32>, memref<8x64xf32>) -> ()
    return
  }
  func.func private @gemm_3(%arg0: memref<8x64xf32>, %arg1: memref<64x16xf32>, %arg2: memref<16xf32>, %arg3: memref<8x16xf32>, %arg4: memref<8x16xf32>) attributes {blu.kernel = "gemm"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8x64xf32> to tensor<8x64xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<64x16xf32> to tensor<64x16xf32>
    %2 = bufferization.to_tensor %arg2 restrict : memref<16xf32> to tensor<16xf32>
    %3 = bufferization.to_tensor %arg3 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %4 = tensor.empty() : tensor<8x16xf32>
    %5 = linalg.fill ins(%cst : f32) outs(%4 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %6 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%0, %1 : tensor<8x64xf32>, tensor<64x16xf32>) outs(%5 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%6, %2 : tensor<8x16xf32>, tensor<16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %9 = arith.addf %in, %in_0 : f32
      linalg.yield %9 : f32
    } -> tensor<8x16xf32>
    %8 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%3, %7 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %9 = arith.addf %in, %in_0 : f32
      linalg.yield %9 : f32
    } -> tensor<8x16xf32>
    bufferization.materialize_in_destination %8 in restrict writable %arg4 : (tensor<8x16xf32>, memref<8x16xf32>) -> ()
    return
  }
  func.func private @gemm_4(%arg0: memref<8x16xf32>, %arg1: memref<16x61xf32, strided<[1, 16]>>, %arg2: memref<8x61xf32>) attributes {blu.kernel = "gemm"} {
    %0 = bufferization.to_tensor %arg0 restrict : memref<8x16xf32> to tensor<8x16xf32>
    %1 = bufferization.to_tensor %arg1 restrict : memref<16x61xf32, strided<[1, 16]>> to tensor<16x61xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %2 = tensor.empty() : tensor<8x61xf32>
    %3 = linalg.fill ins(%cst : f32) outs(%2 : tensor<8x61xf32>) -> tensor<8x61xf32>
    %4 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%0, %1 : tensor<8x16xf32>, tensor<16x61xf32>) outs(%3 : tensor<8x61xf32>) -> tensor<8x61xf32>
    bufferization.materialize_in_destination %4 in restrict writable %arg2 : (tensor<8x61xf32>, memref<8x61xf32>) -> ()
    return
  }
}
