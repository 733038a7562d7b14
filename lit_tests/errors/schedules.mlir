// A schedule that does not fit its kernel is refused, with the kernel, its line and the limit.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='blu-choose-schedules,blu-reserve-gpu-scratch,blu-bufferize,blu-plan-memory,blu-fit-schedules'

#whole = affine_map<(d0, d1) -> (d0, d1)>
#rows = affine_map<(d0, d1) -> (d0)>
module attributes {blu.target = {name = "sm_90a"}} {
  func.func @main(%x: tensor<300x70xf32>) -> tensor<300xf32> {
    %0 = call @rows_0(%x) : (tensor<300x70xf32>) -> tensor<300xf32>
    return %0 : tensor<300xf32>
  }

  // expected-error@+1 {{the schedule of kernel 'rows_0': team = 24: a row has a power of two of threads up to 32, or all of a block}}
  func.func private @rows_0(%x: tensor<300x70xf32>) -> tensor<300xf32> attributes {blu.kernel = "rows", blu.schedule = {kind = "rows", team = 24 : i64}} {
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
}

// -----

module attributes {blu.target = {name = "sm_90a"}} {
  func.func @main(%q: tensor<2x20x32xbf16>) -> tensor<2x20x32xbf16> {
    %0 = call @attention_0(%q) : (tensor<2x20x32xbf16>) -> tensor<2x20x32xbf16>
    return %0 : tensor<2x20x32xbf16>
  }

  // expected-error@+1 {{the schedule of kernel 'attention_0': keys = 48: there are 16, 32, 64, 128}}
  func.func private @attention_0(%q: tensor<2x20x32xbf16>) -> tensor<2x20x32xbf16> attributes {blu.kernel = "attention", blu.schedule = {kind = "tiles", keys = 48 : i64}} {
    %0 = "blu.attention"(%q, %q, %q) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x20x32xbf16>, tensor<2x20x32xbf16>, tensor<2x20x32xbf16>) -> tensor<2x20x32xbf16>
    return %0 : tensor<2x20x32xbf16>
  }
}

// -----

module attributes {blu.target = {name = "sm_90a"}} {
  func.func @main(%keys: tensor<3x50xi8>) -> tensor<3x50xi64> {
    %0 = call @argsort_0(%keys) : (tensor<3x50xi8>) -> tensor<3x50xi64>
    return %0 : tensor<3x50xi64>
  }

  // expected-error@+1 {{the schedule of kernel 'argsort_0': tile = 100: tiles have a power of two of keys}}
  func.func private @argsort_0(%keys: tensor<3x50xi8>) -> tensor<3x50xi64> attributes {blu.kernel = "argsort", blu.schedule = {kind = "merge", tile = 100 : i64}} {
    %0 = "blu.argsort"(%keys) {axis = 1 : i64, descending = false} : (tensor<3x50xi8>) -> tensor<3x50xi64>
    return %0 : tensor<3x50xi64>
  }
}
