// Loops count for themselves in place of reading 0, 1, 2, .. from memory.
// RUN: %blu-opt %s --split-input-file --blu-fold-counters --mlir-print-local-scope | %filecheck %s

// The second loop is the one that the numbers went along.
// CHECK-LABEL: func.func @one_hot(
// CHECK-SAME: %[[T:.+]]: tensor<4xi32>)
// CHECK-NOT: tensor<8xi32>)
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], {{.*}}} ins(%[[T]] : tensor<4xi32>)
// CHECK-NEXT: ^bb0(%[[WANTED:.+]]: i32, %{{.+}}: i1):
// CHECK-NEXT: %[[J:.+]] = linalg.index 1 : index
// CHECK-NEXT: %[[WIDE:.+]] = arith.index_cast %[[J]] : index to i64
// CHECK-NEXT: %[[COUNT:.+]] = arith.trunci %[[WIDE]] : i64 to i32
// CHECK-NEXT: arith.cmpi eq, %[[WANTED]], %[[COUNT]] : i32
// CHECK-NOT: linalg.index
func.func @one_hot(%t: tensor<4xi32>) -> tensor<4x8xi1> {
  %0 = tensor.empty() : tensor<8xi32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%0 : tensor<8xi32>) {
  ^bb0(%out: i32):
    %i = linalg.index 0 : index
    %wide = arith.index_cast %i : index to i64
    %number = arith.trunci %wide : i64 to i32
    linalg.yield %number : i32
  } -> tensor<8xi32>
  %2 = tensor.empty() : tensor<4x8xi1>
  %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%t, %1 : tensor<4xi32>, tensor<8xi32>) outs(%2 : tensor<4x8xi1>) {
  ^bb0(%a: i32, %b: i32, %out: i1):
    %4 = arith.cmpi eq, %a, %b : i32
    linalg.yield %4 : i1
  } -> tensor<4x8xi1>
  return %3 : tensor<4x8xi1>
}

// -----

// What depends on data as well is no counting.
// CHECK-LABEL: func.func @shifted(
// CHECK-SAME: %[[X:.+]]: tensor<8xi64>)
// CHECK: %[[STORED:.+]] = linalg.generic {{.*}} ins(%[[X]] : tensor<8xi64>)
// CHECK: linalg.index 0
// CHECK: linalg.generic {{.*}} ins(%[[X]], %[[STORED]] : tensor<8xi64>, tensor<8xi64>)
// CHECK-NOT: linalg.index
// CHECK: return
func.func @shifted(%x: tensor<8xi64>) -> tensor<8xi64> {
  %0 = tensor.empty() : tensor<8xi64>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xi64>) outs(%0 : tensor<8xi64>) {
  ^bb0(%a: i64, %out: i64):
    %i = linalg.index 0 : index
    %number = arith.index_cast %i : index to i64
    %sum = arith.addi %a, %number : i64
    linalg.yield %sum : i64
  } -> tensor<8xi64>
  %2 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %1 : tensor<8xi64>, tensor<8xi64>) outs(%0 : tensor<8xi64>) {
  ^bb0(%a: i64, %b: i64, %out: i64):
    %3 = arith.muli %a, %b : i64
    linalg.yield %3 : i64
  } -> tensor<8xi64>
  return %2 : tensor<8xi64>
}

// -----

// A loop whose extent only the numbers say must go on reading them.
// CHECK-LABEL: func.func @alone(
// CHECK: %[[NUMBERS:.+]] = linalg.generic
// CHECK: linalg.generic {{.*}} ins(%[[NUMBERS]] : tensor<8xi64>)
func.func @alone() -> tensor<i64> {
  %zero = arith.constant 0 : i64
  %0 = tensor.empty() : tensor<8xi64>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%0 : tensor<8xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %number = arith.index_cast %i : index to i64
    linalg.yield %number : i64
  } -> tensor<8xi64>
  %2 = tensor.empty() : tensor<i64>
  %3 = linalg.fill ins(%zero : i64) outs(%2 : tensor<i64>) -> tensor<i64>
  %4 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]} ins(%1 : tensor<8xi64>) outs(%3 : tensor<i64>) {
  ^bb0(%a: i64, %b: i64):
    %5 = arith.addi %b, %a : i64
    linalg.yield %5 : i64
  } -> tensor<i64>
  return %4 : tensor<i64>
}

// -----

// A place along several dimensions in one is no number of one of them.
// CHECK-LABEL: func.func @repeated(
// CHECK: %[[NUMBERS:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<4x2xi64>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[NUMBERS]]
// CHECK: linalg.generic {{.*}} ins(%[[FLAT]], %{{.+}} : tensor<8xi64>, tensor<8xi64>)
// CHECK-NOT: linalg.index
// CHECK: return
func.func @repeated(%x: tensor<8xi64>) -> tensor<8xi64> {
  %0 = tensor.empty() : tensor<4x2xi64>
  %1 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%0 : tensor<4x2xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %number = arith.index_cast %i : index to i64
    linalg.yield %number : i64
  } -> tensor<4x2xi64>
  %flat = tensor.collapse_shape %1 [[0, 1]] : tensor<4x2xi64> into tensor<8xi64>
  %2 = tensor.empty() : tensor<8xi64>
  %3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%flat, %x : tensor<8xi64>, tensor<8xi64>) outs(%2 : tensor<8xi64>) {
  ^bb0(%a: i64, %b: i64, %out: i64):
    %4 = arith.addi %a, %b : i64
    linalg.yield %4 : i64
  } -> tensor<8xi64>
  return %3 : tensor<8xi64>
}
