// A sum of products is written over what was added up before, where nobody reads that again.
// RUN: %blu-opt %s --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse,blu-pair-donations,blu-bufferize{over-operands=true}' --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse,blu-pair-donations,blu-bufferize' --mlir-print-local-scope | %filecheck %s --check-prefix=APART

// CHECK-LABEL: func.func @added_up(
// CHECK: call @gemm_0(%{{.+}}, %{{.+}}, %[[FIRST:.+]]) :
// CHECK: call @gemm_1(%{{.+}}, %{{.+}}, %[[FIRST]], %[[FIRST]]) :
// CHECK: call @loops_0(%[[FIRST]],
// APART-LABEL: func.func @added_up(
// APART: call @gemm_0(%{{.+}}, %{{.+}}, %[[FIRST:.+]]) :
// APART-NOT: call @gemm_1(%{{.+}}, %{{.+}}, %[[FIRST]], %[[FIRST]])
// APART: return
func.func @added_up(%a: tensor<8x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x4xf32>, %d: tensor<4x8xf32>) -> tensor<8xf32> {
  %0 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %1 = "blu.matmul"(%c, %d) {precision = "highest"} : (tensor<8x4xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %2 = "blu.add"(%0, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "blu.sum"(%2) {axes = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// Read later, across, or as a factor: the result has memory of its own.
// CHECK-LABEL: func.func @read_later(
// CHECK: call @gemm_{{.+}}(%{{.+}}, %{{.+}}, %[[KEPT:.+]]) :
// CHECK-NOT: %[[KEPT]], %[[KEPT]])
// CHECK: return
func.func @read_later(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "blu.matmul"(%b, %a) {precision = "highest"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "blu.add"(%0, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "blu.sum"(%2) {axes = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  %4 = "blu.sum"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %3, %4 : tensor<8xf32>, tensor<8xf32>
}

// CHECK-LABEL: func.func @factor(
// CHECK: call @gemm_{{.+}}(%{{.+}}, %{{.+}}, %[[FACTOR:.+]]) :
// CHECK-NOT: %[[FACTOR]])
// CHECK: return
func.func @factor(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> tensor<8xf32> {
  %0 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = "blu.matmul"(%0, %a) {precision = "highest"} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = "blu.add"(%0, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %3 = "blu.sum"(%2) {axes = array<i64: 0>, keepdims = false} : (tensor<8x8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}
