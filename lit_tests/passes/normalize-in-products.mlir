// Products of few rows make what a kernel of rows has made for them alone; where others read it, or it is no left factor, it stays.
// RUN: %blu-opt %s --blu-normalize-in-products | %filecheck %s

// CHECK: module
module attributes {blu.target = {name = "sm_90a"}} {
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x64xbf16>, %[[S:[a-z0-9]+]]: tensor<64xf32>, %[[W:[a-z0-9]+]]: tensor<64x48xbf16>
  func.func @main(%x: tensor<4x64xbf16>, %s: tensor<64xf32>, %w: tensor<64x48xbf16>) -> (tensor<4x48xbf16>, tensor<4x48xbf16>, tensor<4x48xbf16>, tensor<4x64xbf16>) {
    // CHECK-NOT: call @rows_0
    // CHECK: %[[A:.*]] = call @gemm_0_rows_0(%[[X]], %[[S]], %[[W]])
    // CHECK: %[[B:.*]] = call @gemm_0_rows_0(%[[X]], %[[S]], %[[W]])
    %0 = call @rows_0(%x, %s) : (tensor<4x64xbf16>, tensor<64xf32>) -> tensor<4x64xbf16>
    %1 = call @gemm_0(%0, %w) : (tensor<4x64xbf16>, tensor<64x48xbf16>) -> tensor<4x48xbf16>
    %2 = call @gemm_0(%0, %w) : (tensor<4x64xbf16>, tensor<64x48xbf16>) -> tensor<4x48xbf16>
    // CHECK: %[[R:.*]] = call @rows_0(%[[X]], %[[S]])
    // CHECK: %[[C:.*]] = call @gemm_0(%[[R]], %[[W]])
    // CHECK: return %[[A]], %[[B]], %[[C]], %[[R]]
    %3 = call @rows_0(%x, %s) : (tensor<4x64xbf16>, tensor<64xf32>) -> tensor<4x64xbf16>
    %4 = call @gemm_0(%3, %w) : (tensor<4x64xbf16>, tensor<64x48xbf16>) -> tensor<4x48xbf16>
    return %1, %2, %4, %3 : tensor<4x48xbf16>, tensor<4x48xbf16>, tensor<4x48xbf16>, tensor<4x64xbf16>
  }

  func.func private @rows_0(%x: tensor<4x64xbf16>, %s: tensor<64xf32>) -> tensor<4x64xbf16> attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xbf16>) outs(%z : tensor<4xf32>) {
    ^bb0(%a: bf16, %c: f32):
      %w = arith.extf %a : bf16 to f32
      %t = arith.addf %c, %w : f32
      linalg.yield %t : f32
    } -> tensor<4xf32>
    %o = tensor.empty() : tensor<4x64xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%x, %sum, %s : tensor<4x64xbf16>, tensor<4xf32>, tensor<64xf32>) outs(%o : tensor<4x64xbf16>) {
    ^bb0(%a: bf16, %b: f32, %f: f32, %c: bf16):
      %w = arith.extf %a : bf16 to f32
      %d = arith.divf %w, %b : f32
      %m = arith.mulf %d, %f : f32
      %h = arith.truncf %m : f32 to bf16
      linalg.yield %h : bf16
    } -> tensor<4x64xbf16>
    return %r : tensor<4x64xbf16>
  }

  func.func private @gemm_0(%x: tensor<4x64xbf16>, %w: tensor<64x48xbf16>) -> tensor<4x48xbf16> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<4x48xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x48xf32>) -> tensor<4x48xf32>
    %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] {blu.precision = "highest"} ins(%x, %w : tensor<4x64xbf16>, tensor<64x48xbf16>) outs(%z : tensor<4x48xf32>) -> tensor<4x48xf32>
    %o = tensor.empty() : tensor<4x48xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<4x48xf32>) outs(%o : tensor<4x48xbf16>) {
    ^bb0(%a: f32, %c: bf16):
      %h = arith.truncf %a : f32 to bf16
      linalg.yield %h : bf16
    } -> tensor<4x48xbf16>
    return %r : tensor<4x48xbf16>
  }
  // CHECK: func.func private @gemm_0_rows_0(
  // CHECK-SAME: attributes {blu.kernel = "gemm", blu.makes_rows}
}
