// What a gradient may not keep is computed again, behind a barrier, right before it is needed.
// RUN: %blu-opt %s --blu-remat | %filecheck %s --check-prefixes=CHECK,MARKED
// RUN: %blu-opt %s --blu-remat=budget=64 | %filecheck %s --check-prefixes=CHECK,BUDGET

// The first two ops are a part that keeps nothing. The third is kept, unless 64 bytes are all there are.
// CHECK-LABEL: func.func @marked
// CHECK-SAME: (%[[X:.*]]: tensor<32xf32>) -> tensor<32xf32> {
// CHECK-NEXT: %[[E:.*]] = "blu.exp"(%[[X]]) : (
// CHECK-NEXT: %[[S:.*]] = "blu.sin"(%[[E]]) : (
// CHECK-NEXT: %[[T:.*]] = "blu.tanh"(%[[S]]) : (
// CHECK-NEXT: %[[B:.*]] = "blu.barrier"(%[[X]])
// CHECK-NEXT: %[[E_AGAIN:.*]] = "blu.exp"(%[[B]])
// MARKED-NEXT: %[[U:.*]] = "blu.multiply"(%[[T]], %[[E_AGAIN]])
// BUDGET-NEXT: %[[S_AGAIN:.*]] = "blu.sin"(%[[E_AGAIN]])
// BUDGET-NEXT: %[[T_AGAIN:.*]] = "blu.tanh"(%[[S_AGAIN]])
// BUDGET-NEXT: %[[U:.*]] = "blu.multiply"(%[[T_AGAIN]], %[[E_AGAIN]])
// CHECK-NEXT: return %[[U]]
func.func @marked(%x: tensor<32xf32>) -> tensor<32xf32> attributes {blu.forward_ops = 3 : i64} {
  %e = "blu.exp"(%x) {blu.checkpoint = {policy = "nothing", region = 0 : i64}} : (tensor<32xf32>) -> tensor<32xf32>
  %s = "blu.sin"(%e) {blu.checkpoint = {policy = "nothing", region = 0 : i64}} : (tensor<32xf32>) -> tensor<32xf32>
  %t = "blu.tanh"(%s) : (tensor<32xf32>) -> tensor<32xf32>
  %u = "blu.multiply"(%t, %e) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %u : tensor<32xf32>
}

// Another part's results are kept, and so is what a policy says.
// CHECK-LABEL: func.func @parts
// CHECK: %[[P:.*]] = "blu.exp"
// CHECK: %[[Q:.*]] = "blu.matmul"
// CHECK: "blu.cos"
// MARKED-NEXT: %[[KEPT_P:.*]] = "blu.barrier"(%[[P]])
// MARKED-NEXT: %[[KEPT_Q:.*]] = "blu.barrier"(%[[Q]])
// MARKED-NEXT: %[[AGAIN:.*]] = "blu.sin"(%[[KEPT_Q]])
// MARKED-NEXT: "blu.multiply"(%[[KEPT_P]], %[[AGAIN]])
func.func @parts(%x: tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xf32>) attributes {blu.forward_ops = 4 : i64} {
  %p = "blu.exp"(%x) {blu.checkpoint = {policy = "everything", region = 0 : i64}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %q = "blu.matmul"(%p, %p) {blu.checkpoint = {policy = "contractions", region = 1 : i64}, precision = "highest"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %s = "blu.sin"(%q) {blu.checkpoint = {policy = "contractions", region = 1 : i64}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %c = "blu.cos"(%s) {blu.checkpoint = {policy = "contractions", region = 1 : i64}} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %u = "blu.multiply"(%p, %s) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %c, %u : tensor<8x8xf32>, tensor<8x8xf32>
}
