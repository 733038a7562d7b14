// Sums over an axis travel in the dtype that the module says for it.
// RUN: %blu-opt %s --split-input-file --blu-narrow-sums --mlir-print-local-scope | %filecheck %s

module attributes {blu.reduce = {dp = "bf16"}} {
// CHECK-LABEL: func.func @gradients(
// CHECK-DAG: %[[TERM:.*]] = "blu.convert"(%arg0){{.*}}-> tensor<2x3xbf16>
// CHECK-DAG: %[[TERMS:.*]] = "blu.convert"(%arg1){{.*}}-> tensor<2x5xbf16>
// CHECK: %[[TOTAL:.*]] = "blu.all_reduce"(%[[TERM]]) {axis = "dp"{{.*}}-> tensor<2x3xbf16>
// CHECK: %[[PART:.*]] = "blu.reduce_scatter"(%[[TERMS]]){{.*}}-> tensor<1x5xbf16>
// CHECK-DAG: "blu.convert"(%[[TOTAL]]){{.*}}-> tensor<2x3xf32>
// CHECK-DAG: "blu.convert"(%[[PART]]){{.*}}-> tensor<1x5xf32>
// CHECK: return
func.func @gradients(%x: tensor<2x3xf32>, %y: tensor<2x5xf32>) -> (tensor<2x3xf32>, tensor<1x5xf32>) {
  %0 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "blu.reduce_scatter"(%y) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<2x5xf32>) -> tensor<1x5xf32>
  return %0, %1 : tensor<2x3xf32>, tensor<1x5xf32>
}

// Scalars, numbers of rows, other axes, other dtypes and maxima are what they were.
// CHECK-LABEL: func.func @others(
// CHECK-NOT: "blu.convert"
// CHECK: return
func.func @others(%x: tensor<f32>, %y: tensor<4xf32>, %z: tensor<4xf64>, %r: tensor<4x1xf32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xf64>, tensor<4xf32>, tensor<4x1xf32>) {
  %0 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<f32>) -> tensor<f32>
  %1 = "blu.all_reduce"(%y) {axis = "tp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "blu.all_reduce"(%z) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf64>) -> tensor<4xf64>
  %3 = "blu.all_reduce"(%y) {axis = "dp", ranks = 2 : i64, reduction = "max"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "blu.all_reduce"(%r) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4x1xf32>) -> tensor<4x1xf32>
  return %0, %1, %2, %3, %4 : tensor<f32>, tensor<4xf32>, tensor<4xf64>, tensor<4xf32>, tensor<4x1xf32>
}
}

// -----

// So are numbers of rows in another shape, here sums over the last dimension.
// CHECK-LABEL: func.func @reshaped(
// CHECK-NOT: "blu.convert"
// CHECK: return
module attributes {blu.reduce = {dp = "bf16"}, blu.mesh = [["dp", 2]]} {
func.func @reshaped(%x: tensor<4x6xf32>) -> tensor<4xf32> {
  %0 = "blu.sum"(%x) {axes = array<i64: 1>, keepdims = true} : (tensor<4x6xf32>) -> tensor<4x1xf32>
  %1 = "blu.reshape"(%0) {shape = array<i64: 4>} : (tensor<4x1xf32>) -> tensor<4xf32>
  %2 = "blu.all_reduce"(%1) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}
}

// -----

// CHECK-LABEL: func.func @unsaid(
// CHECK-NOT: "blu.convert"
// CHECK: return
func.func @unsaid(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
