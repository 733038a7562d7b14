// A result that is read in f32 and in bf16 is passed on as its rounding and 16 bits, if only kernels of rows read all of it.
// RUN: %blu-opt %s --blu-split-rounded=least_bytes=128 | %filecheck %s

#map = affine_map<(i, j) -> (i, j)>

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[W:[a-z0-9]+]]: tensor<8x8xbf16>
func.func @main(%x: tensor<4x8xf32>, %w: tensor<8x8xbf16>, %s: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x8xf32>) {
  // Once around, a kernel gives what it takes.
  // CHECK: %[[A:.+]]:2 = call @rows_0(%[[X]]) : (tensor<4x8xf32>) -> (tensor<4x8xi16>, tensor<4x8xbf16>)
  // CHECK: %[[P:.+]] = call @gemm_0(%[[A]]#1, %[[W]])
  // CHECK: %[[B:.+]]:2 = call @rows_1(%[[P]], %[[A]]#0, %[[A]]#1) : (tensor<4x8xf32>, tensor<4x8xi16>, tensor<4x8xbf16>) -> (tensor<4x8xi16>, tensor<4x8xbf16>)
  // CHECK: %[[C:.+]]:2 = call @rows_1(%[[P]], %[[B]]#0, %[[B]]#1)
  // CHECK: %[[D:.+]] = call @rows_2(%[[C]]#0, %[[C]]#1) : (tensor<4x8xi16>, tensor<4x8xbf16>) -> tensor<4x8xf32>
  %0:2 = call @rows_0(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
  %1 = call @gemm_0(%0#1, %w) : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xf32>
  %2:2 = call @rows_1(%1, %0#0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
  %3:2 = call @rows_1(%1, %2#0) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
  %4 = call @rows_2(%3#0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // What is returned too stays, and so does what is small.
  // CHECK: %[[E:.+]]:2 = call @rows_3(%[[X]]) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
  // CHECK: call @rows_4(%{{.+}}) : (tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xbf16>)
  %5:2 = call @rows_3(%x) : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>)
  %6:2 = call @rows_4(%s) : (tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xbf16>)
  %7 = call @rows_5(%6#0) : (tensor<1x8xf32>) -> tensor<1x8xf32>
  return %4, %5#0, %7 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<1x8xf32>
}

// CHECK-LABEL: func.func private @rows_0(
// CHECK: %[[WIDE:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<4x8xf32>)
// CHECK: %[[NARROW:.+]] = linalg.generic {{.*}} ins(%[[WIDE]] : tensor<4x8xf32>) outs(%{{.+}} : tensor<4x8xbf16>)
// CHECK: %[[REST:.+]] = linalg.generic {{.*}} ins(%[[WIDE]], %[[NARROW]] : tensor<4x8xf32>, tensor<4x8xbf16>) outs(%{{.+}} : tensor<4x8xi16>)
// CHECK: arith.subi
// CHECK-NEXT: arith.constant 32767
// CHECK-NEXT: arith.minsi
// CHECK-NEXT: arith.trunci
// CHECK: return %[[REST]], %[[NARROW]]
func.func private @rows_0(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>) attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %4 = arith.negf %in : f32
    linalg.yield %4 : f32
  } -> tensor<4x8xf32>
  %2 = tensor.empty() : tensor<4x8xbf16>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%2 : tensor<4x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %4 = arith.truncf %in : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<4x8xbf16>
  return %1, %3 : tensor<4x8xf32>, tensor<4x8xbf16>
}

func.func private @gemm_0(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<4x8xf32> attributes {blu.kernel = "gemm"} {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<4x8xf32>) -> tensor<4x8xf32>
  %p = linalg.contract indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>, affine_map<(i, j, k) -> (i, j)>] {blu.precision = "highest"} ins(%x, %w : tensor<4x8xbf16>, tensor<8x8xbf16>) outs(%z : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// CHECK-LABEL: func.func private @rows_1(
// CHECK-SAME: %[[P:.+]]: tensor<4x8xf32>, %[[REST:.+]]: tensor<4x8xi16>, %[[NARROW:.+]]: tensor<4x8xbf16>)
// CHECK: %[[WIDE:.+]] = linalg.generic {{.*}} ins(%[[NARROW]], %[[REST]] : tensor<4x8xbf16>, tensor<4x8xi16>) outs(%{{.+}} : tensor<4x8xf32>)
// CHECK: linalg.generic {{.*}} ins(%[[P]], %[[WIDE]] :
func.func private @rows_1(%p: tensor<4x8xf32>, %x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>) attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%p, %x : tensor<4x8xf32>, tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %other: f32, %out: f32):
    %4 = arith.addf %in, %other : f32
    linalg.yield %4 : f32
  } -> tensor<4x8xf32>
  %2 = tensor.empty() : tensor<4x8xbf16>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%2 : tensor<4x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %4 = arith.truncf %in : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<4x8xbf16>
  return %1, %3 : tensor<4x8xf32>, tensor<4x8xbf16>
}

func.func private @rows_2(%x: tensor<4x8xf32>) -> tensor<4x8xf32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

func.func private @rows_3(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xbf16>) attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %4 = math.absf %in : f32
    linalg.yield %4 : f32
  } -> tensor<4x8xf32>
  %2 = tensor.empty() : tensor<4x8xbf16>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<4x8xf32>) outs(%2 : tensor<4x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %4 = arith.truncf %in : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<4x8xbf16>
  return %1, %3 : tensor<4x8xf32>, tensor<4x8xbf16>
}

func.func private @rows_4(%x: tensor<1x8xf32>) -> (tensor<1x8xf32>, tensor<1x8xbf16>) attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<1x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x8xf32>) outs(%0 : tensor<1x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %4 = math.absf %in : f32
    linalg.yield %4 : f32
  } -> tensor<1x8xf32>
  %2 = tensor.empty() : tensor<1x8xbf16>
  %3 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%1 : tensor<1x8xf32>) outs(%2 : tensor<1x8xbf16>) {
  ^bb0(%in: f32, %out: bf16):
    %4 = arith.truncf %in : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<1x8xbf16>
  return %1, %3 : tensor<1x8xf32>, tensor<1x8xbf16>
}

func.func private @rows_5(%x: tensor<1x8xf32>) -> tensor<1x8xf32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<1x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<1x8xf32>) outs(%0 : tensor<1x8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.negf %in : f32
    linalg.yield %2 : f32
  } -> tensor<1x8xf32>
  return %1 : tensor<1x8xf32>
}
