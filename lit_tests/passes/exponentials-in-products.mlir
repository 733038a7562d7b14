// A product of logits makes the exponentials that a cross entropy's gradient is made of.
// RUN: %blu-opt %s --blu-exponentials-in-products=smallest-bytes=128 | %filecheck %s

// CHECK-LABEL: func.func @head(
// CHECK-SAME: %[[X:.+]]: tensor<8x8xf32>, %[[W:.+]]: tensor<64x8xf32>, %[[T:.+]]: tensor<8xi32>, %[[G:.+]]: tensor<8xf32>)
// CHECK: %[[WR:.+]] = "blu.reduce_precision"(%[[W]])
// CHECK: %[[XR:.+]] = "blu.reduce_precision"(%[[X]])
// CHECK: %[[P:.+]] = "blu.matmul"(%[[XR]], %{{.+}}) {precision = "bf16"}
// CHECK: %[[KEPT:.+]] = "blu.not_equal"(%[[T]], %{{.+}})
// CHECK: %[[TARGETS:.+]] = "blu.where"(%[[KEPT]], %[[T]], %{{.+}})
// CHECK: %[[CHECKED:.+]] = "blu.checked_index"(%[[TARGETS]]) {{.*}}reported_as = "cross_entropy", sizes = array<i64: 64>
// CHECK: %[[XH:.+]] = "blu.convert"(%[[XR]]) {dtype = bf16}
// CHECK: %[[WH:.+]] = "blu.convert"(%[[WR]]) {dtype = bf16}
// CHECK: %[[PICKED:.+]] = "blu.take"(%[[WH]], %[[CHECKED]]) {axis = 0 : i64}
// CHECK: %[[DOT:.+]] = "blu.sum"(%{{.+}}) {axes = array<i64: 1>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
// CHECK: %[[COLUMN:.+]] = "blu.reshape"(%[[DOT]]) {shape = array<i64: 8, 1>}
// CHECK: %[[LESS:.+]] = "blu.subtract"(%[[P]], %[[COLUMN]])
// CHECK: %[[E:.+]] = "blu.exp"(%[[LESS]])
// CHECK: %[[ALL:.+]] = "blu.sum"(%[[E]]) {axes = array<i64: 1>, keepdims = false}
// CHECK: %[[SOME:.+]] = "blu.subtract"(%[[ALL]], %{{.+}})
// CHECK: %[[OTHERS:.+]] = "blu.maximum"(%[[SOME]], %{{.+}})
// CHECK: %[[TERMS:.+]] = "blu.convert"(%[[E]]) {dtype = bf16}
// CHECK: %[[SETTLED:.+]]:3 = "blu.settle_rows"(%[[TERMS]], %[[OTHERS]], %[[XH]], %[[WH]], %[[TARGETS]])
// CHECK: %[[LOSS:.+]] = "blu.where"(%[[KEPT]], %[[SETTLED]]#2, %{{.+}})
// CHECK: %[[HALVES:.+]] = "blu.reduce_precision"(%[[OTHERS]])
// CHECK: %[[RATIO:.+]] = "blu.divide"(%[[OTHERS]], %[[HALVES]])
// CHECK: %[[FACTOR:.+]] = "blu.divide"(%{{.+}}, %[[SETTLED]]#1)
// CHECK: %[[OF_ROW:.+]] = "blu.reshape"(%[[FACTOR]]) {shape = array<i64: 8, 1>}
// CHECK: %[[SCALE:.+]] = "blu.multiply"(%{{.+}}, %[[OF_ROW]])
// CHECK: %[[WIDE:.+]] = "blu.convert"(%[[SETTLED]]#0) {dtype = f32}
// CHECK: %[[RAW:.+]] = "blu.matmul"(%[[WIDE]], %[[WR]]) {precision = "bf16"}
// CHECK: %[[ROUNDED:.+]] = "blu.reduce_precision"(%[[RAW]])
// CHECK: %[[DX:.+]] = "blu.multiply"(%[[ROUNDED]], %[[SCALE]])
// CHECK-NOT: "blu.reduce_precision"(%[[DX]])
// CHECK: %[[SCALED:.+]] = "blu.multiply"(%[[XR]], %[[SCALE]])
// CHECK: %[[XS:.+]] = "blu.reduce_precision"(%[[SCALED]])
// CHECK: %[[TURNED:.+]] = "blu.transpose"(%[[XS]])
// CHECK: %[[DW:.+]] = "blu.matmul"(%[[TURNED]], %[[WIDE]]) {precision = "bf16"}
// CHECK: return %[[LOSS]], %[[DX]], %[[DW]]
func.func @head(%x: tensor<8x8xf32>, %w: tensor<64x8xf32>, %t: tensor<8xi32>, %g: tensor<8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>, tensor<8x64xf32>) {
  %wr = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false} : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %wt = "blu.transpose"(%wr) {permutation = array<i64: 1, 0>} : (tensor<64x8xf32>) -> tensor<8x64xf32>
  %xr = "blu.reduce_precision"(%x) {dtype = bf16, rounds_gradient = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = "blu.matmul"(%xr, %wt) {precision = "bf16"} : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %pr = "blu.reduce_precision"(%p) {dtype = bf16, rounds_gradient = true} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss = "blu.cross_entropy"(%pr, %t) {ignore_index = -1 : i64} : (tensor<8x64xf32>, tensor<8xi32>) -> tensor<8xf32>
  %again = "blu.barrier"(%pr) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %m = "blu.max"(%again) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
  %d = "blu.subtract"(%again, %m) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %e = "blu.exp"(%d) : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %s = "blu.sum"(%e) {axes = array<i64: 1>, keepdims = true} : (tensor<8x64xf32>) -> tensor<8x1xf32>
  %ignored = "blu.constant"() {value = dense<-1> : tensor<i32>} : () -> tensor<i32>
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %kept = "blu.not_equal"(%t, %ignored) : (tensor<8xi32>, tensor<i32>) -> tensor<8xi1>
  %of_row = "blu.where"(%kept, %g, %zero) : (tensor<8xi1>, tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %share = "blu.reshape"(%of_row) {shape = array<i64: 8, 1>} : (tensor<8xf32>) -> tensor<8x1xf32>
  %classes = "blu.iota"() {axis = 1 : i64, dtype = i32, shape = array<i64: 1, 64>} : () -> tensor<1x64xi32>
  %column = "blu.reshape"(%t) {shape = array<i64: 8, 1>} : (tensor<8xi32>) -> tensor<8x1xi32>
  %at_target = "blu.equal"(%classes, %column) : (tensor<1x64xi32>, tensor<8x1xi32>) -> tensor<8x64xi1>
  %ratio = "blu.divide"(%share, %s) : (tensor<8x1xf32>, tensor<8x1xf32>) -> tensor<8x1xf32>
  %scaled = "blu.multiply"(%e, %ratio) : (tensor<8x64xf32>, tensor<8x1xf32>) -> tensor<8x64xf32>
  %ones = "blu.where"(%at_target, %share, %zero) : (tensor<8x64xi1>, tensor<8x1xf32>, tensor<f32>) -> tensor<8x64xf32>
  %l = "blu.subtract"(%scaled, %ones) : (tensor<8x64xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %lr = "blu.reduce_precision"(%l) {dtype = bf16, rounds_gradient = true} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %dx = "blu.matmul"(%lr, %wr) {precision = "bf16"} : (tensor<8x64xf32>, tensor<64x8xf32>) -> tensor<8x8xf32>
  %dxr = "blu.reduce_precision"(%dx) {dtype = bf16, rounds_gradient = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %xt = "blu.transpose"(%xr) {permutation = array<i64: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %dw = "blu.matmul"(%xt, %lr) {precision = "bf16"} : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  return %loss, %dxr, %dw : tensor<8xf32>, tensor<8x8xf32>, tensor<8x64xf32>
}

// Where there is no gradient, nothing changes.
// CHECK-LABEL: func.func @loss(
// CHECK: "blu.cross_entropy"
func.func @loss(%x: tensor<8x8xf32>, %w: tensor<64x8xf32>, %t: tensor<8xi32>) -> tensor<8xf32> {
  %wr = "blu.reduce_precision"(%w) {dtype = bf16, rounds_gradient = false} : (tensor<64x8xf32>) -> tensor<64x8xf32>
  %wt = "blu.transpose"(%wr) {permutation = array<i64: 1, 0>} : (tensor<64x8xf32>) -> tensor<8x64xf32>
  %xr = "blu.reduce_precision"(%x) {dtype = bf16, rounds_gradient = true} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %p = "blu.matmul"(%xr, %wt) {precision = "bf16"} : (tensor<8x8xf32>, tensor<8x64xf32>) -> tensor<8x64xf32>
  %pr = "blu.reduce_precision"(%p) {dtype = bf16, rounds_gradient = true} : (tensor<8x64xf32>) -> tensor<8x64xf32>
  %loss = "blu.cross_entropy"(%pr, %t) {ignore_index = -1 : i64} : (tensor<8x64xf32>, tensor<8xi32>) -> tensor<8xf32>
  return %loss : tensor<8xf32>
}
