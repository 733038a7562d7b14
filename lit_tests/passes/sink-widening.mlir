// Widenings move into the loops that read them; products and roundings take the half itself.
// RUN: %blu-opt %s --blu-sink-widening | %filecheck %s

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// CHECK-LABEL: func.func @through_views
// CHECK-SAME: (%[[X:.*]]: tensor<6x4xbf16>)
// CHECK-NEXT: %[[SEEN:.*]] = tensor.expand_shape %[[X]] {{.*}} : tensor<6x4xbf16> into tensor<2x3x4xbf16>
// CHECK-NEXT: %[[SLICE:.*]] = tensor.extract_slice %[[SEEN]]{{.*}} : tensor<2x3x4xbf16> to tensor<3x4xbf16>
// CHECK: linalg.generic {{.*}} ins(%[[SLICE]] : tensor<3x4xbf16>)
// CHECK-NEXT: ^bb0(%[[IN:.*]]: bf16, %{{.*}}: f32):
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[IN]] : bf16 to f32
// CHECK-NEXT: math.exp %[[WIDE]] : f32
func.func @through_views(%x: tensor<6x4xbf16>) -> tensor<3x4xf32> {
  %0 = tensor.empty() : tensor<6x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x4xbf16>) outs(%0 : tensor<6x4xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %6 = arith.extf %in : bf16 to f32
    linalg.yield %6 : f32
  } -> tensor<6x4xf32>
  %2 = tensor.expand_shape %1 [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
  %3 = tensor.extract_slice %2[1, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<2x3x4xf32> to tensor<3x4xf32>
  %4 = tensor.empty() : tensor<3x4xf32>
  %5 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%3 : tensor<3x4xf32>) outs(%4 : tensor<3x4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %6 = math.exp %in : f32
    linalg.yield %6 : f32
  } -> tensor<3x4xf32>
  return %5 : tensor<3x4xf32>
}

// A sum goes on reading the wide value; rounding it again gives the half.
// CHECK-LABEL: func.func @sums_and_roundings
// CHECK-SAME: (%[[X:.*]]: tensor<6x4xf16>)
// CHECK: %[[WIDE:.*]] = linalg.generic
// CHECK: arith.extf
// CHECK: linalg.generic {{.*}} ins(%[[WIDE]] : tensor<6x4xf32>)
// CHECK-NOT: truncf
// CHECK: return %{{.*}}, %[[X]]
func.func @sums_and_roundings(%x: tensor<6x4xf16>) -> (tensor<6xf32>, tensor<6x4xf16>) {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<6x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<6x4xf16>) outs(%0 : tensor<6x4xf32>) {
  ^bb0(%in: f16, %out: f32):
    %6 = arith.extf %in : f16 to f32
    linalg.yield %6 : f32
  } -> tensor<6x4xf32>
  %2 = tensor.empty() : tensor<6xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<6xf32>) -> tensor<6xf32>
  %4 = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%1 : tensor<6x4xf32>) outs(%3 : tensor<6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %6 = arith.addf %out, %in : f32
    linalg.yield %6 : f32
  } -> tensor<6xf32>
  %half = tensor.empty() : tensor<6x4xf16>
  %5 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<6x4xf32>) outs(%half : tensor<6x4xf16>) {
  ^bb0(%in: f32, %out: f16):
    %6 = arith.truncf %in : f32 to f16
    linalg.yield %6 : f16
  } -> tensor<6x4xf16>
  return %4, %5 : tensor<6xf32>, tensor<6x4xf16>
}

// CHECK-LABEL: func.func @products
// CHECK: linalg.contract {{.*}} {blu.precision = "bf16"} ins(%{{.*}}, %{{.*}} : tensor<4x4xbf16>, tensor<4x4xbf16>) outs(%{{.*}} : tensor<4x4xf32>)
func.func @products(%x: tensor<4x4xbf16>) -> tensor<4x4xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4x4xf32>
  %1 = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x4xbf16>) outs(%0 : tensor<4x4xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %6 = arith.extf %in : bf16 to f32
    linalg.yield %6 : f32
  } -> tensor<4x4xf32>
  %2 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] {blu.precision = "bf16"} ins(%1, %1 : tensor<4x4xf32>, tensor<4x4xf32>) outs(%2 : tensor<4x4xf32>) -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// What reads elements by index reads halves and widens them; nobody makes the wide value then.
// CHECK-LABEL: func.func @by_index
// CHECK-SAME: (%[[X:.*]]: tensor<6xbf16>
// CHECK-NOT: arith.extf
// CHECK: %[[HALF:.*]] = tensor.extract %[[X]]
// CHECK-NEXT: %[[WIDE:.*]] = arith.extf %[[HALF]] : bf16 to f32
// CHECK-NEXT: linalg.yield %[[WIDE]]
func.func @by_index(%x: tensor<6xbf16>, %places: tensor<3xindex>) -> tensor<3xf32> {
  %0 = tensor.empty() : tensor<6xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<6xbf16>) outs(%0 : tensor<6xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %4 = arith.extf %in : bf16 to f32
    linalg.yield %4 : f32
  } -> tensor<6xf32>
  %2 = tensor.empty() : tensor<3xf32>
  %3 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%places : tensor<3xindex>) outs(%2 : tensor<3xf32>) {
  ^bb0(%place: index, %out: f32):
    %4 = tensor.extract %1[%place] : tensor<6xf32>
    linalg.yield %4 : f32
  } -> tensor<3xf32>
  return %3 : tensor<3xf32>
}
