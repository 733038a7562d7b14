// Programs over whole tensors become those of one rank, which has parts of them.
// RUN: %blu-opt %s --split-input-file --blu-shard --mlir-print-local-scope | %filecheck %s

// Rows are data: each rank has its own, and the sum over all of them is made where it is returned.
// CHECK-LABEL: func.func @rows(
// CHECK-SAME: tensor<4x4xf32>, %{{.*}}: tensor<4x5xf32>) -> (tensor<4x5xf32>, tensor<f32>)
// CHECK: %[[Y:.*]] = "blu.matmul"{{.*}} -> tensor<4x5xf32>
// CHECK: %[[SUM:.*]] = "blu.sum"
// CHECK: %[[TOTAL:.*]] = "blu.all_reduce"(%[[SUM]]) {axis = "dp", ranks = 2 : i64, reduction = "sum"}
// CHECK: return %[[Y]], %[[TOTAL]]
module attributes {blu.mesh = [["dp", 2]]} {
func.func @rows(%x: tensor<8x4xf32> {blu.sharding = "dp, *"}, %w: tensor<4x5xf32>) -> (tensor<8x5xf32> {blu.sharding = "dp, *"}, tensor<f32>) {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
  %1 = "blu.sum"(%0) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<8x5xf32>) -> tensor<f32>
  return %0, %1 : tensor<8x5xf32>, tensor<f32>
}
}

// -----

// Columns of one weight, rows of the next: one sum over ranks behind both (Megatron's pair).
// CHECK-LABEL: func.func @pair(
// CHECK: "blu.matmul"{{.*}} : (tensor<8x4xf32>, tensor<4x3xf32>) -> tensor<8x3xf32>
// CHECK-NEXT: "blu.tanh"
// CHECK-NEXT: "blu.matmul"{{.*}} : (tensor<8x3xf32>, tensor<3x4xf32>) -> tensor<8x4xf32>
// CHECK-NEXT: "blu.all_reduce"
// CHECK-NEXT: return
module attributes {blu.mesh = [["tp", 2]]} {
func.func @pair(%x: tensor<8x4xf32>, %up: tensor<4x6xf32> {blu.sharding = "*, tp"}, %down: tensor<6x4xf32> {blu.sharding = "tp, *"}) -> tensor<8x4xf32> {
  %0 = "blu.matmul"(%x, %up) {precision = "highest"} : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
  %1 = "blu.tanh"(%0) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %2 = "blu.matmul"(%1, %down) {precision = "highest"} : (tensor<8x6xf32>, tensor<6x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}
}

// -----

// Data and parameters split over one axis: the parameter is gathered where it is used, its gradient scattered.
// CHECK-LABEL: func.func @full(
// CHECK: "blu.all_gather"{{.*}} -> tensor<4x5xf32>
// CHECK: "blu.matmul"{{.*}} -> tensor<4x5xf32>
// CHECK: "blu.reduce_scatter"{{.*}}
// CHECK: return {{.*}} : tensor<2x5xf32>
module attributes {blu.mesh = [["dp", 2]]} {
func.func @full(%x: tensor<8x4xf32> {blu.sharding = "dp, *"}, %w: tensor<4x5xf32> {blu.sharding = "dp, *"}) -> (tensor<4x5xf32> {blu.sharding = "dp, *"}) {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x4xf32>, tensor<4x5xf32>) -> tensor<8x5xf32>
  %1 = "blu.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<8x4xf32>) -> tensor<4x8xf32>
  %2 = "blu.matmul"(%1, %0) {precision = "highest"} : (tensor<4x8xf32>, tensor<8x5xf32>) -> tensor<4x5xf32>
  %3 = "blu.subtract"(%w, %2) : (tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<4x5xf32>
  return %3 : tensor<4x5xf32>
}
}

// -----

// Three weights in one, each split: heads of queries, keys and values stay together through slices and reshapes.
// CHECK-LABEL: func.func @heads(
// CHECK: "blu.slice"{{.*}}limits = array<i64: 8, 4>, starts = array<i64: 0, 2>{{.*}} -> tensor<8x2xf32>
// CHECK: "blu.reshape"{{.*}} -> tensor<8x1x2xf32>
// CHECK-NOT: "blu.all_gather"
module attributes {blu.mesh = [["tp", 2]]} {
func.func @heads(%x: tensor<8x12xf32> {blu.sharding = "*, tp/3"}) -> (tensor<8x2x2xf32> {blu.sharding = "*, tp, *"}) {
  %0 = "blu.slice"(%x) {starts = array<i64: 0, 4>, limits = array<i64: 8, 8>, strides = array<i64: 1, 1>} : (tensor<8x12xf32>) -> tensor<8x4xf32>
  %1 = "blu.reshape"(%0) {shape = array<i64: 8, 2, 2>} : (tensor<8x4xf32>) -> tensor<8x2x2xf32>
  return %1 : tensor<8x2x2xf32>
}
}

// -----

// A table of which each rank has some rows: what it has not it looks up as zeros. Indices are checked as a whole.
// CHECK-LABEL: func.func @table(
// CHECK: "blu.checked_index"{{.*}}sizes = array<i64: 6>
// CHECK: "blu.take"{{.*}} : (tensor<3x4xf32>, tensor<5xi32>) -> tensor<5x4xf32>
// CHECK: "blu.where"
// CHECK: "blu.all_reduce"
module attributes {blu.mesh = [["tp", 2]]} {
func.func @table(%w: tensor<6x4xf32> {blu.sharding = "tp, *"}, %i: tensor<5xi32>) -> tensor<5x4xf32> {
  %0 = "blu.take"(%w, %i) {axis = 0 : i64} : (tensor<6x4xf32>, tensor<5xi32>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}
}

// -----

// Terms of a sum stay terms through what is linear: gradients of several uses are added up before they travel.
// CHECK-LABEL: func.func @terms(
// CHECK-NOT: "blu.all_reduce"
// CHECK: "blu.add"
// CHECK: "blu.all_reduce"
// CHECK-NEXT: "blu.square"
module attributes {blu.mesh = [["dp", 2]]} {
func.func @terms(%x: tensor<4xf32> {blu.sharding = "* + dp"}, %y: tensor<4xf32> {blu.sharding = "* + dp"}) -> tensor<4xf32> {
  %0 = "blu.add"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.square"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
}

// -----

// A mean is a sum over ranks until it is returned; only the number of its elements is needed before.
// CHECK-LABEL: func.func @quotient(
// CHECK: %[[COUNT:.*]] = "blu.all_reduce"(%arg1)
// CHECK: %[[MEAN:.*]] = "blu.divide"(%arg0, %[[COUNT]])
// CHECK: "blu.tanh"
// CHECK: "blu.all_reduce"(%[[MEAN]])
module attributes {blu.mesh = [["dp", 2]]} {
func.func @quotient(%loss: tensor<f32> {blu.sharding = "+ dp"}, %count: tensor<f32> {blu.sharding = "+ dp"}, %x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>) {
  %0 = "blu.divide"(%loss, %count) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = "blu.tanh"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<f32>, tensor<4xf32>
}
}

// -----

// What meets values that are split is made in parts: classes are compared with those that a rank has logits of.
// CHECK-LABEL: func.func @classes(
// CHECK: %[[ALL:.*]] = "blu.iota"() {{.*}} -> tensor<1x6xi32>
// CHECK-NOT: tensor<4x6x
// CHECK: "blu.equal"({{.*}}) : (tensor<1x3xi32>, tensor<4x1xi32>) -> tensor<4x3xi1>
// CHECK-NOT: tensor<4x6x
// CHECK: return
module attributes {blu.mesh = [["tp", 2]]} {
func.func @classes(%x: tensor<4x8xf32>, %w: tensor<8x6xf32> {blu.sharding = "*, tp"}, %i: tensor<4x1xi32>) -> tensor<f32> {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<4x8xf32>, tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = "blu.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 1, 6>} : () -> tensor<1x6xi32>
  %2 = "blu.equal"(%1, %i) : (tensor<1x6xi32>, tensor<4x1xi32>) -> tensor<4x6xi1>
  %3 = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %4 = "blu.where"(%2, %0, %3) : (tensor<4x6xi1>, tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %5 = "blu.sum"(%4) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<4x6xf32>) -> tensor<f32>
  return %5 : tensor<f32>
}
}

// -----

// What is made of a parameter and numbers is made in parts where parts are needed; what reads more, or is no argument's, is cut.
// CHECK-LABEL: func.func @decayed(
// CHECK: %[[CUT:.*]] = "blu.dynamic_slice"
// CHECK: %[[PART:.*]] = "blu.reshape"(%[[CUT]]) {{.*}} -> tensor<2x6xf32>
// CHECK: %[[DECAYED:.*]] = "blu.multiply"(%[[PART]], %{{.*}}) : (tensor<2x6xf32>, tensor<f32>) -> tensor<2x6xf32>
// CHECK: %[[UPDATED:.*]] = "blu.subtract"(%[[DECAYED]], %{{.*}}) : (tensor<2x6xf32>, tensor<2x6xf32>) -> tensor<2x6xf32>
// CHECK: "blu.dynamic_slice"
// CHECK: %[[LINE:.*]] = "blu.reshape"({{.*}} -> tensor<2x6xf32>
// CHECK: "blu.add"(%[[LINE]], %[[UPDATED]])
module attributes {blu.mesh = [["dp", 2]]} {
func.func @decayed(%w: tensor<4x6xf32>, %rate: tensor<f32>, %m: tensor<4x6xf32> {blu.sharding = "dp, *"}, %b: tensor<6xf32>) -> tensor<4x6xf32> {
  %0 = "blu.multiply"(%w, %rate) : (tensor<4x6xf32>, tensor<f32>) -> tensor<4x6xf32>
  %1 = "blu.subtract"(%0, %m) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = "blu.add"(%w, %b) : (tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %3 = "blu.add"(%2, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %3 : tensor<4x6xf32>
}
}
