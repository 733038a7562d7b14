// A product whose k is split among blocks leaves its parts, and another kernel adds them.
// RUN: %blu-opt %s --blu-choose-schedules --blu-split-products | %filecheck %s

module attributes {blu.target = {name = "sm_80"}} {
  // CHECK-LABEL: func.func @long(
  // CHECK-SAME: %[[X:.+]]: tensor<24x2100xf32>, %[[Y:.+]]: tensor<2100x40xf32>)
  // CHECK-NEXT: %[[PARTS:.+]] = call @gemm_0(%[[X]], %[[Y]]) : (tensor<24x2100xf32>, tensor<2100x40xf32>) -> tensor<[[COUNT:[0-9]+]]x24x40xf32>
  // CHECK-NEXT: %[[PART:.+]] = tensor.extract_slice %[[PARTS]][0, 0, 0] [1, 24, 40] [1, 1, 1]
  // CHECK-NEXT: %[[FIRST:.+]] = tensor.collapse_shape %[[PART]] {{\[\[}}0, 1, 2]] : tensor<1x24x40xf32> into tensor<960xf32>
  // CHECK-NEXT: tensor.extract_slice %[[PARTS]][1, 0, 0] [1, 24, 40] [1, 1, 1]
  // CHECK: %[[SUM:.+]] = call @gemm_0_sum(%[[FIRST]], {{.+}}) : ({{.+}}) -> tensor<960xf32>
  // CHECK-NEXT: %[[RESULT:.+]] = tensor.expand_shape %[[SUM]] {{\[\[}}0, 1]] output_shape [24, 40]
  // CHECK-NEXT: return %[[RESULT]]
  func.func @long(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>) -> tensor<24x40xf32> {
    %0 = call @gemm_0(%x, %y) : (tensor<24x2100xf32>, tensor<2100x40xf32>) -> tensor<24x40xf32>
    return %0 : tensor<24x40xf32>
  }

  // CHECK-LABEL: func.func private @gemm_0(
  // CHECK: %[[TOTAL:.+]] = linalg.contract
  // CHECK-NEXT: %[[LEFT:.+]] = "plan.parts"(%[[TOTAL]]) : (tensor<24x40xf32>) -> tensor<[[COUNT]]x24x40xf32>
  // CHECK-NEXT: return %[[LEFT]]
  func.func private @gemm_0(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>) -> tensor<24x40xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<24x40xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x40xf32>) -> tensor<24x40xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<24x2100xf32>, tensor<2100x40xf32>) outs(%1 : tensor<24x40xf32>) -> tensor<24x40xf32>
    return %2 : tensor<24x40xf32>
  }

  // Where k is far longer than rows and columns, what is fused to the product is done with the sum of its parts.
  // CHECK-LABEL: func.func @scaled(
  // CHECK-SAME: %[[X:.+]]: tensor<24x2100xf32>, %[[Y:.+]]: tensor<2100x40xf32>, %[[W:.+]]: tensor<24xf32>)
  // CHECK-NEXT: %[[PARTS:.+]] = call @gemm_4(%[[X]], %[[Y]]) : ({{.+}}) -> tensor<[[COUNT]]x24x40xf32>
  // CHECK-NEXT: %[[PART:.+]] = tensor.extract_slice %[[PARTS]][0, 0, 0] [1, 24, 40] [1, 1, 1]
  // CHECK-NEXT: %[[FIRST:.+]] = tensor.collapse_shape %[[PART]] {{\[\[}}0, 1], [2]] : tensor<1x24x40xf32> into tensor<24x40xf32>
  // CHECK: %[[SUM:.+]] = call @gemm_4_sum(%[[FIRST]], {{.+}}, %[[W]]) : ({{.+}}, tensor<24xf32>) -> tensor<24x40xf32>
  // CHECK-NEXT: return %[[SUM]]
  func.func @scaled(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>, %w: tensor<24xf32>) -> tensor<24x40xf32> {
    %0 = call @gemm_4(%x, %y, %w) : (tensor<24x2100xf32>, tensor<2100x40xf32>, tensor<24xf32>) -> tensor<24x40xf32>
    return %0 : tensor<24x40xf32>
  }

  // CHECK-LABEL: func.func private @gemm_4(
  // CHECK-NOT: linalg.generic
  // CHECK: return %{{.+}} : tensor<[[COUNT]]x24x40xf32>
  func.func private @gemm_4(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>, %w: tensor<24xf32>) -> tensor<24x40xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<24x40xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x40xf32>) -> tensor<24x40xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<24x2100xf32>, tensor<2100x40xf32>) outs(%1 : tensor<24x40xf32>) -> tensor<24x40xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%2, %w : tensor<24x40xf32>, tensor<24xf32>) outs(%0 : tensor<24x40xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %4 = arith.mulf %a, %b : f32
      linalg.yield %4 : f32
    } -> tensor<24x40xf32>
    return %3 : tensor<24x40xf32>
  }

  // Where more is fused to another product, or k is short, one kernel does it all. The same if the result is only seen
  // transposed: it is written so at once.
  // CHECK-LABEL: func.func @others(
  // CHECK-NEXT: call @gemm_1(%{{.+}}, %{{.+}}) : (tensor<24x2100xf32>, tensor<2100x400xf32>) -> tensor<24x400xf32>
  // CHECK-NEXT: call @gemm_2(%{{.+}}, %{{.+}}) : (tensor<24x400xf32>, tensor<400x24xf32>) -> tensor<24x24xf32>
  // CHECK-NEXT: call @gemm_3(%{{.+}}, %{{.+}}) : (tensor<24x2100xf32>, tensor<2100x40xf32>) -> tensor<24x40xf32>
  // CHECK: linalg.transpose
  func.func @others(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>, %v: tensor<2100x400xf32>, %z: tensor<400x24xf32>) -> (tensor<24x24xf32>, tensor<40x24xf32>) {
    %0 = call @gemm_1(%x, %v) : (tensor<24x2100xf32>, tensor<2100x400xf32>) -> tensor<24x400xf32>
    %1 = call @gemm_2(%0, %z) : (tensor<24x400xf32>, tensor<400x24xf32>) -> tensor<24x24xf32>
    %2 = call @gemm_3(%x, %y) : (tensor<24x2100xf32>, tensor<2100x40xf32>) -> tensor<24x40xf32>
    %empty = tensor.empty() : tensor<40x24xf32>
    %3 = linalg.transpose ins(%2 : tensor<24x40xf32>) outs(%empty : tensor<40x24xf32>) permutation = [1, 0]
    return %1, %3 : tensor<24x24xf32>, tensor<40x24xf32>
  }
  func.func private @gemm_1(%x: tensor<24x2100xf32>, %y: tensor<2100x400xf32>) -> tensor<24x400xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<24x400xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x400xf32>) -> tensor<24x400xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<24x2100xf32>, tensor<2100x400xf32>) outs(%1 : tensor<24x400xf32>) -> tensor<24x400xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%2 : tensor<24x400xf32>) outs(%0 : tensor<24x400xf32>) {
    ^bb0(%a: f32, %b: f32):
      %4 = math.exp %a : f32
      linalg.yield %4 : f32
    } -> tensor<24x400xf32>
    return %3 : tensor<24x400xf32>
  }
  func.func private @gemm_2(%x: tensor<24x400xf32>, %y: tensor<400x24xf32>) -> tensor<24x24xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<24x24xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x24xf32>) -> tensor<24x24xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<24x400xf32>, tensor<400x24xf32>) outs(%1 : tensor<24x24xf32>) -> tensor<24x24xf32>
    return %2 : tensor<24x24xf32>
  }
  func.func private @gemm_3(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>) -> tensor<24x40xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<24x40xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x40xf32>) -> tensor<24x40xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<24x2100xf32>, tensor<2100x40xf32>) outs(%1 : tensor<24x40xf32>) -> tensor<24x40xf32>
    return %2 : tensor<24x40xf32>
  }

  // What reads as much again as the product is does so in the kernel.
  // CHECK-LABEL: func.func @added(
  // CHECK-NEXT: call @gemm_5(%{{.+}}, %{{.+}}, %{{.+}}) : {{.+}} -> tensor<24x40xf32>
  // CHECK-NEXT: return
  func.func @added(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>, %w: tensor<24x40xf32>) -> tensor<24x40xf32> {
    %0 = call @gemm_5(%x, %y, %w) : (tensor<24x2100xf32>, tensor<2100x40xf32>, tensor<24x40xf32>) -> tensor<24x40xf32>
    return %0 : tensor<24x40xf32>
  }
  func.func private @gemm_5(%x: tensor<24x2100xf32>, %y: tensor<2100x40xf32>, %w: tensor<24x40xf32>) -> tensor<24x40xf32> attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = tensor.empty() : tensor<24x40xf32>
    %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<24x40xf32>) -> tensor<24x40xf32>
    %2 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%x, %y : tensor<24x2100xf32>, tensor<2100x40xf32>) outs(%1 : tensor<24x40xf32>) -> tensor<24x40xf32>
    %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%2, %w : tensor<24x40xf32>, tensor<24x40xf32>) outs(%0 : tensor<24x40xf32>) {
    ^bb0(%a: f32, %b: f32, %c: f32):
      %4 = arith.mulf %a, %b : f32
      linalg.yield %4 : f32
    } -> tensor<24x40xf32>
    return %3 : tensor<24x40xf32>
  }

  // CHECK-LABEL: func.func private @gemm_4_sum(
  // CHECK: %[[TOTAL:.+]] = linalg.generic {{.+}}
  // CHECK: arith.addf
  // CHECK: linalg.generic
  // CHECK-SAME: ins(%[[TOTAL]], %{{.+}} : tensor<24x40xf32>, tensor<24xf32>)
  // CHECK: arith.mulf
}
