#map = affine_map<(d0) -> (d0)>
#map1 = affine_map<(d0) -> ()>
#map2 = affine_map<(d0, d1) -> (d0)>
#map3 = affine_map<(d0, d1) -> (d0, d1)>
#map4 = affine_map<(d0, d1) -> (d1)>
#map5 = affine_map<(d0, d1, d2) -> (d0, d2)>
#map6 = affine_map<(d0, d1, d2) -> (d2, d1)>
#map7 = affine_map<(d0, d1, d2) -> (d0, d1)>
module {
  func.func @main(%arg0: tensor<61x16xf32> {blu.name = "model.wte.weight"}, %arg1: tensor<12x16xf32> {blu.name = "model.wpe.weight"}, %arg2: tensor<16xf32> {blu.name = "model.h.0.ln_1.weight"}, %arg3: tensor<16xf32> {blu.name = "model.h.0.ln_1.bias"}, %arg4: tensor<16x48xf32> {blu.name = "model.h.0.attn.c_attn.weight"}, %arg5: tensor<48xf32> {blu.name = "model.h.0.attn.c_attn.bias"}, %arg6: tensor<16x16xf32> {blu.name = "model.h.0.attn.c_proj.weight"}, %arg7: tensor<16xf32> {blu.name = "model.h.0.attn.c_proj.bias"}, %arg8: tensor<16xf32> {blu.name = "model.h.0.ln_2.weight"}, %arg9: tensor<16xf32> {blu.name = "model.h.0.ln_2.bias"}, %arg10: tensor<16x64xf32> {blu.name = "model.h.0.mlp.c_fc.weight"}, %arg11: tensor<64xf32> {blu.name = "model.h.0.mlp.c_fc.bias"}, %arg12: tensor<64x16xf32> {blu.name = "model.h.0.mlp.c_proj.weight"}, %arg13: tensor<16xf32> {blu.name = "model.h.0.mlp.c_proj.bias"}, %arg14: tensor<16xf32> {blu.name = "model.ln_f.weight"}, %arg15: tensor<16xf32> {blu.name = "model.ln_f.bias"}, %arg16: tensor<1x8xi32> {blu.name = "tokens"}) -> tensor<1x8x61xf32> attributes {blu.inputs = [tensor<61x16xf32>, tensor<12x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x48xf32>, tensor<48xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16x64xf32>, tensor<64xf32>, tensor<64x16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<1x8xi32>], blu.results = [tensor<1x8x61xf32>]} {
    %collapsed = tensor.collapse_shape %arg16 [[0, 1]] : tensor<1x8xi32> into tensor<8xi32>
    %0 = call @rows_0(%collapsed) : (tensor<8xi32>) -> tensor<i64>
    "plan.check"(%0) {kind = "index", op = "take", size = 61 : i64} : (tensor<i64>) -> ()
    %extracted_slice = tensor.extract_slice %arg1[0, 0] [8, 16] [1, 1] : tensor<12x16xf32> to tensor<8x16xf32>
    %1:2 = call @rows_1(%collapsed, %arg0, %extracted_slice, %arg2, %arg3) : (tensor<8xi32>, tensor<61x16xf32>, tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)
    %2 = call @gemm_0(%1#1, %arg4, %arg5) : (tensor<8x16xf32>, tensor<16x48xf32>, tensor<48xf32>) -> tensor<8x48xf32>
    %expanded = tensor.expand_shape %2 [[0, 1], [2]] output_shape [1, 8, 48] : tensor<8x48xf32> into tensor<1x8x48xf32>
    %extracted_slice_0 = tensor.extract_slice %expanded[0, 0, 0] [1, 8, 16] [1, 1, 1] : tensor<1x8x48xf32> to tensor<1x8x16xf32>
    %expanded_1 = tensor.expand_shape %extracted_slice_0 [[0], [1], [2, 3]] output_shape [1, 8, 2, 8] : tensor<1x8x16xf32> into tensor<1x8x2x8xf32>
    %3 = tensor.empty() : tensor<1x2x8x8xf32>
    %transposed = linalg.transpose ins(%expanded_1 : tensor<1x8x2x8xf32>) outs(%3 : tensor<1x2x8x8xf32>) permutation = [0, 2, 1, 3] 
    %extracted_slice_2 = tensor.extract_slice %expanded[0, 0, 16] [1, 8, 16] [1, 1, 1] : tensor<1x8x48xf32> to tensor<1x8x16xf32>
    %expanded_3 = tensor.expand_shape %extracted_slice_2 [[0], [1], [2, 3]] output_shape [1, 8, 2, 8] : tensor<1x8x16xf32> into tensor<1x8x2x8xf32>
    %transposed_4 = linalg.transpose ins(%expanded_3 : tensor<1x8x2x8xf32>) outs(%3 : tensor<1x2x8x8xf32>) permutation = [0, 2, 1, 3] 
    %extracted_slice_5 = tensor.extract_slice %expanded[0, 0, 32] [1, 8, 16] [1, 1, 1] : tensor<1x8x48xf32> to tensor<1x8x16xf32>
    %expanded_6 = tensor.expand_shape %extracted_slice_5 [[0], [1], [2, 3]] output_shape [1, 8, 2, 8] : tensor<1x8x16xf32> into tensor<1x8x2x8xf32>
    %transposed_7 = linalg.transpose ins(%expanded_6 : tensor<1x8x2x8xf32>) outs(%3 : tensor<1x2x8x8xf32>) permutation = [0, 2, 1, 3] 
    %4 = call @attention_0(%transposed, %transposed_4, %transposed_7) : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %5 = tensor.empty() : tensor<1x8x2x8xf32>
    %transposed_8 = linalg.transpose ins(%4 : tensor<1x2x8x8xf32>) outs(%5 : tensor<1x8x2x8xf32>) permutation = [0, 2, 1, 3] 
    %collapsed_9 = tensor.collapse_shape %transposed_8 [[0, 1], [2, 3]] : tensor<1x8x2x8xf32> into tensor<8x16xf32>
    %6 = call @gemm_1(%collapsed_9, %arg6, %arg7, %1#0) : (tensor<8x16xf32>, tensor<16x16xf32>, tensor<16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %7 = call @rows_2(%6, %arg8, %arg9) : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %8 = call @gemm_2(%7, %arg10, %arg11) : (tensor<8x16xf32>, tensor<16x64xf32>, tensor<64xf32>) -> tensor<8x64xf32>
    %9 = call @gemm_3(%8, %arg12, %arg13, %6) : (tensor<8x64xf32>, tensor<64x16xf32>, tensor<16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
    %10 = call @rows_2(%9, %arg14, %arg15) : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>
    %11 = tensor.empty() : tensor<16x61xf32>
    %transposed_10 = linalg.transpose ins(%arg0 : tensor<61x16xf32>) outs(%11 : tensor<16x61xf32>) permutation = [1, 0] 
    %12 = call @gemm_4(%10, %transposed_10) : (tensor<8x16xf32>, tensor<16x61xf32>) -> tensor<8x61xf32>
    %expanded_11 = tensor.expand_shape %12 [[0, 1], [2]] output_shape [1, 8, 61] : tensor<8x61xf32> into tensor<1x8x61xf32>
    return %expanded_11 : tensor<1x8x61xf32>
  }
  func.func private @rows_0(%arg0: tensor<8xi32>) -> tensor<i64> attributes {blu.kernel = "rows"} {
    %c0_i64 = arith.constant 0 : i64
    %0 = tensor.empty() : tensor<i64>
    %1 = linalg.fill ins(%c0_i64 : i64) outs(%0 : tensor<i64>) -> tensor<i64>
    %c-61_i64 = arith.constant -61 : i64
    %c61_i64 = arith.constant 61 : i64
    %2 = linalg.generic {indexing_maps = [#map, #map1], iterator_types = ["reduction"]} ins(%arg0 : tensor<8xi32>) outs(%1 : tensor<i64>) {
    ^bb0(%in: i32, %out: i64):
      %3 = arith.extsi %in : i32 to i64
      %4 = arith.cmpi slt, %3, %c-61_i64 : i64
      %5 = arith.cmpi sge, %3, %c61_i64 : i64
      %6 = arith.ori %4, %5 : i1
      %7 = arith.select %6, %3, %c0_i64 : i64
      %8 = arith.maxui %out, %7 : i64
      linalg.yield %8 : i64
    } -> tensor<i64>
    return %2 : tensor<i64>
  }
  func.func private @rows_1(%arg0: tensor<8xi32>, %arg1: tensor<61x16xf32>, %arg2: tensor<8x16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>) attributes {blu.kernel = "rows"} {
    %0 = tensor.empty() : tensor<8x16xf32>
    %c0_i64 = arith.constant 0 : i64
    %c61_i64 = arith.constant 61 : i64
    %c60_i64 = arith.constant 60 : i64
    %1 = linalg.generic {indexing_maps = [#map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<8xi32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: i32, %out: f32):
      %16 = linalg.index 1 : index
      %17 = arith.extsi %in : i32 to i64
      %18 = arith.cmpi slt, %17, %c0_i64 : i64
      %19 = arith.addi %17, %c61_i64 : i64
      %20 = arith.select %18, %19, %17 : i64
      %21 = arith.maxsi %20, %c0_i64 : i64
      %22 = arith.minsi %21, %c60_i64 : i64
      %23 = arith.index_cast %22 : i64 to index
      %extracted = tensor.extract %arg1[%23, %16] : tensor<61x16xf32>
      linalg.yield %extracted : f32
    } -> tensor<8x16xf32>
    %2 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%1, %arg2 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %16 = arith.addf %in, %in_3 : f32
      linalg.yield %16 : f32
    } -> tensor<8x16xf32>
    %cst = arith.constant 0.000000e+00 : f32
    %3 = tensor.empty() : tensor<8xf32>
    %4 = linalg.fill ins(%cst : f32) outs(%3 : tensor<8xf32>) -> tensor<8xf32>
    %5 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%2 : tensor<8x16xf32>) outs(%4 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = arith.addf %out, %in : f32
      linalg.yield %16 : f32
    } -> tensor<8xf32>
    %cst_0 = arith.constant 6.250000e-02 : f32
    %6 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%5 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = arith.mulf %in, %cst_0 : f32
      linalg.yield %16 : f32
    } -> tensor<8xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%2, %6 : tensor<8x16xf32>, tensor<8xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %16 = arith.subf %in, %in_3 : f32
      linalg.yield %16 : f32
    } -> tensor<8x16xf32>
    %8 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<8x16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = arith.mulf %in, %in : f32
      linalg.yield %16 : f32
    } -> tensor<8x16xf32>
    %9 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%8 : tensor<8x16xf32>) outs(%4 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = arith.addf %out, %in : f32
      linalg.yield %16 : f32
    } -> tensor<8xf32>
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%9 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = arith.mulf %in, %cst_0 : f32
      linalg.yield %16 : f32
    } -> tensor<8xf32>
    %cst_1 = arith.constant 9.99999974E-6 : f32
    %11 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%10 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = arith.addf %in, %cst_1 : f32
      linalg.yield %16 : f32
    } -> tensor<8xf32>
    %cst_2 = arith.constant 1.000000e+00 : f32
    %12 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%11 : tensor<8xf32>) outs(%3 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %16 = math.sqrt %in : f32
      %17 = arith.divf %cst_2, %16 : f32
      linalg.yield %17 : f32
    } -> tensor<8xf32>
    %13 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%7, %12 : tensor<8x16xf32>, tensor<8xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %16 = arith.mulf %in, %in_3 : f32
      linalg.yield %16 : f32
    } -> tensor<8x16xf32>
    %14 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%13, %arg3 : tensor<8x16xf32>, tensor<16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %16 = arith.mulf %in, %in_3 : f32
      linalg.yield %16 : f32
    } -> tensor<8x16xf32>
    %15 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%14, %arg4 : tensor<8x16xf32>, tensor<16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %16 = arith.addf %in, %in_3 : f32
      linalg.yield %16 : f32
    } -> tensor<8x16xf32>
    return %2, %15 : tensor<8x16xf32>, tensor<8x16xf32>
  }
  func.func private @gemm_0(%arg0: tensor<8x16xf32>, %arg1: tensor<16x48xf32>, %arg2: tensor<48xf32>) -> tensor<8x48xf32> attributes {blu.kernel = "gemm"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<8x48xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<8x48xf32>) -> tensor<8x48xf32>
    %2 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%arg0, %arg1 : tensor<8x16xf32>, tensor<16x48xf32>) outs(%1 : tensor<8x48xf32>) -> tensor<8x48xf32>
    %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%2, %arg2 : tensor<8x48xf32>, tensor<48xf32>) outs(%0 : tensor<8x48xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %4 = arith.addf %in, %in_0 : f32
      linalg.yield %4 : f32
    } -> tensor<8x48xf32>
    return %3 : tensor<8x48xf32>
  }
  func.func private @attention_0(%arg0: tensor<1x2x8x8xf32>, %arg1: tensor<1x2x8x8xf32>, %arg2: tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%arg0, %arg1, %arg2) {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, precision = "highest", scale = 0.35355339059327373 : f64} : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    return %0 : tensor<1x2x8x8xf32>
  }
  func.func private @gemm_1(%arg0: tensor<8x16xf32>, %arg1: tensor<16x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {blu.kernel = "gemm"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<8x16xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%arg0, %arg1 : tensor<8x16xf32>, tensor<16x16xf32>) outs(%1 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%2, %arg2 : tensor<8x16xf32>, tensor<16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.addf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x16xf32>
    %4 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%arg3, %3 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.addf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x16xf32>
    return %4 : tensor<8x16xf32>
  }
  func.func private @rows_2(%arg0: tensor<8x16xf32>, %arg1: tensor<16xf32>, %arg2: tensor<16xf32>) -> tensor<8x16xf32> attributes {blu.kernel = "rows"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<8xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<8xf32>) -> tensor<8xf32>
    %2 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<8x16xf32>) outs(%1 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = arith.addf %out, %in : f32
      linalg.yield %14 : f32
    } -> tensor<8xf32>
    %cst_0 = arith.constant 6.250000e-02 : f32
    %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%2 : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = arith.mulf %in, %cst_0 : f32
      linalg.yield %14 : f32
    } -> tensor<8xf32>
    %4 = tensor.empty() : tensor<8x16xf32>
    %5 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%arg0, %3 : tensor<8x16xf32>, tensor<8xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %14 = arith.subf %in, %in_3 : f32
      linalg.yield %14 : f32
    } -> tensor<8x16xf32>
    %6 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<8x16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = arith.mulf %in, %in : f32
      linalg.yield %14 : f32
    } -> tensor<8x16xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map2], iterator_types = ["parallel", "reduction"]} ins(%6 : tensor<8x16xf32>) outs(%1 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = arith.addf %out, %in : f32
      linalg.yield %14 : f32
    } -> tensor<8xf32>
    %8 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%7 : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = arith.mulf %in, %cst_0 : f32
      linalg.yield %14 : f32
    } -> tensor<8xf32>
    %cst_1 = arith.constant 9.99999974E-6 : f32
    %9 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%8 : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = arith.addf %in, %cst_1 : f32
      linalg.yield %14 : f32
    } -> tensor<8xf32>
    %cst_2 = arith.constant 1.000000e+00 : f32
    %10 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]} ins(%9 : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
    ^bb0(%in: f32, %out: f32):
      %14 = math.sqrt %in : f32
      %15 = arith.divf %cst_2, %14 : f32
      linalg.yield %15 : f32
    } -> tensor<8xf32>
    %11 = linalg.generic {indexing_maps = [#map3, #map2, #map3], iterator_types = ["parallel", "parallel"]} ins(%5, %10 : tensor<8x16xf32>, tensor<8xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %14 = arith.mulf %in, %in_3 : f32
      linalg.yield %14 : f32
    } -> tensor<8x16xf32>
    %12 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%11, %arg1 : tensor<8x16xf32>, tensor<16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %14 = arith.mulf %in, %in_3 : f32
      linalg.yield %14 : f32
    } -> tensor<8x16xf32>
    %13 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%12, %arg2 : tensor<8x16xf32>, tensor<16xf32>) outs(%4 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %14 = arith.addf %in, %in_3 : f32
      linalg.yield %14 : f32
    } -> tensor<8x16xf32>
    return %13 : tensor<8x16xf32>
  }
  func.func private @gemm_2(%arg0: tensor<8x16xf32>, %arg1: tensor<16x64xf32>, %arg2: tensor<64xf32>) -> tensor<8x64xf32> attributes {blu.kernel = "gemm"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<8x64xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %2 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%arg0, %arg1 : tensor<8x16xf32>, tensor<16x64xf32>) outs(%1 : tensor<8x64xf32>) -> tensor<8x64xf32>
    %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%2, %arg2 : tensor<8x64xf32>, tensor<64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %10 = arith.addf %in, %in_3 : f32
      linalg.yield %10 : f32
    } -> tensor<8x64xf32>
    %4 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%3, %3 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %10 = arith.mulf %in, %in_3 : f32
      linalg.yield %10 : f32
    } -> tensor<8x64xf32>
    %cst_0 = arith.constant 0.0713548139 : f32
    %5 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%4 : tensor<8x64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %10 = arith.mulf %in, %cst_0 : f32
      linalg.yield %10 : f32
    } -> tensor<8x64xf32>
    %cst_1 = arith.constant 1.59576917 : f32
    %6 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%5 : tensor<8x64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %10 = arith.addf %in, %cst_1 : f32
      linalg.yield %10 : f32
    } -> tensor<8x64xf32>
    %7 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%6, %3 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %10 = arith.mulf %in, %in_3 : f32
      linalg.yield %10 : f32
    } -> tensor<8x64xf32>
    %cst_2 = arith.constant 1.000000e+00 : f32
    %8 = linalg.generic {indexing_maps = [#map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%7 : tensor<8x64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %out: f32):
      %10 = math.absf %in : f32
      %11 = arith.negf %10 : f32
      %12 = math.exp %11 : f32
      %13 = arith.cmpf olt, %in, %cst : f32
      %14 = arith.select %13, %12, %cst_2 : f32
      %15 = arith.addf %12, %cst_2 : f32
      %16 = arith.divf %14, %15 : f32
      linalg.yield %16 : f32
    } -> tensor<8x64xf32>
    %9 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%3, %8 : tensor<8x64xf32>, tensor<8x64xf32>) outs(%0 : tensor<8x64xf32>) {
    ^bb0(%in: f32, %in_3: f32, %out: f32):
      %10 = arith.mulf %in, %in_3 : f32
      linalg.yield %10 : f32
    } -> tensor<8x64xf32>
    return %9 : tensor<8x64xf32>
  }
  func.func private @gemm_3(%arg0: tensor<8x64xf32>, %arg1: tensor<64x16xf32>, %arg2: tensor<16xf32>, %arg3: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {blu.kernel = "gemm"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<8x16xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %2 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%arg0, %arg1 : tensor<8x64xf32>, tensor<64x16xf32>) outs(%1 : tensor<8x16xf32>) -> tensor<8x16xf32>
    %3 = linalg.generic {indexing_maps = [#map3, #map4, #map3], iterator_types = ["parallel", "parallel"]} ins(%2, %arg2 : tensor<8x16xf32>, tensor<16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.addf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x16xf32>
    %4 = linalg.generic {indexing_maps = [#map3, #map3, #map3], iterator_types = ["parallel", "parallel"]} ins(%arg3, %3 : tensor<8x16xf32>, tensor<8x16xf32>) outs(%0 : tensor<8x16xf32>) {
    ^bb0(%in: f32, %in_0: f32, %out: f32):
      %5 = arith.addf %in, %in_0 : f32
      linalg.yield %5 : f32
    } -> tensor<8x16xf32>
    return %4 : tensor<8x16xf32>
  }
  func.func private @gemm_4(%arg0: tensor<8x16xf32>, %arg1: tensor<16x61xf32>) -> tensor<8x61xf32> attributes {blu.kernel = "gemm"} {
    %cst = arith.constant 0.000000e+00 : f32
    %0 = tensor.empty() : tensor<8x61xf32>
    %1 = linalg.fill ins(%cst : f32) outs(%0 : tensor<8x61xf32>) -> tensor<8x61xf32>
    %2 = linalg.contract indexing_maps = [#map5, #map6, #map7] {blu.precision = "highest"} ins(%arg0, %arg1 : tensor<8x16xf32>, tensor<16x61xf32>) outs(%1 : tensor<8x61xf32>) -> tensor<8x61xf32>
    return %2 : tensor<8x61xf32>
  }
}
