// What windows see of rows stays a view of them, down to the memory that it lies in.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='lower-to-linalg' | %filecheck %s
// RUN: %blu-opt %s --split-input-file --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

// CHECK-LABEL: func.func @places(
// CHECK: "blu.row_windows"(%{{.+}}) {sizes = array<i64: 3, 2>, start = 1 : i64, steps = array<i64: 1, 4>} : (tensor<8x16xf32>) -> tensor<3x2x16xf32>
// MEMORY-LABEL: func.func @places(
// MEMORY: memref.reinterpret_cast %{{.+}} to offset: [16], sizes: [3, 2, 16], strides: [16, 64, 1]
func.func @places(%x: tensor<8x16xf32>) -> tensor<3x2x16xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 3, 2>, steps = array<i64: 1, 4>, start = 1 : i64} : (tensor<8x16xf32>) -> tensor<3x2x16xf32>
  return %0 : tensor<3x2x16xf32>
}

// -----

// Nothing is seen of no rows.
// CHECK-LABEL: func.func @nothing(
// CHECK-NOT: blu.row_windows
// CHECK: linalg.fill
func.func @nothing(%x: tensor<8x16xf32>) -> tensor<0x2x16xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 0, 2>, steps = array<i64: 1, 4>, start = 1 : i64} : (tensor<8x16xf32>) -> tensor<0x2x16xf32>
  return %0 : tensor<0x2x16xf32>
}

// -----

// Rows between which others are dropped are put together by a loop on GPUs, where no product reads them.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='lower-to-linalg{moves-in-loops=true}' | %filecheck %s --check-prefix=LOOPS
// LOOPS-LABEL: func.func @gaps(
// LOOPS-SAME: %[[X:.+]]: tensor<12x4xf32>)
// LOOPS-NOT: blu.row_windows
// LOOPS: linalg.generic {{.*}} outs(%{{.+}} : tensor<2x3x4xf32>)
// LOOPS: tensor.extract %[[X]]
// LOOPS-LABEL: func.func @factor(
// LOOPS: blu.row_windows
func.func @gaps(%x: tensor<12x4xf32>) -> tensor<2x3x4xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 2, 3>, steps = array<i64: 5, 1>, start = 0 : i64} : (tensor<12x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}
func.func @factor(%x: tensor<12x4xf32>, %w: tensor<4x3xf32>) -> tensor<6x3xf32> {
  %0 = "blu.row_windows"(%x) {sizes = array<i64: 2, 3>, steps = array<i64: 5, 1>, start = 0 : i64} : (tensor<12x4xf32>) -> tensor<2x3x4xf32>
  %1 = "blu.reshape"(%0) {shape = array<i64: 6, 4>} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %2 = "blu.matmul"(%1, %w) {precision = "highest"} : (tensor<6x4xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  return %2 : tensor<6x3xf32>
}
