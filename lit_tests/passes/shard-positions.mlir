// Attention of ranks that have parts of a sequence: keys and values travel while a rank is at those that it has.
// RUN: %blu-opt %s --split-input-file --blu-shard --mlir-print-local-scope | %filecheck %s

// In order: later ranks' keys are hidden by an offset.
// CHECK-LABEL: func.func @in_order(
// CHECK-SAME: %[[Q:.+]]: tensor<2x4x8xf32>, %[[K:.+]]: tensor<2x4x8xf32>, %[[V:.+]]: tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
// CHECK: %[[OWN:.+]] = "blu.concatenate"{{.*}} -> tensor<128xf32>
// CHECK: %[[NEXT:.+]] = "blu.permute"(%[[OWN]]) {axis = "cp", ranks = 2 : i64, shift = 1 : i64}
// CHECK: "blu.attention_piece"(%[[Q]], %[[K]], %[[V]]) {causal = true,
// CHECK: "blu.slice"(%[[NEXT]]) {{.*}} -> tensor<64xf32>
// CHECK: %[[OFFSET:.+]] = "blu.where"({{.*}} -> tensor<i32>
// CHECK: "blu.attention_piece"(%[[Q]], %{{.+}}, %{{.+}}, %[[OFFSET]]) {causal = true,
// CHECK-NOT: "blu.permute"
module attributes {blu.mesh = [["cp", 2]]} {
func.func @in_order(%q: tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}, %k: tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}, %v: tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}) -> (tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}) {
  %0 = "blu.attention"(%q, %k, %v) {causal = true, precision = "highest", scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %0 : tensor<2x8x8xf32>
}
}

// -----

// Balanced: every rank has two blocks without a mask for the keys of another one.
// CHECK-LABEL: func.func @balanced(
// CHECK: "blu.permute"
// CHECK: "blu.attention_piece"{{.*}} {causal = true,
// CHECK: "blu.attention_piece"{{.*}} {causal = false,{{.*}} : (tensor<2x2x8xf32>, tensor<2x2x8xf32>, tensor<2x2x8xf32>)
// CHECK: %[[QUERIES:.+]] = "blu.where"{{.*}} -> tensor<2x2x8xf32>
// CHECK: "blu.attention_piece"(%[[QUERIES]], {{.*}} {causal = false,{{.*}} : (tensor<2x2x8xf32>, tensor<2x2x8xf32>, tensor<2x2x8xf32>)
// CHECK-NOT: "blu.attention_piece"
module attributes {blu.mesh = [["cp", 2]]} {
func.func @balanced(%q: tensor<2x8x8xf32> {blu.sharding = "*, cp~, *"}, %k: tensor<2x8x8xf32> {blu.sharding = "*, cp~, *"}, %v: tensor<2x8x8xf32> {blu.sharding = "*, cp~, *"}) -> (tensor<2x8x8xf32> {blu.sharding = "*, cp~, *"}) {
  %0 = "blu.attention"(%q, %k, %v) {causal = true, precision = "highest", scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  return %0 : tensor<2x8x8xf32>
}
}

// -----

// Gradients of keys and values travel with these, and one step further home; all at once where that is asked for.
// CHECK-LABEL: func.func @at_once(
// CHECK: "blu.all_gather"
// CHECK: "blu.attention_gradient"
// CHECK: "blu.attention_gradient"
// CHECK: "blu.reduce_scatter"
// CHECK-NOT: "blu.permute"
module attributes {blu.mesh = [["cp", 2]], blu.rotation = "all_gather"} {
func.func @at_once(%g: tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}, %q: tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}, %k: tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}) -> (tensor<2x8x8xf32> {blu.sharding = "*, cp, *"}) {
  %0 = "blu.attention"(%q, %k, %k) {causal = false, precision = "highest", scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> tensor<2x8x8xf32>
  %1:3 = "blu.attention_gradient"(%g, %q, %k, %k, %0) {causal = false, narrow = false, precision = "highest", scale = 5.000000e-01 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>) -> (tensor<2x8x8xf32>, tensor<2x8x8xf32>, tensor<2x8x8xf32>)
  return %1#1 : tensor<2x8x8xf32>
}
}
