// A donated argument is told which result may have its memory: by name, by name behind the first dot, then by type.
// RUN: %blu-opt %s --split-input-file --blu-pair-donations | %filecheck %s

// CHECK-LABEL: func.func @in_order(
// CHECK-SAME: %arg0: tensor<4xf32> {blu.donated, blu.result = 0 : i64}, %arg1: tensor<4xf32>, %arg2: tensor<4xf32> {blu.donated, blu.result = 2 : i64}
func.func @in_order(%a: tensor<4xf32> {blu.donated}, %b: tensor<4xf32>, %c: tensor<4xf32> {blu.donated}) -> (tensor<4xf32>, tensor<8xf32>, tensor<4xf32>) {
  %0 = tensor.empty() : tensor<8xf32>
  return %a, %0, %c : tensor<4xf32>, tensor<8xf32>, tensor<4xf32>
}

// -----

// Names come first, whatever the order; another type is never one's own.
// CHECK-LABEL: func.func @by_name(
// CHECK-SAME: {blu.donated, blu.name = "a", blu.result = 1 : i64}
// CHECK-SAME: {blu.donated, blu.name = "b", blu.result = 0 : i64}
// CHECK-SAME: tensor<8xf32> {blu.donated, blu.name = "c"})
func.func @by_name(%a: tensor<4xf32> {blu.donated, blu.name = "a"}, %b: tensor<4xf32> {blu.donated, blu.name = "b"}, %c: tensor<8xf32> {blu.donated, blu.name = "c"}) -> (tensor<4xf32> {blu.name = "b"}, tensor<4xf32> {blu.name = "a"}, tensor<4xf32> {blu.name = "c"}) {
  return %b, %a, %a : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: func.func @behind_the_dot(
// CHECK-SAME: {blu.donated, blu.name = "model.up", blu.result = 1 : i64}
// CHECK-SAME: {blu.donated, blu.name = "model.down", blu.result = 0 : i64}
// CHECK-SAME: {blu.donated, blu.name = "total", blu.result = 2 : i64}
func.func @behind_the_dot(%a: tensor<4xf32> {blu.donated, blu.name = "model.up"}, %b: tensor<4xf32> {blu.donated, blu.name = "model.down"}, %c: tensor<4xf32> {blu.donated, blu.name = "total"}) -> (tensor<4xf32> {blu.name = "0.down"}, tensor<4xf32> {blu.name = "0.up"}, tensor<4xf32>) {
  return %b, %a, %c : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
