// Of a product of tf32 both of whose factors lie across k, the narrower one is turned around before.
// RUN: %blu-opt %s --blu-choose-schedules --blu-copy-factors | %filecheck %s
// RUN: %blu-opt %s --blu-choose-schedules --blu-copy-factors --mlir-pass-statistics -o %t 2>&1 | %filecheck %s --check-prefix=COUNT

// COUNT: blu-copy-factors: 5 factors
module attributes {blu.target = {name = "sm_90a"}, blu.schedules = {gemm_2 = {kind = "product", copied = "none"}}} {
  // CHECK-LABEL: func.func @main(
  // CHECK-SAME: %[[X:.+]]: tensor<8192x768xf32>, %[[G:.+]]: tensor<8192x3072xf32>, %[[W:.+]]: tensor<768x3072xf32>)
  // CHECK: %[[TURNED:.+]] = linalg.transpose ins(%[[X]] : tensor<8192x768xf32>)
  // CHECK-NEXT: %[[COPY:.+]] = call @gemm_0_left(%[[TURNED]]) : (tensor<768x8192xf32>) -> tensor<768x8192xf32>
  // CHECK-NEXT: call @gemm_0(%[[COPY]], %[[G]])
  // A weight is turned around for many rows, and seen as it was.
  // CHECK: %[[DEEP:.+]] = linalg.transpose ins(%[[W]] : tensor<768x3072xf32>)
  // CHECK-NEXT: %[[COPIED:.+]] = call @gemm_1_right(%[[DEEP]]) : (tensor<3072x768xf32>) -> tensor<3072x768xf32>
  // CHECK: %[[SEEN:.+]] = linalg.transpose ins(%[[COPIED]] : tensor<3072x768xf32>)
  // CHECK-NEXT: call @gemm_1(%[[X]], %[[SEEN]])
  // What others have said stays, and nothing is done for other precisions.
  // CHECK-NEXT: call @gemm_2(%[[X]], %[[W]])
  // CHECK-NEXT: call @gemm_3(%[[X]], %[[W]])
  func.func @main(%x: tensor<8192x768xf32>, %g: tensor<8192x3072xf32>, %w: tensor<768x3072xf32>) -> (tensor<768x3072xf32>, tensor<8192x3072xf32>, tensor<8192x3072xf32>, tensor<8192x3072xf32>) {
    %0 = tensor.empty() : tensor<768x8192xf32>
    %1 = linalg.transpose ins(%x : tensor<8192x768xf32>) outs(%0 : tensor<768x8192xf32>) permutation = [1, 0]
    %2 = call @gemm_0(%1, %g) : (tensor<768x8192xf32>, tensor<8192x3072xf32>) -> tensor<768x3072xf32>
    %3 = call @gemm_1(%x, %w) : (tensor<8192x768xf32>, tensor<768x3072xf32>) -> tensor<8192x3072xf32>
    %4 = call @gemm_2(%x, %w) : (tensor<8192x768xf32>, tensor<768x3072xf32>) -> tensor<8192x3072xf32>
    %5 = call @gemm_3(%x, %w) : (tensor<8192x768xf32>, tensor<768x3072xf32>) -> tensor<8192x3072xf32>
    return %2, %3, %4, %5 : tensor<768x3072xf32>, tensor<8192x3072xf32>, tensor<8192x3072xf32>, tensor<8192x3072xf32>
  }

  // Calls of one kernel share a copier, and those whose factors lie otherwise get a kernel of their own.
  // CHECK-LABEL: func.func @alike(
  // CHECK: call @gemm_1_right(
  // CHECK: call @gemm_1(
  // CHECK: call @gemm_1_across_1(
  func.func @alike(%x: tensor<8192x768xf32>, %w: tensor<768x3072xf32>, %v: tensor<3072x768xf32>) -> (tensor<8192x3072xf32>, tensor<8192x3072xf32>) {
    %0 = call @gemm_1(%x, %w) : (tensor<8192x768xf32>, tensor<768x3072xf32>) -> tensor<8192x3072xf32>
    %1 = tensor.empty() : tensor<768x3072xf32>
    %2 = linalg.transpose ins(%v : tensor<3072x768xf32>) outs(%1 : tensor<768x3072xf32>) permutation = [1, 0]
    %3 = call @gemm_1(%x, %2) : (tensor<8192x768xf32>, tensor<768x3072xf32>) -> tensor<8192x3072xf32>
    return %0, %3 : tensor<8192x3072xf32>, tensor<8192x3072xf32>
  }

  // Warpgroups take rows that begin at multiples of 16 bytes: copies get longer ones, of which the product sees a part.
  // CHECK-LABEL: func.func @unaligned(
  // CHECK-SAME: %[[X:.+]]: tensor<8192x767xf32>, %[[W:.+]]: tensor<767x3072xf32>)
  // CHECK: %[[LONGER:.+]] = tensor.insert_slice %[[X]] into {{.*}} into tensor<8192x768xf32>
  // CHECK-NEXT: %[[LEFT:.+]] = tensor.extract_slice %[[LONGER]][0, 0] [8192, 767]
  // CHECK: %[[DEEP:.+]] = linalg.transpose ins(%[[W]] : tensor<767x3072xf32>)
  // CHECK: %[[LONGER:.+]] = tensor.insert_slice %[[DEEP]] into {{.*}} into tensor<3072x768xf32>
  // CHECK-NEXT: %[[PART:.+]] = tensor.extract_slice %[[LONGER]][0, 0] [3072, 767]
  // CHECK: %[[RIGHT:.+]] = linalg.transpose ins(%[[PART]] : tensor<3072x767xf32>)
  // CHECK-NEXT: call @gemm_4(%[[LEFT]], %[[RIGHT]])
  func.func @unaligned(%x: tensor<8192x767xf32>, %w: tensor<767x3072xf32>) -> tensor<8192x3072xf32> {
    %0 = call @gemm_4(%x, %w) : (tensor<8192x767xf32>, tensor<767x3072xf32>) -> tensor<8192x3072xf32>
    return %0 : tensor<8192x3072xf32>
  }
  func.func private @gemm_4(%x: tensor<8192x767xf32>, %y: tensor<767x3072xf32>) -> tensor<8192x3072xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<8192x3072xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "tf32"} ins(%x, %y : tensor<8192x767xf32>, tensor<767x3072xf32>) outs(%1 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    return %2 : tensor<8192x3072xf32>
  }

  // CHECK-LABEL: func.func private @gemm_0(
  // CHECK-SAME: copied = "left"
  func.func private @gemm_0(%x: tensor<768x8192xf32>, %y: tensor<8192x3072xf32>) -> tensor<768x3072xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<768x3072xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<768x3072xf32>) -> tensor<768x3072xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "tf32"} ins(%x, %y : tensor<768x8192xf32>, tensor<8192x3072xf32>) outs(%1 : tensor<768x3072xf32>) -> tensor<768x3072xf32>
    return %2 : tensor<768x3072xf32>
  }
  // CHECK-LABEL: func.func private @gemm_1(
  // CHECK-SAME: copied = "right"
  func.func private @gemm_1(%x: tensor<8192x768xf32>, %y: tensor<768x3072xf32>) -> tensor<8192x3072xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<8192x3072xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "tf32"} ins(%x, %y : tensor<8192x768xf32>, tensor<768x3072xf32>) outs(%1 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    return %2 : tensor<8192x3072xf32>
  }
  // CHECK-LABEL: func.func private @gemm_2(
  // CHECK-SAME: copied = "none"
  func.func private @gemm_2(%x: tensor<8192x768xf32>, %y: tensor<768x3072xf32>) -> tensor<8192x3072xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<8192x3072xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "tf32"} ins(%x, %y : tensor<8192x768xf32>, tensor<768x3072xf32>) outs(%1 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    return %2 : tensor<8192x3072xf32>
  }
  func.func private @gemm_3(%x: tensor<8192x768xf32>, %y: tensor<768x3072xf32>) -> tensor<8192x3072xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<8192x3072xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<8192x768xf32>, tensor<768x3072xf32>) outs(%1 : tensor<8192x3072xf32>) -> tensor<8192x3072xf32>
    return %2 : tensor<8192x3072xf32>
  }
  // CHECK-LABEL: func.func private @gemm_0_left(
  // CHECK-SAME: blu.kernel = "rows"
  // CHECK: linalg.generic
}
