// Attention of few queries puts rows into the keys and values that it reads itself, unless others read them before it.
// RUN: %blu-opt %s --blu-insert-in-attention | %filecheck %s

// CHECK: module
module attributes {blu.target = {name = "sm_90a"}} {
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[Q:[a-z0-9]+]]: tensor<4x1x64xf32>, %[[K:[a-z0-9]+]]: tensor<4x1x64xf32>, %[[V:[a-z0-9]+]]: tensor<4x1x64xf32>, %[[KS:[a-z0-9]+]]: tensor<4x32x64xf32>, %[[VS:[a-z0-9]+]]: tensor<4x32x64xf32>, %[[AT:[a-z0-9]+]]: tensor<i32>
  func.func @main(%q: tensor<4x1x64xf32>, %k: tensor<4x1x64xf32>, %v: tensor<4x1x64xf32>, %ks: tensor<4x32x64xf32>, %vs: tensor<4x32x64xf32>, %at: tensor<i32>) -> (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>) {
    // CHECK: %[[Y:.*]]:3 = call @attention_0_update_0(%[[Q]], %[[AT]], %[[K]], %[[KS]], %[[AT]], %[[V]], %[[VS]], %[[AT]])
    %0 = call @update_0(%k, %ks, %at) : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x32x64xf32>
    %1 = call @update_0(%v, %vs, %at) : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x32x64xf32>
    %2 = call @attention_0(%q, %0, %1, %at) : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x1x64xf32>
    // CHECK: %[[A:.*]] = call @update_0(%[[K]], %[[Y]]#1, %[[AT]])
    // CHECK: %[[B:.*]] = call @update_0(%[[V]], %[[A]], %[[AT]])
    // CHECK: %[[Z:.*]] = call @attention_0(%[[Y]]#0, %[[A]], %[[B]], %[[AT]])
    %3 = call @update_0(%k, %0, %at) : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x32x64xf32>
    %4 = call @update_0(%v, %3, %at) : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x32x64xf32>
    %5 = call @attention_0(%2, %3, %4, %at) : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x1x64xf32>
    // CHECK: return %[[Z]], %[[A]], %[[Y]]#2
    return %5, %3, %1 : tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>
  }

  // CHECK: func.func private @attention_0_update_0({{.*}} attributes {blu.kernel = "attention"} {
  // CHECK: %[[KEYS:.*]] = tensor.insert_slice
  // CHECK: %[[VALUES:.*]] = tensor.insert_slice
  // CHECK: %[[FOUND:.*]] = "blu.attention"(%{{.*}}, %[[KEYS]], %[[VALUES]], %{{.*}})
  // CHECK: return %[[FOUND]], %[[KEYS]], %[[VALUES]]
  func.func private @update_0(%new: tensor<4x1x64xf32>, %rows: tensor<4x32x64xf32>, %at: tensor<i32>) -> tensor<4x32x64xf32> attributes {blu.kernel = "update"} {
    %0 = tensor.extract %at[] : tensor<i32>
    %1 = arith.index_cast %0 : i32 to index
    %2 = tensor.insert_slice %new into %rows[0, %1, 0] [4, 1, 64] [1, 1, 1] : tensor<4x1x64xf32> into tensor<4x32x64xf32>
    return %2 : tensor<4x32x64xf32>
  }

  func.func private @attention_0(%q: tensor<4x1x64xf32>, %k: tensor<4x32x64xf32>, %v: tensor<4x32x64xf32>, %at: tensor<i32>) -> tensor<4x1x64xf32> attributes {blu.kernel = "attention"} {
    %0 = "blu.attention"(%q, %k, %v, %at) {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 1>, precision = "highest", scale = 1.250000e-01 : f64} : (tensor<4x1x64xf32>, tensor<4x32x64xf32>, tensor<4x32x64xf32>, tensor<i32>) -> tensor<4x1x64xf32>
    return %0 : tensor<4x1x64xf32>
  }
}
