// Gradients of standardized rows are found in the product before, which alone gives what they are made of; sums down
// columns are those of a warp's 32 rows there. A product that is read by others as well stays.
// RUN: %blu-opt %s --blu-sum-rows-in-products | %filecheck %s

// CHECK: module
module attributes {blu.target = {name = "sm_90a"}} {
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[A:[a-z0-9]+]]: tensor<32768x64xbf16>, %[[W:[a-z0-9]+]]: tensor<64x384xbf16>, %[[X:[a-z0-9]+]]: tensor<32768x384xbf16>, %[[S:[a-z0-9]+]]: tensor<32768xf32>, %[[H:[a-z0-9]+]]: tensor<32768x384xbf16>, %[[L:[a-z0-9]+]]: tensor<32768x384xi16>
  func.func @main(%a: tensor<32768x64xbf16>, %w: tensor<64x384xbf16>, %x: tensor<32768x384xbf16>, %s: tensor<32768xf32>, %h: tensor<32768x384xbf16>, %l: tensor<32768x384xi16>) -> (tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<384xf32>, tensor<32768x384xbf16>, tensor<32768x384xbf16>, tensor<384xf32>) {
    // CHECK: %[[R:.*]]:3 = call @gemm_0_rows_0(%[[A]], %[[W]], %[[X]], %[[S]], %[[H]], %[[L]])
    // CHECK-SAME: -> (tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<1024x384xf32>)
    // CHECK: %[[T:.*]] = call @loops_0_of_1024(%[[R]]#2)
    %0 = call @gemm_0(%a, %w) : (tensor<32768x64xbf16>, tensor<64x384xbf16>) -> tensor<32768x384xbf16>
    %1:3 = call @rows_0(%0, %x, %s, %h, %l) : (tensor<32768x384xbf16>, tensor<32768x384xbf16>, tensor<32768xf32>, tensor<32768x384xbf16>, tensor<32768x384xi16>) -> (tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<128x384xf32>)
    %2 = call @loops_0(%1#2) : (tensor<128x384xf32>) -> tensor<384xf32>
    // CHECK: %[[G:.*]] = call @gemm_0(%[[A]], %[[W]])
    // CHECK: %[[Q:.*]]:3 = call @rows_0(%[[G]], %[[X]], %[[S]], %[[R]]#0, %[[R]]#1)
    // CHECK: call @loops_0(%[[Q]]#2)
    %3 = call @gemm_0(%a, %w) : (tensor<32768x64xbf16>, tensor<64x384xbf16>) -> tensor<32768x384xbf16>
    %4:3 = call @rows_0(%3, %x, %s, %1#0, %1#1) : (tensor<32768x384xbf16>, tensor<32768x384xbf16>, tensor<32768xf32>, tensor<32768x384xbf16>, tensor<32768x384xi16>) -> (tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<128x384xf32>)
    %5 = call @loops_0(%4#2) : (tensor<128x384xf32>) -> tensor<384xf32>
    // CHECK: return %[[R]]#0, %[[R]]#1, %[[T]], %[[G]]
    return %1#0, %1#1, %2, %3, %4#0, %5 : tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<384xf32>, tensor<32768x384xbf16>, tensor<32768x384xbf16>, tensor<384xf32>
  }

  func.func private @gemm_0(%x: tensor<32768x64xbf16>, %w: tensor<64x384xbf16>) -> tensor<32768x384xbf16> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32768x384xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32768x384xf32>) -> tensor<32768x384xf32>
    %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] {blu.precision = "highest"} ins(%x, %w : tensor<32768x64xbf16>, tensor<64x384xbf16>) outs(%z : tensor<32768x384xf32>) -> tensor<32768x384xf32>
    %h = tensor.empty() : tensor<32768x384xbf16>
    %r = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%p : tensor<32768x384xf32>) outs(%h : tensor<32768x384xbf16>) {
    ^bb0(%a: f32, %c: bf16):
      %n = arith.truncf %a : f32 to bf16
      linalg.yield %n : bf16
    } -> tensor<32768x384xbf16>
    return %r : tensor<32768x384xbf16>
  }

  func.func private @rows_0(%g: tensor<32768x384xbf16>, %x: tensor<32768x384xbf16>, %s: tensor<32768xf32>, %h: tensor<32768x384xbf16>, %l: tensor<32768x384xi16>) -> (tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<128x384xf32>) attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<32768xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<32768xf32>) -> tensor<32768xf32>
    %f = tensor.empty() : tensor<32768x384xf32>
    %wide = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%g : tensor<32768x384xbf16>) outs(%f : tensor<32768x384xf32>) {
    ^bb0(%a: bf16, %c: f32):
      %n = arith.extf %a : bf16 to f32
      linalg.yield %n : f32
    } -> tensor<32768x384xf32>
    %sum = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%wide : tensor<32768x384xf32>) outs(%z : tensor<32768xf32>) {
    ^bb0(%a: f32, %c: f32):
      %n = arith.addf %c, %a : f32
      linalg.yield %n : f32
    } -> tensor<32768xf32>
    %both = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%g, %x : tensor<32768x384xbf16>, tensor<32768x384xbf16>) outs(%f : tensor<32768x384xf32>) {
    ^bb0(%a: bf16, %b: bf16, %c: f32):
      %n = arith.extf %a : bf16 to f32
      %m = arith.extf %b : bf16 to f32
      %q = arith.mulf %n, %m : f32
      linalg.yield %q : f32
    } -> tensor<32768x384xf32>
    %other = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%both : tensor<32768x384xf32>) outs(%z : tensor<32768xf32>) {
    ^bb0(%a: f32, %c: f32):
      %n = arith.addf %c, %a : f32
      linalg.yield %n : f32
    } -> tensor<32768xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%g, %x, %h, %l, %sum, %other, %s : tensor<32768x384xbf16>, tensor<32768x384xbf16>, tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<32768xf32>, tensor<32768xf32>, tensor<32768xf32>) outs(%f : tensor<32768x384xf32>) {
    ^bb0(%a: bf16, %b: bf16, %high: bf16, %low: i16, %d: f32, %o: f32, %t: f32, %c: f32):
      %n = arith.extf %a : bf16 to f32
      %m = arith.extf %b : bf16 to f32
      %n1 = arith.subf %n, %d : f32
      %m1 = arith.mulf %m, %o : f32
      %n2 = arith.subf %n1, %m1 : f32
      %n3 = arith.mulf %n2, %t : f32
      %u = arith.extf %high : bf16 to f32
      %v = arith.sitofp %low : i16 to f32
      %w = arith.addf %u, %v : f32
      %n4 = arith.addf %n3, %w : f32
      linalg.yield %n4 : f32
    } -> tensor<32768x384xf32>
    %bf = tensor.empty() : tensor<32768x384xbf16>
    %narrow = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<32768x384xf32>) outs(%bf : tensor<32768x384xbf16>) {
    ^bb0(%a: f32, %c: bf16):
      %n = arith.truncf %a : f32 to bf16
      linalg.yield %n : bf16
    } -> tensor<32768x384xbf16>
    %i = tensor.empty() : tensor<32768x384xi16>
    %rest = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%t : tensor<32768x384xf32>) outs(%i : tensor<32768x384xi16>) {
    ^bb0(%a: f32, %c: i16):
      %n = arith.fptosi %a : f32 to i16
      linalg.yield %n : i16
    } -> tensor<32768x384xi16>
    %k = tensor.empty() : tensor<128x384xf32>
    %y = linalg.fill ins(%zero : f32) outs(%k : tensor<128x384xf32>) -> tensor<128x384xf32>
    %ranges = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i floordiv 256, j)>], iterator_types = ["reduction", "parallel"]} ins(%t : tensor<32768x384xf32>) outs(%y : tensor<128x384xf32>) {
    ^bb0(%a: f32, %c: f32):
      %n = arith.addf %c, %a : f32
      linalg.yield %n : f32
    } -> tensor<128x384xf32>
    return %narrow, %rest, %ranges : tensor<32768x384xbf16>, tensor<32768x384xi16>, tensor<128x384xf32>
  }

  func.func private @loops_0(%x: tensor<128x384xf32>) -> tensor<384xf32> attributes {blu.kernel = "loops"} {
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<384xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<384xf32>) -> tensor<384xf32>
    %t = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]} ins(%x : tensor<128x384xf32>) outs(%z : tensor<384xf32>) {
    ^bb0(%a: f32, %c: f32):
      %n = arith.addf %c, %a : f32
      linalg.yield %n : f32
    } -> tensor<384xf32>
    return %t : tensor<384xf32>
  }
  // CHECK: func.func private @gemm_0_rows_0(
  // CHECK: -> tensor<1024x384xf32>
  // CHECK: blu.of_product
}
