// Between products, ranks that share layers have parts of the rows of sequences (`blu.between`).
// RUN: %blu-opt %s --split-input-file --blu-shard --mlir-print-local-scope | %filecheck %s

// The sum of what ranks found in their words is scattered, and the norm is of half of each sequence, which is gathered
// for the product; so is what is behind the second product.
// CHECK-LABEL: func.func @layer(
// CHECK: "blu.where"{{.*}} -> tensor<2x8x4xf32>
// CHECK: "blu.reduce_scatter"{{.*}} {axis = "tp", ranks = 2 : i64, reduction = "sum"}
// CHECK: %[[X:.*]] = "blu.reshape"{{.*}} -> tensor<2x4x4xf32>
// CHECK: %[[NORM:.*]] = "blu.layer_norm"(%[[X]]
// CHECK: "blu.all_gather"
// CHECK: %[[ALL:.*]] = "blu.reshape"{{.*}} -> tensor<2x8x4xf32>
// CHECK-NEXT: "blu.matmul"(%[[ALL]], {{.*}} -> tensor<2x8x3xf32>
// CHECK: "blu.matmul"{{.*}} : (tensor<2x8x3xf32>, tensor<3x4xf32>) -> tensor<2x8x4xf32>
// CHECK: "blu.reduce_scatter"
// CHECK: "blu.add"(%[[X]], {{.*}} -> tensor<2x4x4xf32>
// CHECK: "blu.all_gather"
// CHECK: return
module attributes {blu.mesh = [["tp", 2]]} {
func.func @layer(%table: tensor<6x4xf32> {blu.sharding = "tp, *"}, %tokens: tensor<2x8xi32> {blu.between = "*, tp"}, %scale: tensor<4xf32>, %up: tensor<4x6xf32> {blu.sharding = "*, tp"}, %down: tensor<6x4xf32> {blu.sharding = "tp, *"}) -> tensor<2x8x4xf32> {
  %0 = "blu.take"(%table, %tokens) {axis = 0 : i64} : (tensor<6x4xf32>, tensor<2x8xi32>) -> tensor<2x8x4xf32>
  %1 = "blu.layer_norm"(%0, %scale) {epsilon = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 0>} : (tensor<2x8x4xf32>, tensor<4xf32>) -> tensor<2x8x4xf32>
  %2 = "blu.matmul"(%1, %up) {precision = "highest"} : (tensor<2x8x4xf32>, tensor<4x6xf32>) -> tensor<2x8x6xf32>
  %3 = "blu.matmul"(%2, %down) {precision = "highest"} : (tensor<2x8x6xf32>, tensor<6x4xf32>) -> tensor<2x8x4xf32>
  %4 = "blu.add"(%0, %3) : (tensor<2x8x4xf32>, tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  return %4 : tensor<2x8x4xf32>
}
}

// -----

// Of sequences flattened to B*T rows, a rank has some of each: the products for both gradients gather them once.
// CHECK-LABEL: func.func @gradients(
// CHECK: "blu.reduce_scatter"
// CHECK: %[[G:.*]] = "blu.reshape"{{.*}} -> tensor<8x4xf32>
// CHECK: %[[GATHERED:.*]] = "blu.all_gather"
// CHECK-NEXT: "blu.transpose"(%[[GATHERED]])
// CHECK-NEXT: %[[ALL:.*]] = "blu.reshape"{{.*}} -> tensor<16x4xf32>
// CHECK-NEXT: "blu.matmul"(%[[ALL]],
// CHECK-NOT: "blu.all_gather"
// CHECK: "blu.matmul"({{.*}}, %[[ALL]])
// CHECK-NEXT: return
module attributes {blu.mesh = [["tp", 2]]} {
func.func @gradients(%tokens: tensor<2x8xi32> {blu.between = "*, tp"}, %table: tensor<6x4xf32> {blu.sharding = "tp, *"}, %down: tensor<4x6xf32> {blu.sharding = "*, tp"}, %h: tensor<6x16xf32> {blu.sharding = "tp, *"}) -> (tensor<16x6xf32> {blu.sharding = "*, tp"}, tensor<6x4xf32> {blu.sharding = "tp, *"}) {
  %0 = "blu.take"(%table, %tokens) {axis = 0 : i64} : (tensor<6x4xf32>, tensor<2x8xi32>) -> tensor<2x8x4xf32>
  %1 = "blu.tanh"(%0) : (tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %2 = "blu.reshape"(%1) {shape = array<i64: 16, 4>} : (tensor<2x8x4xf32>) -> tensor<16x4xf32>
  %3 = "blu.matmul"(%2, %down) {precision = "highest"} : (tensor<16x4xf32>, tensor<4x6xf32>) -> tensor<16x6xf32>
  %4 = "blu.matmul"(%h, %2) {precision = "highest"} : (tensor<6x16xf32>, tensor<16x4xf32>) -> tensor<6x4xf32>
  return %3, %4 : tensor<16x6xf32>, tensor<6x4xf32>
}
}

// -----

// Zeros to which rows of gradients are added are split as the gradient that they meet: no rank has the whole table.
// CHECK-LABEL: func.func @table(
// CHECK: "blu.scatter_add"{{.*}} -> tensor<3x4xf32>
// CHECK-NEXT: "blu.add"
// CHECK-NEXT: return
module attributes {blu.mesh = [["tp", 2]]} {
func.func @table(%tokens: tensor<8xi32>, %g: tensor<8x4xf32>, %other: tensor<6x4xf32> {blu.sharding = "tp, *"}) -> (tensor<6x4xf32> {blu.sharding = "tp, *"}) {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.broadcast_to"(%zero) {shape = array<i64: 6, 4>} : (tensor<f32>) -> tensor<6x4xf32>
  %1 = "blu.scatter_add"(%0, %tokens, %g) {axis = 0 : i64} : (tensor<6x4xf32>, tensor<8xi32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %2 = "blu.add"(%other, %1) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  return %2 : tensor<6x4xf32>
}
}

// -----

// What is rounded to fewer bits is gathered in these.
// CHECK-LABEL: func.func @rounded(
// CHECK: "blu.reduce_precision"
// CHECK-NEXT: %[[NARROW:.*]] = "blu.convert"{{.*}} -> tensor<4x4xbf16>
// CHECK-NEXT: %[[ALL:.*]] = "blu.all_gather"(%[[NARROW]]){{.*}} -> tensor<8x4xbf16>
// CHECK-NEXT: "blu.convert"(%[[ALL]]) {dtype = f32}
module attributes {blu.mesh = [["dp", 2]]} {
func.func @rounded(%w: tensor<8x4xf32> {blu.sharding = "dp, *"}) -> tensor<8x4xf32> {
  %0 = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
}

// -----

// Exponentials of classes that ranks share are computed again when the sum of all is known, and not kept until then.
// CHECK-LABEL: func.func @softmax(
// CHECK: %[[FIRST:.*]] = "blu.exp"
// CHECK-NEXT: %[[SUM:.*]] = "blu.sum"(%[[FIRST]])
// CHECK-NEXT: %[[AGAIN:.*]] = "blu.barrier"(%arg0)
// CHECK-NEXT: %[[SHIFTED:.*]] = "blu.subtract"(%[[AGAIN]], %arg1)
// CHECK-NEXT: %[[SECOND:.*]] = "blu.exp"(%[[SHIFTED]])
// CHECK-NEXT: %[[TOTAL:.*]] = "blu.all_reduce"(%[[SUM]])
// CHECK-NEXT: "blu.divide"(%[[SECOND]], %[[TOTAL]])
module attributes {blu.mesh = [["tp", 2]]} {
func.func @softmax(%x: tensor<8x6xf32> {blu.sharding = "*, tp"}, %m: tensor<8x1xf32>) -> (tensor<8x6xf32> {blu.sharding = "*, tp"}) {
  %0 = "blu.subtract"(%x, %m) : (tensor<8x6xf32>, tensor<8x1xf32>) -> tensor<8x6xf32>
  %1 = "blu.exp"(%0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %2 = "blu.sum"(%1) {axes = array<i64: 1>, keepdims = true} : (tensor<8x6xf32>) -> tensor<8x1xf32>
  %3 = "blu.divide"(%1, %2) : (tensor<8x6xf32>, tensor<8x1xf32>) -> tensor<8x6xf32>
  return %3 : tensor<8x6xf32>
}
}
