// Kernels that differ in the numbers of elementwise loops are one, which is told those that differ.
// RUN: %blu-opt %s --blu-share-numbers='fewest-loops=1 fewest-kernels=2' --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --blu-share-numbers='fewest-loops=1' --mlir-print-local-scope | %filecheck %s --check-prefix=FEW

// CHECK-LABEL: func.func @main(
// CHECK-DAG: %[[TWO:.+]] = arith.constant dense<2.000000e+00> : tensor<f32>
// CHECK: %[[A:.+]] = call @rows_0(%{{.+}}, %[[TWO]])
// CHECK: %[[THREE:.+]] = arith.constant dense<3.000000e+00> : tensor<f32>
// CHECK: call @rows_0(%[[A]], %[[THREE]])
// CHECK: call @rows_2(
// CHECK: call @rows_3(
// CHECK: call @rows_4(
// FEW: call @rows_0(%{{[^,]+}}) :
// FEW: call @rows_1(%{{[^,]+}}) :
func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = call @rows_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @rows_1(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = call @rows_2(%1) : (tensor<8xf32>) -> tensor<8xf32>
  %3 = call @rows_3(%2) : (tensor<8xf32>) -> tensor<8xf32>
  %4 = call @rows_4(%3) : (tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func.func private @rows_0(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>, %[[NUMBER:.+]]: tensor<f32>)
// CHECK: %[[HALF:.+]] = arith.constant 5.000000e-01 : f32
// CHECK: linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> ()>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ins(%[[X]], %[[NUMBER]] : tensor<8xf32>, tensor<f32>)
// CHECK: ^bb0(%[[IN:.+]]: f32, %[[ELEMENT:.+]]: f32, %{{.+}}: f32):
// CHECK: %[[PRODUCT:.+]] = arith.mulf %[[IN]], %[[ELEMENT]]
// CHECK: arith.addf %[[PRODUCT]], %[[HALF]]
func.func private @rows_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %a = arith.constant 2.0 : f32
  %b = arith.constant 0.5 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %a : f32
    %3 = arith.addf %2, %b : f32
    linalg.yield %3 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
// CHECK-NOT: @rows_1
func.func private @rows_1(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %a = arith.constant 3.0 : f32
  %b = arith.constant 0.5 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %a : f32
    %3 = arith.addf %2, %b : f32
    linalg.yield %3 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A number that a fill or a function other than arithmetic takes stays in the code.
// CHECK-LABEL: func.func private @rows_2(
// CHECK-SAME: %{{[^,]+}}: tensor<8xf32>)
func.func private @rows_2(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %a = arith.constant 3.0 : f32
  %b = arith.constant 0.5 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = math.powf %in, %a : f32
    %3 = arith.addf %2, %b : f32
    linalg.yield %3 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// Where numbers stand inside of loops, kernels that differ in one of those are others.
// CHECK-LABEL: func.func private @rows_3(
func.func private @rows_3(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %b = arith.constant 5.0 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    // CHECK: arith.constant 2.0
    %a = arith.constant 2.0 : f32
    %2 = arith.mulf %in, %a : f32
    %3 = arith.addf %2, %b : f32
    linalg.yield %3 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
// CHECK-LABEL: func.func private @rows_4(
func.func private @rows_4(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %b = arith.constant 6.0 : f32
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    // CHECK: arith.constant 3.0
    %a = arith.constant 3.0 : f32
    %2 = arith.mulf %in, %a : f32
    %3 = arith.addf %2, %b : f32
    linalg.yield %3 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
