// Weights behind a layer norm have its scale, and biases its shift; where others read its rows, or these are few, it stays.
// RUN: %blu-opt %s --blu-fold-scales="least-bytes=4096" | %filecheck %s

// CHECK-LABEL: func.func @folded(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<64x32xf32>, %[[S:[a-z0-9]+]]: tensor<32xf32>, %[[T:[a-z0-9]+]]: tensor<32xf32>, %[[W:[a-z0-9]+]]: tensor<32x8xf32>, %[[B:[a-z0-9]+]]: tensor<8xf32>
func.func @folded(%x: tensor<64x32xf32>, %s: tensor<32xf32>, %t: tensor<32xf32>, %w: tensor<32x8xf32>, %b: tensor<8xf32>) -> tensor<64x8xf32> {
  // CHECK: %[[N:.*]] = "blu.layer_norm"(%[[X]]) {{.*}} -> tensor<64x32xf32>
  // CHECK: %[[R:.*]] = "blu.reduce_precision"(%[[N]])
  %n = "blu.layer_norm"(%x, %s, %t) {epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  %r = "blu.reduce_precision"(%n) {dtype = bf16, rounds_gradient = true} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  // CHECK: %[[COLUMN:.*]] = "blu.reshape"(%[[S]])
  // CHECK: %[[SCALED:.*]] = "blu.multiply"(%[[W]], %[[COLUMN]])
  // CHECK: %[[V:.*]] = "blu.reduce_precision"(%[[SCALED]]) {dtype = bf16, rounds_gradient = false}
  // CHECK: %[[OTHER:.*]] = "blu.reshape"(%[[T]])
  // CHECK: %[[SHIFTED:.*]] = "blu.multiply"(%[[W]], %[[OTHER]])
  // CHECK: %[[C:.*]] = "blu.sum"(%[[SHIFTED]])
  // CHECK: %[[P:.*]] = "blu.matmul"(%[[R]], %[[V]])
  // CHECK: %[[SUM:.*]] = "blu.add"(%[[B]], %[[C]])
  // CHECK: "blu.add"(%[[P]], %[[SUM]])
  %v = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false} : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %p = "blu.matmul"(%r, %v) {precision = "bf16"} : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
  %q = "blu.add"(%p, %b) : (tensor<64x8xf32>, tensor<8xf32>) -> tensor<64x8xf32>
  return %q : tensor<64x8xf32>
}

// CHECK-LABEL: func.func @read_by_others(
func.func @read_by_others(%x: tensor<64x32xf32>, %s: tensor<32xf32>, %t: tensor<32xf32>, %w: tensor<32x8xf32>) -> (tensor<64x8xf32>, tensor<64x32xf32>) {
  // CHECK: "blu.layer_norm"(%{{.*}}, %{{.*}}, %{{.*}})
  %n = "blu.layer_norm"(%x, %s, %t) {epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<64x32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<64x32xf32>
  %r = "blu.reduce_precision"(%n) {dtype = bf16, rounds_gradient = true} : (tensor<64x32xf32>) -> tensor<64x32xf32>
  %v = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false} : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %p = "blu.matmul"(%r, %v) {precision = "bf16"} : (tensor<64x32xf32>, tensor<32x8xf32>) -> tensor<64x8xf32>
  return %p, %r : tensor<64x8xf32>, tensor<64x32xf32>
}

// CHECK-LABEL: func.func @few_rows(
func.func @few_rows(%x: tensor<32x32xf32>, %s: tensor<32xf32>, %t: tensor<32xf32>, %w: tensor<32x8xf32>) -> tensor<32x8xf32> {
  // CHECK: "blu.layer_norm"(%{{.*}}, %{{.*}}, %{{.*}})
  %n = "blu.layer_norm"(%x, %s, %t) {epsilon = 1.0e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<32x32xf32>, tensor<32xf32>, tensor<32xf32>) -> tensor<32x32xf32>
  %r = "blu.reduce_precision"(%n) {dtype = bf16, rounds_gradient = true} : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %v = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false} : (tensor<32x8xf32>) -> tensor<32x8xf32>
  %p = "blu.matmul"(%r, %v) {precision = "bf16"} : (tensor<32x32xf32>, tensor<32x8xf32>) -> tensor<32x8xf32>
  return %p : tensor<32x8xf32>
}
