// Where windows find their largest elements, what goes back there, and these elements are loops that read by index.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='lower-to-linalg' --mlir-print-local-scope | %filecheck %s

// A window of three sees the padding before the first element: it reads another one, and does not take it.
// CHECK-LABEL: func.func @max_pool_place(
// CHECK-SAME: %[[X:.+]]: tensor<2x5x4xf32>)
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<2x3x4xi8>)
// CHECK-COUNT-3: tensor.extract %[[X]]
// CHECK: linalg.yield %{{.+}} : i8
func.func @max_pool_place(%x: tensor<2x5x4xf32>) -> tensor<2x3x4xui8> {
  %0 = "blu.max_pool_place"(%x) {window = array<i64: 3>, strides = array<i64: 2>, low = array<i64: 1>, high = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x5x4xf32>) -> tensor<2x3x4xui8>
  return %0 : tensor<2x3x4xui8>
}

// -----

// Two windows of three that begin two elements apart see an element.
// CHECK-LABEL: func.func @max_pool_gradient(
// CHECK-SAME: %[[G:.+]]: tensor<2x3x4xbf16>, %[[PLACE:.+]]: tensor<2x3x4xi8>)
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<2x5x4xbf16>)
// CHECK: tensor.extract %[[PLACE]]
// CHECK: tensor.extract %[[G]]
// CHECK: tensor.extract %[[PLACE]]
// CHECK: tensor.extract %[[G]]
// CHECK-NOT: tensor.extract
// CHECK: arith.truncf
func.func @max_pool_gradient(%g: tensor<2x3x4xbf16>, %place: tensor<2x3x4xui8>) -> tensor<2x5x4xbf16> {
  %0 = "blu.max_pool_gradient"(%g, %place) {sizes = array<i64: 5>, window = array<i64: 3>, strides = array<i64: 2>, low = array<i64: 1>, high = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x3x4xbf16>, tensor<2x3x4xui8>) -> tensor<2x5x4xbf16>
  return %0 : tensor<2x5x4xbf16>
}

// -----

// Padding is never the largest, whatever is read in its place.
// CHECK-LABEL: func.func @max_pool(
// CHECK-SAME: %[[X:.+]]: tensor<2x5x4xbf16>)
// CHECK: linalg.generic {{.*}} outs(%{{.+}} : tensor<2x3x4xbf16>)
// CHECK-COUNT-3: arith.maximumf
// CHECK-NOT: arith.maximumf
// CHECK: arith.truncf
func.func @max_pool(%x: tensor<2x5x4xbf16>) -> tensor<2x3x4xbf16> {
  %0 = "blu.max_pool"(%x) {window = array<i64: 3>, strides = array<i64: 2>, low = array<i64: 1>, high = array<i64: 1>, dilation = array<i64: 1>} : (tensor<2x5x4xbf16>) -> tensor<2x3x4xbf16>
  return %0 : tensor<2x3x4xbf16>
}
