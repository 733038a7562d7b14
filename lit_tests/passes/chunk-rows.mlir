// A product that is too large is formed some rows at a time, with all that is computed from it row by row.
// RUN: %blu-opt %s --blu-chunk-rows=largest-bytes=256 | %filecheck %s

// Of 8 rows of 16 numbers there are 4 at a time. What is the same for all rows is behind a barrier for each part.
// CHECK-LABEL: func.func @head(
// CHECK-SAME: %[[X:.+]]: tensor<8x2xf32>, %[[W:.+]]: tensor<2x16xf32>, %[[T:.+]]: tensor<8xi32>)
// CHECK-NEXT: %[[XT:.+]] = "blu.transpose"(%[[X]])
// CHECK-NEXT: %[[X_A:.+]] = "blu.barrier"(%[[X]])
// CHECK-NEXT: %[[FIRST:.+]] = "blu.slice"(%[[X_A]]) {limits = array<i64: 4, 2>, starts = array<i64: 0, 0>
// CHECK-NEXT: %[[W_A:.+]] = "blu.barrier"(%[[W]])
// CHECK-NEXT: %[[P_A:.+]] = "blu.matmul"(%[[FIRST]], %[[W_A]]) {precision = "highest"} : {{.*}} -> tensor<4x16xf32>
// CHECK: %[[LOSS_A:.+]] = "blu.cross_entropy"(%[[P_A]], %{{.+}}) {ignore_index = -1 : i64}
// CHECK: %[[E_A:.+]] = "blu.exp"(%[[P_A]])
// CHECK: %[[S_A:.+]] = "blu.sum"(%[[E_A]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[D_A:.+]] = "blu.divide"(%[[E_A]], %[[S_A]])
// CHECK: %[[DW_A:.+]] = "blu.matmul"(%{{.+}}, %[[D_A]]) {precision = "highest"} : (tensor<2x4xf32>, tensor<4x16xf32>)
// CHECK: "blu.slice"({{.+}}) {limits = array<i64: 8, 2>, starts = array<i64: 4, 0>
// CHECK: %[[P_B:.+]] = "blu.matmul"
// CHECK: %[[LOSS_B:.+]] = "blu.cross_entropy"(%[[P_B]],
// CHECK: %[[D_B:.+]] = "blu.divide"
// CHECK: %[[DW_B:.+]] = "blu.matmul"(%{{.+}}, %[[D_B]])
// CHECK: %[[DW:.+]] = "blu.add"(%[[DW_A]], %[[DW_B]])
// CHECK: %[[LOSSES:.+]] = "blu.concatenate"(%[[LOSS_A]], %[[LOSS_B]]) {axis = 0 : i64
// CHECK: %[[LOSS:.+]] = "blu.sum"(%[[LOSSES]])
// CHECK: return %[[LOSS]], %[[DW]]
func.func @head(%x: tensor<8x2xf32>, %w: tensor<2x16xf32>, %t: tensor<8xi32>) -> (tensor<f32>, tensor<2x16xf32>) {
  %p = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x2xf32>, tensor<2x16xf32>) -> tensor<8x16xf32>
  %losses = "blu.cross_entropy"(%p, %t) {ignore_index = -1 : i64} : (tensor<8x16xf32>, tensor<8xi32>) -> tensor<8xf32>
  %loss = "blu.sum"(%losses) {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
  %e = "blu.exp"(%p) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %s = "blu.sum"(%e) {axes = array<i64: 1>, keepdims = true} : (tensor<8x16xf32>) -> tensor<8x1xf32>
  %d = "blu.divide"(%e, %s) : (tensor<8x16xf32>, tensor<8x1xf32>) -> tensor<8x16xf32>
  %xt = "blu.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %dw = "blu.matmul"(%xt, %d) {precision = "highest"} : (tensor<2x8xf32>, tensor<8x16xf32>) -> tensor<2x16xf32>
  return %loss, %dw : tensor<f32>, tensor<2x16xf32>
}

// What mixes rows is left whole.
// CHECK-LABEL: func.func @across_rows(
// CHECK: "blu.matmul"({{.+}} -> tensor<8x16xf32>
// CHECK-NEXT: "blu.cumsum"
// CHECK-NEXT: return
func.func @across_rows(%x: tensor<8x2xf32>, %w: tensor<2x16xf32>) -> tensor<8x16xf32> {
  %p = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x2xf32>, tensor<2x16xf32>) -> tensor<8x16xf32>
  %c = "blu.cumsum"(%p) {axis = 0 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %c : tensor<8x16xf32>
}

// A sum over rows of which the other factor has the rows first: it is cut there.
// CHECK-LABEL: func.func @rows_first(
// CHECK-SAME: %[[X:.+]]: tensor<8x2xf32>, %[[W:.+]]: tensor<2x16xf32>)
// CHECK: %[[E_A:.+]] = "blu.exp"({{.+}} -> tensor<4x16xf32>
// CHECK: %[[T_A:.+]] = "blu.transpose"(%[[E_A]])
// CHECK: %[[X_A:.+]] = "blu.slice"({{.+}}) {limits = array<i64: 4, 2>, starts = array<i64: 0, 0>
// CHECK: %[[D_A:.+]] = "blu.matmul"(%[[T_A]], %[[X_A]]) {precision = "highest"} : (tensor<16x4xf32>, tensor<4x2xf32>)
// CHECK: %[[E_B:.+]] = "blu.exp"({{.+}} -> tensor<4x16xf32>
// CHECK: %[[T_B:.+]] = "blu.transpose"(%[[E_B]])
// CHECK: %[[X_B:.+]] = "blu.slice"({{.+}}) {limits = array<i64: 8, 2>, starts = array<i64: 4, 0>
// CHECK: %[[D_B:.+]] = "blu.matmul"(%[[T_B]], %[[X_B]])
// CHECK: %[[D:.+]] = "blu.add"(%[[D_A]], %[[D_B]])
// CHECK: return %[[D]]
func.func @rows_first(%x: tensor<8x2xf32>, %w: tensor<2x16xf32>) -> tensor<16x2xf32> {
  %p = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<8x2xf32>, tensor<2x16xf32>) -> tensor<8x16xf32>
  %e = "blu.exp"(%p) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %t = "blu.transpose"(%e) {permutation = array<i64: 1, 0>} : (tensor<8x16xf32>) -> tensor<16x8xf32>
  %d = "blu.matmul"(%t, %x) {precision = "highest"} : (tensor<16x8xf32>, tensor<8x2xf32>) -> tensor<16x2xf32>
  return %d : tensor<16x2xf32>
}
