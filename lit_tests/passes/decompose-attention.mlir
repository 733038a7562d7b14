// Attention that no GPU kernel takes whole becomes products and a softmax: f64, and rows that registers do not hold.
// RUN: %blu-opt %s --blu-decompose-attention | %filecheck %s
// RUN: %blu-opt %s --blu-decompose-attention --mlir-pass-statistics -o %t 2>&1 | %filecheck %s --check-prefix=COUNT

// COUNT: blu-decompose-attention: 3 ops decomposed

// CHECK-LABEL: func.func @whole(
// CHECK-NEXT: %[[Y:.+]] = "blu.attention"(
// CHECK-NEXT: return %[[Y]]
func.func @whole(%q: tensor<2x8x64xbf16>, %k: tensor<2x8x64xbf16>, %v: tensor<2x8x64xbf16>) -> tensor<2x8x64xbf16> {
  %0 = "blu.attention"(%q, %k, %v) {causal = true, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>) -> tensor<2x8x64xbf16>
  return %0 : tensor<2x8x64xbf16>
}

// CHECK-LABEL: func.func @doubles(
// CHECK-SAME: %[[Q:.+]]: tensor<2x8x64xf64>, %[[K:.+]]: tensor<2x8x64xf64>, %[[V:.+]]: tensor<2x8x64xf64>)
// CHECK-NOT: "blu.attention"
// CHECK-DAG: %[[HEADS_Q:.+]] = "blu.reshape"(%[[Q]])
// CHECK-DAG: %[[HEADS_K:.+]] = "blu.reshape"(%[[K]])
// CHECK-DAG: %[[HEADS_V:.+]] = "blu.reshape"(%[[V]])
// CHECK: %[[KT:.+]] = "blu.transpose"(%[[HEADS_K]]) {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-NEXT: %[[DOTS:.+]] = "blu.matmul"(%[[HEADS_Q]], %[[KT]])
// CHECK: %[[SCORES:.+]] = "blu.multiply"(%[[DOTS]],
// CHECK: "blu.max"(%[[SCORES]])
// CHECK: %[[WEIGHTS:.+]] = "blu.exp"(
// CHECK: "blu.sum"(%[[WEIGHTS]])
// CHECK: %[[SOFTMAX:.+]] = "blu.divide"(%[[WEIGHTS]],
// CHECK-NEXT: %[[RESULT:.+]] = "blu.matmul"(%[[SOFTMAX]], %[[HEADS_V]])
// CHECK-NEXT: %[[Y:.+]] = "blu.reshape"(%[[RESULT]])
// CHECK-NEXT: return %[[Y]]
func.func @doubles(%q: tensor<2x8x64xf64>, %k: tensor<2x8x64xf64>, %v: tensor<2x8x64xf64>) -> tensor<2x8x64xf64> {
  %0 = "blu.attention"(%q, %k, %v) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>) -> tensor<2x8x64xf64>
  return %0 : tensor<2x8x64xf64>
}

// CHECK-LABEL: func.func @long_rows(
// CHECK-NOT: "blu.attention"
// CHECK: return
func.func @long_rows(%q: tensor<2x8x4096xbf16>, %k: tensor<2x8x4096xbf16>, %v: tensor<2x8x64xbf16>) -> tensor<2x8x64xbf16> {
  %0 = "blu.attention"(%q, %k, %v) {causal = false, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x4096xbf16>, tensor<2x8x4096xbf16>, tensor<2x8x64xbf16>) -> tensor<2x8x64xbf16>
  return %0 : tensor<2x8x64xbf16>
}

// Gradients have kernels of their own, which take other rows.
// CHECK-LABEL: func.func @gradient(
// CHECK-NOT: "blu.attention_gradient"
// CHECK-COUNT-4: "blu.matmul"
// CHECK: return
func.func @gradient(%g: tensor<2x8x64xf64>, %q: tensor<2x8x64xf64>, %k: tensor<2x8x64xf64>, %v: tensor<2x8x64xf64>, %y: tensor<2x8x64xf64>) -> (tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>) {
  %0:3 = "blu.attention_gradient"(%g, %q, %k, %v, %y) {causal = false, precision = "highest", scale = 0.125 : f64, narrow = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>) -> (tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>)
  return %0#0, %0#1, %0#2 : tensor<2x8x64xf64>, tensor<2x8x64xf64>, tensor<2x8x64xf64>
}
