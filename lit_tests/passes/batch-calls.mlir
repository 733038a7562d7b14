// Equal calls that do not wait for each other run at the same time; later they are one launch.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-pair-donations,blu-batch-calls' | %filecheck %s
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-pair-donations,blu-batch-calls{call-bytes=60}' | %filecheck %s --check-prefix=SMALL
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-pair-donations,blu-batch-calls{growth-percent=0 growth-bytes=0}' | %filecheck %s --check-prefix=TIGHT

// Casts of two weights, each before the kernel that reads it: both come before the first reader. A batch may keep no
// more than a limit in memory, and calls that move much are not in batches.
// CHECK-LABEL: func.func @casts(
// CHECK-SAME: %[[X:.+]]: tensor<8xf16>, %[[W:.+]]: tensor<8xf32>, %[[V:.+]]: tensor<8xf32>)
// CHECK-NEXT: %[[NARROW_W:.+]] = call @rows_0(%[[W]]) {blu.batch = 0 : i64}
// CHECK-NEXT: %[[NARROW_V:.+]] = call @rows_2(%[[V]]) {blu.batch = 0 : i64}
// CHECK-NEXT: %[[Y:.+]] = call @loops_1(%[[X]], %[[NARROW_W]]) :
// CHECK-NEXT: %[[Z:.+]] = call @loops_1(%[[Y]], %[[NARROW_V]]) :
// CHECK-NEXT: return %[[Z]]
// SMALL: {blu.batch = 0 : i64}
// TIGHT-NOT: blu.batch
// TIGHT: return
func.func @casts(%x: tensor<8xf16>, %w: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<8xf16> {
  %0 = call @rows_0(%w) : (tensor<8xf32>) -> tensor<8xf16>
  %1 = call @loops_1(%x, %0) : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  %2 = call @rows_2(%v) : (tensor<8xf32>) -> tensor<8xf16>
  %3 = call @loops_1(%1, %2) : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  return %3 : tensor<8xf16>
}
func.func private @rows_0(%x: tensor<8xf32>) -> tensor<8xf16> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<8xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf16>) {
  ^bb0(%a: f32, %b: f16):
    %2 = arith.truncf %a : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<8xf16>
  return %1 : tensor<8xf16>
}
func.func private @loops_1(%x: tensor<8xf16>, %w: tensor<8xf16>) -> tensor<8xf16> attributes {blu.kernel = "loops"} {
  %0 = tensor.empty() : tensor<8xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %w : tensor<8xf16>, tensor<8xf16>) outs(%0 : tensor<8xf16>) {
  ^bb0(%a: f16, %b: f16, %c: f16):
    %2 = arith.addf %a, %b : f16
    linalg.yield %2 : f16
  } -> tensor<8xf16>
  return %1 : tensor<8xf16>
}
func.func private @rows_2(%x: tensor<8xf32>) -> tensor<8xf16> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<8xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf16>) {
  ^bb0(%a: f32, %b: f16):
    %2 = arith.truncf %a : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<8xf16>
  return %1 : tensor<8xf16>
}

// -----

// The same where what reads a weight writes over it: no more is kept than before.
// TIGHT-LABEL: func.func @casts_written_over(
// TIGHT: call @rows_0({{.*}}) {blu.batch
// TIGHT: call @rows_0({{.*}}) {blu.batch
// TIGHT: call @rows_1(
// TIGHT: call @rows_1(
// TIGHT: return
func.func @casts_written_over(%x: tensor<8xf16>, %w: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<8xf16> {
  %0 = call @rows_0(%w) : (tensor<8xf32>) -> tensor<8xf16>
  %1 = call @rows_1(%x, %0) : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  %2 = call @rows_0(%v) : (tensor<8xf32>) -> tensor<8xf16>
  %3 = call @rows_1(%1, %2) : (tensor<8xf16>, tensor<8xf16>) -> tensor<8xf16>
  return %3 : tensor<8xf16>
}
func.func private @rows_0(%x: tensor<8xf32>) -> tensor<8xf16> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<8xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf16>) {
  ^bb0(%a: f32, %b: f16):
    %2 = arith.truncf %a : f32 to f16
    linalg.yield %2 : f16
  } -> tensor<8xf16>
  return %1 : tensor<8xf16>
}
func.func private @rows_1(%x: tensor<8xf16>, %w: tensor<8xf16>) -> tensor<8xf16> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<8xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %w : tensor<8xf16>, tensor<8xf16>) outs(%0 : tensor<8xf16>) {
  ^bb0(%a: f16, %b: f16, %c: f16):
    %2 = arith.addf %a, %b : f16
    linalg.yield %2 : f16
  } -> tensor<8xf16>
  return %1 : tensor<8xf16>
}

// -----

// Views go where they are needed. Neither the sums nor what reads them wait for each other.
// CHECK-LABEL: func.func @sums(
// CHECK-SAME: %[[X:.+]]: tensor<2x16xf32>)
// CHECK-NEXT: %[[FIRST:.+]] = tensor.extract_slice %[[X]][0, 0] [1, 16] [1, 1]
// CHECK-NEXT: %[[LAST:.+]] = tensor.extract_slice %[[X]][1, 0] [1, 16] [1, 1]
// CHECK-NEXT: %[[A:.+]] = call @loops_0(%[[FIRST]]) {blu.batch = [[SUMS:[0-9]+]] : i64}
// CHECK-NEXT: %[[B:.+]] = call @loops_0(%[[LAST]]) {blu.batch = [[SUMS]] : i64}
// CHECK-NEXT: %[[C:.+]] = call @rows_0(%[[A]]) {blu.batch = [[EXPONENTIALS:[0-9]+]] : i64}
// CHECK-NEXT: %[[D:.+]] = call @rows_0(%[[B]]) {blu.batch = [[EXPONENTIALS]] : i64}
// CHECK-NEXT: %[[E:.+]] = call @rows_0(%[[D]]) :
// CHECK-NEXT: return %[[C]], %[[E]]
// SMALL-LABEL: func.func @sums(
// SMALL-NOT: call @loops_0({{.*}}blu.batch
// SMALL: call @rows_0({{.*}}blu.batch
func.func @sums(%x: tensor<2x16xf32>) -> (tensor<f32>, tensor<f32>) {
  %0 = tensor.extract_slice %x[0, 0] [1, 16] [1, 1] : tensor<2x16xf32> to tensor<1x16xf32>
  %1 = call @loops_0(%0) : (tensor<1x16xf32>) -> tensor<f32>
  %2 = call @rows_0(%1) : (tensor<f32>) -> tensor<f32>
  %3 = tensor.extract_slice %x[1, 0] [1, 16] [1, 1] : tensor<2x16xf32> to tensor<1x16xf32>
  %4 = call @loops_0(%3) : (tensor<1x16xf32>) -> tensor<f32>
  %5 = call @rows_0(%4) : (tensor<f32>) -> tensor<f32>
  %6 = call @rows_0(%5) : (tensor<f32>) -> tensor<f32>
  return %2, %6 : tensor<f32>, tensor<f32>
}
func.func private @loops_0(%x: tensor<1x16xf32>) -> tensor<f32> attributes {blu.kernel = "loops"} {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<f32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<f32>) -> tensor<f32>
  %2 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> ()>], iterator_types = ["reduction", "reduction"]} ins(%x : tensor<1x16xf32>) outs(%1 : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %3 = arith.addf %b, %a : f32
    linalg.yield %3 : f32
  } -> tensor<f32>
  return %2 : tensor<f32>
}
func.func private @rows_0(%x: tensor<f32>) -> tensor<f32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<f32>
  %1 = linalg.generic {indexing_maps = [affine_map<() -> ()>, affine_map<() -> ()>], iterator_types = []} ins(%x : tensor<f32>) outs(%0 : tensor<f32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = math.exp %a : f32
    linalg.yield %2 : f32
  } -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// What reads a donated argument stays before the call that may write its new value over it: @rows_0 of %p does not wait
// for the one of the new value.
// CHECK-LABEL: func.func @donated(
// CHECK-NEXT: call @rows_0(%{{.+}}) :
// CHECK-NEXT: call @rows_1(
// CHECK-NEXT: call @rows_0(%{{.+}}) :
// CHECK-NEXT: return
func.func @donated(%p: tensor<8xf32> {blu.donated}, %q: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = call @rows_0(%p) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @rows_1(%p, %q) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = call @rows_0(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %0, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// The same without a donation.
// CHECK-LABEL: func.func @kept(
// CHECK: call @rows_1(
// CHECK-NEXT: call @rows_0({{.*}}blu.batch
// CHECK-NEXT: call @rows_0({{.*}}blu.batch
func.func @kept(%p: tensor<8xf32>, %q: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %0 = call @rows_0(%p) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = call @rows_1(%p, %q) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = call @rows_0(%1) : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %0, %2 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}
func.func private @rows_0(%x: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = math.exp %a : f32
    linalg.yield %2 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
func.func private @rows_1(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<8xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x, %y : tensor<8xf32>, tensor<8xf32>) outs(%0 : tensor<8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %2 = arith.addf %a, %b : f32
    linalg.yield %2 : f32
  } -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
