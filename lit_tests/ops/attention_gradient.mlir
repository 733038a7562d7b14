// The gradient of attention in matrix products, which is written so where no kernel takes it whole.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose{keep=nothing}' | %filecheck %s

// CHECK-LABEL: func.func @attention_gradient(
// CHECK: "blu.reshape"(
// CHECK: "blu.reshape"(
// CHECK: "blu.reshape"(
// CHECK: "blu.reshape"(
// CHECK: "blu.reshape"(
// CHECK: "blu.reshape"(
// CHECK: "blu.reshape"(
// CHECK: "blu.transpose"(
// CHECK: "blu.matmul"(
// CHECK: "blu.multiply"(
// CHECK: "blu.max"(
// CHECK: "blu.equal"(
// CHECK: "blu.where"(
// CHECK: "blu.subtract"(
// CHECK: "blu.exp"(
// CHECK: "blu.sum"(
// CHECK: "blu.equal"(
// CHECK: "blu.where"(
// CHECK: "blu.divide"(
// CHECK: "blu.multiply"(
// CHECK: "blu.sum"(
// CHECK: "blu.transpose"(
// CHECK: "blu.matmul"(
// CHECK: "blu.subtract"(
// CHECK: "blu.multiply"(
// CHECK: "blu.reshape"(
// CHECK: "blu.matmul"(
// CHECK: "blu.multiply"(
// CHECK: "blu.transpose"(
// CHECK: "blu.matmul"(
// CHECK: "blu.multiply"(
// CHECK: "blu.sum"(
// CHECK: "blu.transpose"(
// CHECK: "blu.matmul"(
// CHECK: "blu.sum"(
// CHECK: "blu.reshape"(
func.func @attention_gradient(%g: tensor<1x1x1xf32>, %q: tensor<1x1x1xf32>, %k: tensor<1x1x1xf32>, %v: tensor<1x1x1xf32>, %r: tensor<1x1x1xf32>) -> (tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) {
  %0:3 = "blu.attention_gradient"(%g, %q, %k, %v, %r) {causal = false, narrow = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>, precision = "highest", scale = 5.000000e-01 : f64} : (tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> (tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
  return %0#0, %0#1, %0#2 : tensor<1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
}
