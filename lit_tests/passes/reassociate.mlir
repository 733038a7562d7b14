// Sums in another order, and what must keep its order.
// RUN: %blu-opt %s --blu-reassociate | %filecheck %s

// CHECK-LABEL: func.func @table
// CHECK-NEXT: %[[MADE:.*]] = "blu.exp"
// CHECK-NEXT: %[[SUM:.*]] = "blu.scatter_add"(%[[MADE]], %{{.*}}, %{{.*}}) {axis = 0 : i64}
// CHECK-NEXT: return %[[SUM]]
func.func @table(%x: tensor<9x4xf32>, %i: tensor<3xi32>, %u: tensor<3x4xf32>) -> tensor<9x4xf32> {
  %made = "blu.exp"(%x) : (tensor<9x4xf32>) -> tensor<9x4xf32>
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "blu.broadcast_to"(%zero) {shape = array<i64: 9, 4>} : (tensor<f32>) -> tensor<9x4xf32>
  %0 = "blu.scatter_add"(%zeros, %i, %u) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<9x4xf32>
  %1 = "blu.add"(%made, %0) : (tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<9x4xf32>
  return %1 : tensor<9x4xf32>
}

// The sum of rows of other numbers than zero stays, and so does a value that somebody else reads.
// CHECK-LABEL: func.func @not_zeros
// CHECK: "blu.add"
// CHECK-LABEL: func.func @read_elsewhere
// CHECK: "blu.add"
func.func @not_zeros(%x: tensor<9x4xf32>, %z: tensor<9x4xf32>, %i: tensor<3xi32>, %u: tensor<3x4xf32>) -> tensor<9x4xf32> {
  %0 = "blu.scatter_add"(%z, %i, %u) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<9x4xf32>
  %1 = "blu.add"(%x, %0) : (tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<9x4xf32>
  return %1 : tensor<9x4xf32>
}
func.func @read_elsewhere(%x: tensor<9x4xf32>, %i: tensor<3xi32>, %u: tensor<3x4xf32>) -> (tensor<9x4xf32>, tensor<9x4xf32>) {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %zeros = "blu.broadcast_to"(%zero) {shape = array<i64: 9, 4>} : (tensor<f32>) -> tensor<9x4xf32>
  %0 = "blu.scatter_add"(%zeros, %i, %u) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<3xi32>, tensor<3x4xf32>) -> tensor<9x4xf32>
  %1 = "blu.add"(%x, %0) : (tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<9x4xf32>
  return %0, %1 : tensor<9x4xf32>, tensor<9x4xf32>
}

// CHECK-LABEL: func.func @norm
// CHECK-NOT: tensor<256x128xf32>
// CHECK: "blu.matmul"({{.*}} : (tensor<8x256xf64>, tensor<256x8xf64>) -> tensor<8x8xf64>
// CHECK: "blu.matmul"({{.*}} : (tensor<8x128xf64>, tensor<128x8xf64>) -> tensor<8x8xf64>
// CHECK: "blu.maximum"
func.func @norm(%a: tensor<256x8xf32>, %b: tensor<8x128xf32>) -> tensor<f32> {
  %0 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<256x8xf32>, tensor<8x128xf32>) -> tensor<256x128xf32>
  %1 = "blu.square"(%0) : (tensor<256x128xf32>) -> tensor<256x128xf32>
  %2 = "blu.sum"(%1) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<256x128xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}

// A product over many terms is squared as it is, row by row; a small sum stays whole.
// CHECK-LABEL: func.func @long_norm
// CHECK: "blu.sum"({{.*}}) {axes = array<i64: 1>, keepdims = false}
// CHECK: "blu.sum"({{.*}}) {axes = array<i64: 0>, keepdims = false}
// CHECK-LABEL: func.func @small
// CHECK: "blu.sum"({{.*}}) {axes = array<i64: 0, 1>, keepdims = false}
func.func @long_norm(%a: tensor<256x64xf32>, %b: tensor<64x128xf32>) -> tensor<f32> {
  %0 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<256x64xf32>, tensor<64x128xf32>) -> tensor<256x128xf32>
  %1 = "blu.square"(%0) : (tensor<256x128xf32>) -> tensor<256x128xf32>
  %2 = "blu.sum"(%1) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<256x128xf32>) -> tensor<f32>
  return %2 : tensor<f32>
}
func.func @small(%a: tensor<16x8xf32>) -> tensor<f32> {
  %0 = "blu.sum"(%a) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<16x8xf32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// Gradients of slices fill what was sliced; where they leave a gap or overlap, they are added.
// CHECK-LABEL: func.func @slices
// CHECK-SAME: (%[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<2x1xf32>)
// CHECK-NEXT: %[[ALL:.*]] = "blu.concatenate"(%[[A]], %[[B]], %[[A]]) {axis = 1 : i64
// CHECK-NEXT: return %[[ALL]]
func.func @slices(%a: tensor<2x3xf32>, %b: tensor<2x1xf32>) -> tensor<2x7xf32> {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.pad"(%a, %zero) {low = array<i64: 0, 4>, high = array<i64: 0, 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x7xf32>
  %1 = "blu.pad"(%b, %zero) {low = array<i64: 0, 3>, high = array<i64: 0, 3>} : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x7xf32>
  %2 = "blu.add"(%0, %1) : (tensor<2x7xf32>, tensor<2x7xf32>) -> tensor<2x7xf32>
  %3 = "blu.pad"(%a, %zero) {low = array<i64: 0, 0>, high = array<i64: 0, 4>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x7xf32>
  %4 = "blu.add"(%2, %3) : (tensor<2x7xf32>, tensor<2x7xf32>) -> tensor<2x7xf32>
  return %4 : tensor<2x7xf32>
}

// CHECK-LABEL: func.func @gap
// CHECK: "blu.add"
// CHECK-LABEL: func.func @overlap
// CHECK: "blu.add"
// CHECK-LABEL: func.func @not_padded_with_zeros
// CHECK: "blu.add"
func.func @gap(%a: tensor<3xf32>) -> tensor<7xf32> {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.pad"(%a, %zero) {low = array<i64: 4>, high = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = "blu.pad"(%a, %zero) {low = array<i64: 0>, high = array<i64: 4>} : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  %2 = "blu.add"(%0, %1) : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  return %2 : tensor<7xf32>
}
func.func @overlap(%a: tensor<4xf32>) -> tensor<7xf32> {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.pad"(%a, %zero) {low = array<i64: 3>, high = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = "blu.pad"(%a, %zero) {low = array<i64: 0>, high = array<i64: 3>} : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
  %2 = "blu.add"(%0, %1) : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  return %2 : tensor<7xf32>
}
func.func @not_padded_with_zeros(%a: tensor<3xf32>, %b: tensor<4xf32>) -> tensor<7xf32> {
  %one = "blu.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.pad"(%a, %one) {low = array<i64: 4>, high = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<7xf32>
  %1 = "blu.pad"(%b, %one) {low = array<i64: 0>, high = array<i64: 3>} : (tensor<4xf32>, tensor<f32>) -> tensor<7xf32>
  %2 = "blu.add"(%0, %1) : (tensor<7xf32>, tensor<7xf32>) -> tensor<7xf32>
  return %2 : tensor<7xf32>
}

// -----

// Parts that were put side by side are turned and rounded where they are made.
// CHECK-LABEL: func.func @parts_are_turned(
// CHECK-SAME: %[[A:.*]]: tensor<2x5x3xf32>, %[[B:.*]]: tensor<2x5x3xf32>)
// CHECK: %[[LEFT:.*]] = "blu.transpose"(%{{.*}}) {permutation = array<i64: 1, 0, 2>} : (tensor<2x5x3xbf16>) -> tensor<5x2x3xbf16>
// CHECK: %[[RIGHT:.*]] = "blu.transpose"(%{{.*}}) {permutation = array<i64: 1, 0, 2>} : (tensor<2x5x3xbf16>) -> tensor<5x2x3xbf16>
// CHECK: %[[ALL:.*]] = "blu.concatenate"(%[[LEFT]], %[[RIGHT]]) {axis = 2 : i64
// CHECK-NEXT: return %[[ALL]]
func.func @parts_are_turned(%a: tensor<2x5x3xf32>, %b: tensor<2x5x3xf32>) -> tensor<5x2x6xbf16> {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.add"(%a, %b) : (tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %1 = "blu.subtract"(%a, %b) : (tensor<2x5x3xf32>, tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %2 = "blu.pad"(%0, %zero) {high = array<i64: 0, 0, 3>, low = array<i64: 0, 0, 0>} : (tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x5x6xf32>
  %3 = "blu.pad"(%1, %zero) {high = array<i64: 0, 0, 0>, low = array<i64: 0, 0, 3>} : (tensor<2x5x3xf32>, tensor<f32>) -> tensor<2x5x6xf32>
  %4 = "blu.add"(%2, %3) : (tensor<2x5x6xf32>, tensor<2x5x6xf32>) -> tensor<2x5x6xf32>
  %5 = "blu.transpose"(%4) {permutation = array<i64: 1, 0, 2>} : (tensor<2x5x6xf32>) -> tensor<5x2x6xf32>
  %6 = "blu.convert"(%5) {dtype = bf16} : (tensor<5x2x6xf32>) -> tensor<5x2x6xbf16>
  return %6 : tensor<5x2x6xbf16>
}
