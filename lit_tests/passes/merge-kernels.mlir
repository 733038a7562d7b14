// Calls of equal kernels call the first of them; one that a schedule is asked for stays apart, and so does another type.
// RUN: %blu-opt %s --blu-merge-kernels --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK: %[[A:.+]] = call @rows_0(%{{.+}})
// CHECK: %[[B:.+]] = call @rows_0(%[[A]])
// CHECK: %[[C:.+]] = call @rows_2(%[[B]])
// CHECK: call @loops_0(%[[C]])
// CHECK: func.func private @rows_0(
// CHECK-NOT: @rows_1(
// CHECK: func.func private @rows_2(
// CHECK: func.func private @loops_0(
module attributes {blu.schedules = {rows_2 = {kind = "points"}}} {
  func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
    %0 = call @rows_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
    %1 = call @rows_1(%0) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = call @rows_2(%1) : (tensor<8xf32>) -> tensor<8xf32>
    %3 = call @loops_0(%2) : (tensor<8xf32>) -> tensor<8xf32>
    return %3 : tensor<8xf32>
  }
  func.func private @rows_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
    %0 = math.exp %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @rows_1(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
    %0 = math.exp %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @rows_2(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
    %0 = math.exp %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
  func.func private @loops_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "loops"} {
    %0 = math.exp %x : tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
