// Policies become precisions and roundings; what is marked by blu.autocast has its own policy.
// RUN: %blu-opt %s --blu-autocast | %filecheck %s --check-prefixes=CHECK,MARKED
// RUN: %blu-opt %s --blu-autocast=policy=tf32 | %filecheck %s --check-prefixes=CHECK,TF32

// A bias is added before the result is rounded; the weight is rounded before it is transposed.
// CHECK-LABEL: func.func @linear
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[W:.*]]: tensor<2x8xf32>, %[[B:.*]]: tensor<2xf32>)
// CHECK-NEXT: %[[NARROW_W:.*]] = "blu.reduce_precision"(%[[W]]) {dtype = bf16, rounds_gradient = false}
// CHECK-NEXT: %[[T:.*]] = "blu.transpose"(%[[NARROW_W]])
// CHECK-NEXT: %[[NARROW_X:.*]] = "blu.reduce_precision"(%[[X]]) {dtype = bf16, rounds_gradient = false}
// CHECK-NEXT: %[[PRODUCT:.*]] = "blu.matmul"(%[[NARROW_X]], %[[T]]) {precision = "bf16"}
// CHECK-NEXT: %[[SUM:.*]] = "blu.add"(%[[PRODUCT]], %[[B]])
// CHECK-NEXT: %[[STORED:.*]] = "blu.reduce_precision"(%[[SUM]]) {dtype = bf16, rounds_gradient = true}
// CHECK-NEXT: %[[Y:.*]] = "blu.exp"(%[[STORED]])
// CHECK-NEXT: return %[[Y]]
func.func @linear(%x: tensor<4x8xf32>, %w: tensor<2x8xf32>, %b: tensor<2xf32>) -> tensor<4x2xf32> {
  %0 = "blu.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<2x8xf32>) -> tensor<8x2xf32>
  %1 = "blu.matmul"(%x, %0) {blu.autocast = "bf16", precision = "highest"} : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
  %2 = "blu.add"(%1, %b) : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %3 = "blu.exp"(%2) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %3 : tensor<4x2xf32>
}

// What is only added to a residual stream stays f32.
// CHECK-LABEL: func.func @residual
// CHECK: %[[PRODUCT:.*]] = "blu.matmul"(%{{.*}}, %{{.*}}) {precision = "f16"}
// CHECK-NEXT: %[[SUM:.*]] = "blu.add"(%[[PRODUCT]], %{{.*}})
// CHECK-NEXT: return %[[SUM]]
func.func @residual(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "blu.matmul"(%x, %w) {blu.autocast = "f16", precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.add"(%0, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}

// CHECK-LABEL: func.func @attention
// CHECK-COUNT-3: "blu.convert"(%{{.*}}) {dtype = bf16}
// CHECK-NEXT: %[[Y:.*]] = "blu.attention"({{.*}}) {{.*}} : (tensor<2x5x8xbf16>, tensor<2x5x8xbf16>, tensor<2x5x8xbf16>) -> tensor<2x5x8xbf16>
// CHECK-NEXT: "blu.convert"(%[[Y]]) {dtype = f32}
func.func @attention(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) -> tensor<2x5x8xf32> {
  %0 = "blu.attention"(%q, %k, %v) {blu.autocast = "bf16", causal = true, precision = "highest", scale = 0.5 : f64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>} : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> tensor<2x5x8xf32>
  return %0 : tensor<2x5x8xf32>
}

// Where nothing is marked, the pass's own policy counts; "f32" is strict, and other dtypes are left alone.
// CHECK-LABEL: func.func @unmarked
// MARKED-NEXT: "blu.matmul"(%{{.*}}, %{{.*}}) {precision = "highest"}
// TF32-NEXT: "blu.matmul"(%{{.*}}, %{{.*}}) {precision = "tf32"}
// CHECK-NEXT: "blu.matmul"(%{{.*}}, %{{.*}}) {precision = "highest"}
// CHECK-NEXT: "blu.matmul"(%{{.*}}, %{{.*}}) {precision = "bf16"} : (tensor<4x4xf64>
func.func @unmarked(%x: tensor<4x4xf32>, %y: tensor<4x4xf64>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf64>) {
  %0 = "blu.matmul"(%x, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.matmul"(%x, %x) {blu.autocast = "f32", precision = "tf32"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "blu.matmul"(%y, %y) {blu.autocast = "bf16", precision = "highest"} : (tensor<4x4xf64>, tensor<4x4xf64>) -> tensor<4x4xf64>
  return %0, %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf64>
}

// GELU by erf between contractions is one of halves; where it is returned too, it stays of f32.
// CHECK-LABEL: func.func @gelu(
// CHECK: %[[HALF:.*]] = "blu.convert"(%{{.*}}) {dtype = bf16} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
// CHECK: "blu.gelu"(%[[HALF]]) {approximate = "erf"} : (tensor<4x4xbf16>) -> tensor<4x4xbf16>
// CHECK-LABEL: func.func @returned(
// CHECK: "blu.gelu"(%{{.*}}) {approximate = "erf"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
func.func @gelu(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "blu.matmul"(%x, %x) {precision = "highest", blu.autocast = "bf16"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.gelu"(%0) {approximate = "erf"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "blu.matmul"(%1, %x) {precision = "highest", blu.autocast = "bf16"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
func.func @returned(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "blu.matmul"(%x, %x) {precision = "highest", blu.autocast = "bf16"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.gelu"(%0) {approximate = "erf"} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "blu.matmul"(%1, %x) {precision = "highest", blu.autocast = "bf16"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %1, %2 : tensor<4x4xf32>, tensor<4x4xf32>
}
