// What the pass does besides applying a rule for each op (lit_tests/ops shows those): types, names, lines, what is kept.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope --mlir-print-debuginfo | %filecheck %s
// RUN: %blu-opt %s --split-input-file --lower-to-linalg=keeps-subnormals=false | %filecheck %s --check-prefix=SHORT

// Types lose their sign, and the function keeps those that callers know. Names and donations stay, and so do lines: all
// that a rule writes is at that of its op.
// CHECK-LABEL: func.func @unsigned(
// CHECK-SAME: %[[X:.+]]: tensor<2x3xi8> {blu.donated, blu.name = "x"}
// CHECK-SAME: -> tensor<2x3xi8> attributes {blu.inputs = [tensor<2x3xui8>], blu.results = [tensor<2x3xui8>]}
// CHECK: %[[Y:.+]] = linalg.generic {{.*}}ins(%[[X]], %[[X]] : tensor<2x3xi8>, tensor<2x3xi8>)
// CHECK: arith.maxui %{{.+}}, %{{.+}} : i8 loc("up"("model.py":3:1))
// CHECK: linalg.yield {{.*}}loc("up"("model.py":3:1))
// CHECK: return %[[Y]]
func.func @unsigned(%x: tensor<2x3xui8> {blu.name = "x", blu.donated}) -> tensor<2x3xui8> {
  %0 = "blu.maximum"(%x, %x) : (tensor<2x3xui8>, tensor<2x3xui8>) -> tensor<2x3xui8> loc("up"("model.py":3:1))
  return %0 : tensor<2x3xui8>
}

// -----

// Ops over the same data have the same loops, and no reshape between them: a reshape of a reshape is one, or none. What a
// rule has written into a loop, as a splat, stands nowhere else, and one tensor without values is there for all.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[ROWS:.+]] = tensor.collapse_shape %[[X]] {{\[\[}}0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK-NOT: {{(collapse|expand)_shape}}
// CHECK: %[[E:.+]] = linalg.generic {{.*}}ins(%[[ROWS]] : tensor<6x4xf32>) outs(%[[EMPTY:.+]] : tensor<6x4xf32>)
// CHECK-NOT: {{(collapse|expand)_shape}}
// CHECK-NOT: dense<
// CHECK: %[[S:.+]] = linalg.generic {{.*}}ins(%[[E]] : tensor<6x4xf32>) outs(%[[EMPTY]] : tensor<6x4xf32>)
// CHECK: } -> tensor<6x4xf32>
// CHECK-NEXT: %[[Y:.+]] = tensor.expand_shape %[[S]] {{\[\[}}0], [1, 2]] output_shape [6, 2, 2] : tensor<6x4xf32> into tensor<6x2x2xf32>
// CHECK-NEXT: return %[[Y]]
func.func @chain(%x: tensor<2x3x4xf32>) -> tensor<6x2x2xf32> {
  %0 = "blu.exp"(%x) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %c = "blu.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "blu.multiply"(%0, %c) : (tensor<2x3x4xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  %2 = "blu.reshape"(%1) {shape = array<i64: 6, 2, 2>} : (tensor<2x3x4xf32>) -> tensor<6x2x2xf32>
  return %2 : tensor<6x2x2xf32>
}

// -----

// Attention has a kernel of its own, which takes it whole; what is around it is lowered.
// CHECK-LABEL: func.func @attention(
// CHECK: %[[Q:.+]] = linalg.generic
// CHECK: %[[HEADS:.+]] = tensor.expand_shape %[[Q]]
// CHECK: %[[Y:.+]] = "blu.attention"(%[[HEADS]], {{.*}}causal = true
// CHECK: return %[[Y]]
func.func @attention(%q: tensor<2x8x64xf32>, %k: tensor<2x8x64xf32>, %v: tensor<2x8x64xf32>) -> tensor<2x8x64xf32> {
  %0 = "blu.tanh"(%q) : (tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  %1 = "blu.attention"(%0, %k, %v) {causal = true, precision = "highest", scale = 0.125 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>) -> tensor<2x8x64xf32>
  return %1 : tensor<2x8x64xf32>
}

// -----

// Where exponentials are 0 before they are subnormal there is nothing to keep, and a shorter body will do.
// CHECK-LABEL: func.func @sigmoid(
// CHECK: arith.select
// CHECK: return
// SHORT-LABEL: func.func @sigmoid(
// SHORT: math.exp
// SHORT-NOT: arith.select
// SHORT: arith.divf
// SHORT: return
func.func @sigmoid(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.sigmoid"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
