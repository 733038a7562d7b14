// Composite ops become simpler ones, again and again; what a kernel takes whole can be kept. Locations stay.
// RUN: %blu-opt %s --blu-decompose --mlir-print-debuginfo --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --blu-decompose=keep=attention+softmax | %filecheck %s --check-prefix=KEPT
// RUN: %blu-opt %s --blu-decompose --mlir-pass-statistics -o %t 2>&1 | %filecheck %s --check-prefix=COUNT

// CHECK-LABEL: func.func @main
// CHECK-NOT: blu.softmax
// CHECK: "blu.max"{{.*}} loc("h.0.attn"("model.py":3:1))
// CHECK: "blu.exp"{{.*}} loc("h.0.attn"("model.py":3:1))
// CHECK: "blu.sum"{{.*}} loc("h.0.attn"("model.py":3:1))
// CHECK-NOT: blu.silu
// CHECK: "blu.sigmoid"{{.*}} loc("model.py":4:1)
// CHECK: "blu.multiply"{{.*}} loc("model.py":4:1)
// CHECK: return

// KEPT: "blu.softmax"
// KEPT-NOT: blu.silu
// KEPT: "blu.sigmoid"

// COUNT: blu-decompose: 5 ops decomposed
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.softmax"(%x) {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("h.0.attn"("model.py":3:1))
  %1 = "blu.silu"(%0) : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("model.py":4:1)
  return %1 : tensor<3x4xf32>
}

// What is to be kept is so where kernels can take it: windows that overlap, of few places.
// RUN: %blu-opt %s --blu-decompose=keep=max_pool | %filecheck %s --check-prefix=WINDOWS
// WINDOWS-LABEL: func.func @windows
// WINDOWS-COUNT-1: "blu.max_pool"
// WINDOWS-NOT: "blu.max_pool"
// WINDOWS: return
func.func @windows(%x: tensor<2x90x4xf32>) -> (tensor<2x89x4xf32>, tensor<2x45x4xf32>, tensor<2x51x4xf32>) {
  %0 = "blu.max_pool"(%x) {window = array<i64: 2>, strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x90x4xf32>) -> tensor<2x89x4xf32>
  %1 = "blu.max_pool"(%x) {window = array<i64: 2>, strides = array<i64: 2>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x90x4xf32>) -> tensor<2x45x4xf32>
  %2 = "blu.max_pool"(%x) {window = array<i64: 40>, strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilation = array<i64: 1>} : (tensor<2x90x4xf32>) -> tensor<2x51x4xf32>
  return %0, %1, %2 : tensor<2x89x4xf32>, tensor<2x45x4xf32>, tensor<2x51x4xf32>
}
