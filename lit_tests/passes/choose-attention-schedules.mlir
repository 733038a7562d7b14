// Attention gets a schedule by its sizes, and what others wish is done. Whether warpgroups do it, strides say.
// RUN: %blu-opt %s --blu-choose-schedules | %filecheck %s

// CHECK: module attributes {blu.target = {name = "sm_90a"}}
module attributes {blu.target = {name = "sm_90a"}, blu.schedules = {attention_1 = {kind = "tiles", keys = 32 : i64, queries = "shared"}, attention_3 = {stages = 3 : i64, per_processor = 2 : i64}}} {
  func.func @main(%q: tensor<2x70x32xbf16>, %one: tensor<2x1x32xbf16>) -> (tensor<2x70x32xbf16>, tensor<2x70x32xbf16>, tensor<2x1x32xbf16>, tensor<2x70x32xbf16>) {
    %0 = call @attention_0(%q) : (tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16>
    %1 = call @attention_1(%q) : (tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16>
    %2 = call @attention_2(%one, %q) : (tensor<2x1x32xbf16>, tensor<2x70x32xbf16>) -> tensor<2x1x32xbf16>
    %3 = call @attention_3(%q) : (tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16>
    return %0, %1, %2, %3 : tensor<2x70x32xbf16>, tensor<2x70x32xbf16>, tensor<2x1x32xbf16>, tensor<2x70x32xbf16>
  }

  // CHECK-LABEL: func.func private @attention_0(
  // CHECK-SAME: attributes {blu.kernel = "attention"}
  func.func private @attention_0(%q: tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%q, %q, %q) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x70x32xbf16>, tensor<2x70x32xbf16>, tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16>
    return %0 : tensor<2x70x32xbf16>
  }

  // CHECK-LABEL: func.func private @attention_1(
  // CHECK-SAME: blu.schedule = {keys = 32 : i64, kind = "tiles", queries = "shared", strips = 2 : i64}
  func.func private @attention_1(%q: tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%q, %q, %q) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x70x32xbf16>, tensor<2x70x32xbf16>, tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16>
    return %0 : tensor<2x70x32xbf16>
  }

  // CHECK-LABEL: func.func private @attention_2(
  // CHECK-SAME: blu.schedule = {blocks = 1 : i64, kind = "few_queries", warps = 16 : i64}
  func.func private @attention_2(%q: tensor<2x1x32xbf16>, %k: tensor<2x70x32xbf16>) -> tensor<2x1x32xbf16> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%q, %k, %k) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x1x32xbf16>, tensor<2x70x32xbf16>, tensor<2x70x32xbf16>) -> tensor<2x1x32xbf16>
    return %0 : tensor<2x1x32xbf16>
  }

  // CHECK-LABEL: func.func private @attention_3(
  // CHECK-SAME: blu.schedule = {keys = 64 : i64, kind = "wgmma", per_processor = 2 : i64, stages = 3 : i64}
  func.func private @attention_3(%q: tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%q, %q, %q) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x70x32xbf16>, tensor<2x70x32xbf16>, tensor<2x70x32xbf16>) -> tensor<2x70x32xbf16>
    return %0 : tensor<2x70x32xbf16>
  }
}
