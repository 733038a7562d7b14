// Kernels of processors that need more memory than a stack should hold say so, and bufferization gives it to them.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-choose-cpu-schedules,blu-reserve-scratch' | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-choose-cpu-schedules,blu-reserve-scratch,blu-bufferize' | %filecheck %s --check-prefix=PLACED
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-choose-cpu-schedules,blu-reserve-scratch' --mlir-pass-statistics -o %t 2>&1 | %filecheck %s --check-prefix=COUNT

// COUNT: blu-reserve-scratch: 5 buffers

// A long row is sorted in two rows of keys and of their positions; few keys stay in registers.
// CHECK: func.func private @argsort_0({{.*}}) -> tensor<3x300xi64> attributes {blu.kernel = "argsort", blu.schedule = {blocks = 1 : i64, kind = "radix"}, blu.scratch = [memref<1x600xi8>, memref<1x600xi32>]}
// CHECK: func.func private @argsort_1({{.*}}) -> tensor<2x8xi64> attributes {blu.kernel = "argsort", blu.schedule = {blocks = 1 : i64, kind = "insertion"}} {
// The pieces of a row that several threads walk hand their sums on.
// CHECK: func.func private @scan_0({{.*}}) -> tensor<1x65536xf32> attributes {blu.kernel = "scan", blu.schedule = {kind = "scan_pieces", length = {{[0-9]+}} : i64}, blu.scratch = [memref<1x[[PIECES:[0-9]+]]xf32>]}
// Halves that meet in one row are added up in f32: which update is the last of its row, and where each goes on.
// CHECK: func.func private @scatter_add_0({{.*}}) -> tensor<10x4xf16> attributes {blu.kernel = "scatter_add", blu.scratch = [memref<10xindex>, memref<6xindex>]}

module attributes {blu.target = {name = "x86-64-v3"}} {
// The memory comes behind what a kernel reads and writes.
// PLACED-LABEL: func.func @main(
// PLACED: %[[MOVING:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<1x600xi8>
// PLACED: %[[PLACES:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<1x600xi32>
// PLACED: call @argsort_0(%{{.+}}, %{{.+}}, %[[MOVING]], %[[PLACES]])
// PLACED: call @argsort_1(%{{[^,]+}}, %{{[^,]+}}) :
  func.func @main(%x: tensor<3x300xui8>, %y: tensor<2x8xui8>, %z: tensor<1x65536xf32>, %table: tensor<10x4xf16>, %rows: tensor<6xi32>, %updates: tensor<6x4xf16>) -> (tensor<3x300xi64>, tensor<2x8xi64>, tensor<1x65536xf32>, tensor<10x4xf16>) {
    %0 = "blu.argsort"(%x) {axis = 1 : i64, descending = false} : (tensor<3x300xui8>) -> tensor<3x300xi64>
    %1 = "blu.argsort"(%y) {axis = 1 : i64, descending = false} : (tensor<2x8xui8>) -> tensor<2x8xi64>
    %2 = "blu.cumsum"(%z) {axis = 1 : i64} : (tensor<1x65536xf32>) -> tensor<1x65536xf32>
    %3 = "blu.scatter_add"(%table, %rows, %updates) {axis = 0 : i64} : (tensor<10x4xf16>, tensor<6xi32>, tensor<6x4xf16>) -> tensor<10x4xf16>
    return %0, %1, %2, %3 : tensor<3x300xi64>, tensor<2x8xi64>, tensor<1x65536xf32>, tensor<10x4xf16>
  }
}
