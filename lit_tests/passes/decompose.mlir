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

// COUNT: blu-decompose: 2 ops decomposed
func.func @main(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.softmax"(%x) {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("h.0.attn"("model.py":3:1))
  %1 = "blu.silu"(%0) : (tensor<3x4xf32>) -> tensor<3x4xf32> loc("model.py":4:1)
  return %1 : tensor<3x4xf32>
}
