// A product of many rows does what a kernel of rows does with them, whole rows of a cluster; of other widths it stays.
// RUN: %blu-opt %s --blu-sum-rows-in-products | %filecheck %s

// CHECK: module
module attributes {blu.target = {name = "sm_90a"}} {
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<32768x64xbf16>, %[[W:[a-z0-9]+]]: tensor<64x384xbf16>, %[[V:[a-z0-9]+]]: tensor<64x392xbf16>
  func.func @main(%x: tensor<32768x64xbf16>, %w: tensor<64x384xbf16>, %v: tensor<64x392xbf16>) -> (tensor<32768x384xf32>, tensor<32768x384xbf16>, tensor<32768x392xbf16>) {
    // CHECK: %[[A:.*]]:2 = call @gemm_0_rows_0(%[[X]], %[[W]])
    %0 = call @gemm_0(%x, %w) : (tensor<32768x64xbf16>, tensor<64x384xbf16>) -> tensor<32768x384xf32>
    %1 = call @rows_0(%0) : (tensor<32768x384xf32>) -> tensor<32768x384xbf16>
    // CHECK: %[[B:.*]] = call @gemm_1(%[[X]], %[[V]])
    // CHECK: %[[C:.*]] = call @rows_1(%[[B]])
    // CHECK: return %[[A]]#0, %[[A]]#1, %[[C]]
    %2 = call @gemm_1(%x, %v) : (tensor<32768x64xbf16>, tensor<64x392xbf16>) -> tensor<32768x392xf32>
    %3 = call @rows_1(%2) : (tensor<32768x392xf32>) -> tensor<32768x392xbf16>
    return %0, %1, %3 : tensor<32768x384xf32>, tensor<32768x384xbf16>, tensor<32768x392xbf16>
  }

  func.func private @rows_0(%x: tensor<32768x384xf32>) -> tensor<32768x384xbf16> attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32768xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32768xf32>) -> tensor<32768xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<32768x384xf32>) outs(%z : tensor<32768xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %c, %a : f32
      linalg.yield %s : f32
    } -> tensor<32768xf32>
    %f = tensor.empty() : tensor<32768x384xf32>
    %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<32768x384xf32>, tensor<32768xf32>) outs(%f : tensor<32768x384xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %s = arith.divf %a, %b : f32
      %m = arith.mulf %s, %s : f32
      linalg.yield %m : f32
    } -> tensor<32768x384xf32>
    %squares = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<32768x384xf32>) outs(%z : tensor<32768xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %c, %a : f32
      linalg.yield %s : f32
    } -> tensor<32768xf32>
    %o = tensor.empty() : tensor<32768x384xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d, %squares : tensor<32768x384xf32>, tensor<32768xf32>) outs(%o : tensor<32768x384xbf16>) {
    ^bb0(%a: f32, %b: f32, %c: bf16):
      %m = arith.mulf %a, %b : f32
      %h = arith.truncf %m : f32 to bf16
      linalg.yield %h : bf16
    } -> tensor<32768x384xbf16>
    return %r : tensor<32768x384xbf16>
  }

  func.func private @gemm_0(%x: tensor<32768x64xbf16>, %w: tensor<64x384xbf16>) -> tensor<32768x384xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32768x384xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32768x384xf32>) -> tensor<32768x384xf32>
    %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] {blu.precision = "highest"} ins(%x, %w : tensor<32768x64xbf16>, tensor<64x384xbf16>) outs(%z : tensor<32768x384xf32>) -> tensor<32768x384xf32>
    return %p : tensor<32768x384xf32>
  }

  func.func private @rows_1(%x: tensor<32768x392xf32>) -> tensor<32768x392xbf16> attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32768xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32768xf32>) -> tensor<32768xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<32768x392xf32>) outs(%z : tensor<32768xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %c, %a : f32
      linalg.yield %s : f32
    } -> tensor<32768xf32>
    %f = tensor.empty() : tensor<32768x392xf32>
    %d = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %sum : tensor<32768x392xf32>, tensor<32768xf32>) outs(%f : tensor<32768x392xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %s = arith.divf %a, %b : f32
      %m = arith.mulf %s, %s : f32
      linalg.yield %m : f32
    } -> tensor<32768x392xf32>
    %squares = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%d : tensor<32768x392xf32>) outs(%z : tensor<32768xf32>) {
    ^bb0(%a: f32, %c: f32):
      %s = arith.addf %c, %a : f32
      linalg.yield %s : f32
    } -> tensor<32768xf32>
    %o = tensor.empty() : tensor<32768x392xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%d, %squares : tensor<32768x392xf32>, tensor<32768xf32>) outs(%o : tensor<32768x392xbf16>) {
    ^bb0(%a: f32, %b: f32, %c: bf16):
      %m = arith.mulf %a, %b : f32
      %h = arith.truncf %m : f32 to bf16
      linalg.yield %h : bf16
    } -> tensor<32768x392xbf16>
    return %r : tensor<32768x392xbf16>
  }

  func.func private @gemm_1(%x: tensor<32768x64xbf16>, %w: tensor<64x392xbf16>) -> tensor<32768x392xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32768x392xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32768x392xf32>) -> tensor<32768x392xf32>
    %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] {blu.precision = "highest"} ins(%x, %w : tensor<32768x64xbf16>, tensor<64x392xbf16>) outs(%z : tensor<32768x392xf32>) -> tensor<32768x392xf32>
    return %p : tensor<32768x392xf32>
  }
  // CHECK: func.func private @gemm_0_rows_0(
  // CHECK-SAME: attributes {blu.kernel = "gemm"}
}
