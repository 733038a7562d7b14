// A factor that is to be turned around is so by the kernel that makes its rows, where that adds up columns, too.
// RUN: %blu-opt %s --blu-choose-schedules --blu-copy-factors | %filecheck %s
// RUN: %blu-opt %s --blu-choose-schedules --blu-copy-factors --mlir-pass-statistics -o %t 2>&1 | %filecheck %s --check-prefix=COUNT

// COUNT: blu-copy-factors: 1 factors
// COUNT: blu-copy-factors: 3 factors turned around where they are made
#rows = affine_map<(m, n) -> (m, n)>
#row = affine_map<(m, n) -> (m)>
#range = affine_map<(m, n) -> (m floordiv 64, n)>
module attributes {blu.target = {name = "sm_90a"}} {
  // Nobody reads the rows but the product: they are written as columns only.
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[X:.+]]: tensor<8192x768xf32>, %[[G:.+]]: tensor<8192x3072xf32>)
  // CHECK: %[[MADE:.+]]:2 = call @rows_0_1_turned_0(%[[X]]) : (tensor<8192x768xf32>) -> (tensor<128x768xf32>, tensor<768x8192xf32>)
  // CHECK-NOT: linalg.transpose
  // CHECK: call @gemm_0(%[[MADE]]#1, %[[G]])
  // CHECK: return {{.*}}, %[[MADE]]#0
  func.func @main(%x: tensor<8192x768xf32>, %g: tensor<8192x3072xf32>) -> (tensor<768x3072xf32>, tensor<128x768xf32>) {
    %0:2 = call @rows_0(%x) : (tensor<8192x768xf32>) -> (tensor<8192x768xf32>, tensor<128x768xf32>)
    %1 = tensor.empty() : tensor<768x8192xf32>
    %2 = linalg.transpose ins(%0#0 : tensor<8192x768xf32>) outs(%1 : tensor<768x8192xf32>) permutation = [1, 0]
    %3 = call @gemm_0(%2, %g) : (tensor<768x8192xf32>, tensor<8192x3072xf32>) -> tensor<768x3072xf32>
    return %3, %0#1 : tensor<768x3072xf32>, tensor<128x768xf32>
  }

  // These are somebody's result, and two products share them as columns.
  // CHECK-LABEL: func.func @also_read(
  // CHECK: %[[MADE:.+]]:3 = call @rows_0_0_1_turned_0(
  // CHECK-SAME: -> (tensor<8192x768xf32>, tensor<128x768xf32>, tensor<768x8192xf32>)
  // CHECK: call @gemm_0(%[[MADE]]#2,
  // CHECK: call @gemm_0(%[[MADE]]#2,
  // CHECK: return %[[MADE]]#0
  func.func @also_read(%x: tensor<8192x768xf32>, %g: tensor<8192x3072xf32>, %h: tensor<8192x3072xf32>) -> (tensor<8192x768xf32>, tensor<128x768xf32>, tensor<768x3072xf32>, tensor<768x3072xf32>) {
    %0:2 = call @rows_0(%x) : (tensor<8192x768xf32>) -> (tensor<8192x768xf32>, tensor<128x768xf32>)
    %1 = tensor.empty() : tensor<768x8192xf32>
    %2 = linalg.transpose ins(%0#0 : tensor<8192x768xf32>) outs(%1 : tensor<768x8192xf32>) permutation = [1, 0]
    %3 = call @gemm_0(%2, %g) : (tensor<768x8192xf32>, tensor<8192x3072xf32>) -> tensor<768x3072xf32>
    %4 = call @gemm_0(%2, %h) : (tensor<768x8192xf32>, tensor<8192x3072xf32>) -> tensor<768x3072xf32>
    return %0#0, %0#1, %3, %4 : tensor<8192x768xf32>, tensor<128x768xf32>, tensor<768x3072xf32>, tensor<768x3072xf32>
  }

  // Kernels that add up no columns go from row to row otherwise: a copy turns these around.
  // CHECK-LABEL: func.func @alone(
  // CHECK: %[[ROWS:.+]] = call @rows_1(
  // CHECK: %[[VIEW:.+]] = linalg.transpose ins(%[[ROWS]] :
  // CHECK-NEXT: call @gemm_0_across_1_left(%[[VIEW]])
  func.func @alone(%x: tensor<8192x768xf32>, %g: tensor<8192x3072xf32>) -> tensor<768x3072xf32> {
    %0 = call @rows_1(%x) : (tensor<8192x768xf32>) -> tensor<8192x768xf32>
    %1 = tensor.empty() : tensor<768x8192xf32>
    %2 = linalg.transpose ins(%0 : tensor<8192x768xf32>) outs(%1 : tensor<768x8192xf32>) permutation = [1, 0]
    %3 = call @gemm_0(%2, %g) : (tensor<768x8192xf32>, tensor<8192x3072xf32>) -> tensor<768x3072xf32>
    return %3 : tensor<768x3072xf32>
  }

  // CHECK: func.func private @rows_0_1_turned_0(
  // CHECK: %[[SUMS:.+]] = linalg.generic {{.*}}["reduction", "parallel"]
  // CHECK: %[[TURNED:.+]] = linalg.generic {{.*}} outs({{.+}} : tensor<768x8192xf32>)
  // CHECK: return %[[SUMS]], %[[TURNED]]
  func.func private @rows_0(%x: tensor<8192x768xf32>) -> (tensor<8192x768xf32>, tensor<128x768xf32>) attributes {blu.kernel = "rows"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<8192xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8192xf32>) -> tensor<8192xf32>
    %2 = linalg.generic {indexing_maps = [#rows, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<8192x768xf32>) outs(%1 : tensor<8192xf32>) {
    ^bb0(%in: f32, %out: f32):
      %7 = arith.addf %out, %in : f32
      linalg.yield %7 : f32
    } -> tensor<8192xf32>
    %3 = tensor.empty() : tensor<8192x768xf32>
    %4 = linalg.generic {indexing_maps = [#rows, #row, #rows], iterator_types = ["parallel", "parallel"]} ins(%x, %2 : tensor<8192x768xf32>, tensor<8192xf32>) outs(%3 : tensor<8192x768xf32>) {
    ^bb0(%in: f32, %sum: f32, %out: f32):
      %7 = arith.subf %in, %sum : f32
      linalg.yield %7 : f32
    } -> tensor<8192x768xf32>
    %empty = tensor.empty() : tensor<128x768xf32>
    %5 = linalg.fill ins(%zero : f32) outs(%empty : tensor<128x768xf32>) -> tensor<128x768xf32>
    %6 = linalg.generic {indexing_maps = [#rows, #range], iterator_types = ["reduction", "parallel"]} ins(%4 : tensor<8192x768xf32>) outs(%5 : tensor<128x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      %7 = arith.addf %out, %in : f32
      linalg.yield %7 : f32
    } -> tensor<128x768xf32>
    return %4, %6 : tensor<8192x768xf32>, tensor<128x768xf32>
  }
  func.func private @rows_1(%x: tensor<8192x768xf32>) -> tensor<8192x768xf32> attributes {blu.kernel = "rows"} {
    %0 = tensor.empty() : tensor<8192x768xf32>
    %1 = linalg.generic {indexing_maps = [#rows, #rows], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<8192x768xf32>) outs(%0 : tensor<8192x768xf32>) {
    ^bb0(%in: f32, %out: f32):
      %2 = arith.addf %in, %in : f32
      linalg.yield %2 : f32
    } -> tensor<8192x768xf32>
    return %1 : tensor<8192x768xf32>
  }
  func.func private @gemm_0(%x: tensor<768x8192xf32>, %y: tensor<8192x3072xf32>) -> tensor<768x3072xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<768x3072xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<768x3072xf32>) -> tensor<768x3072xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "tf32"} ins(%x, %y : tensor<768x8192xf32>, tensor<8192x3072xf32>) outs(%1 : tensor<768x3072xf32>) -> tensor<768x3072xf32>
    return %2 : tensor<768x3072xf32>
  }
}
