// What a call reads for the last time may be written over, but not while other calls of its batch still read it.
// RUN: %blu-opt %s --pass-pipeline='blu-pair-donations,blu-bufferize{over-operands=true}' | %filecheck %s

// The first call comes earlier: the second may write over what both read.
// CHECK-LABEL: func.func @one_by_one(
// CHECK: call @rows_0(%{{.+}}, %[[Z:.+]]) :
// CHECK: call @rows_1(%[[Z]], %{{.+}}, %[[A:.+]]) :
// CHECK-NEXT: call @rows_1(%[[Z]], %{{.+}}, %[[Z]]) :
func.func @one_by_one(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %z = call @rows_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %a = call @rows_1(%z, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = call @rows_1(%z, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = call @rows_1(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}

// Both run at the same time.
// CHECK-LABEL: func.func @together(
// CHECK: call @rows_0(%{{.+}}, %[[Z:.+]]) :
// CHECK: call @rows_1(%[[Z]], %{{.+}}, %[[A:.+]]) {blu.batch = 0 : i64}
// CHECK-NEXT: %[[B:.+]] = "plan.buffer"
// CHECK-NEXT: call @rows_1(%[[Z]], %{{.+}}, %[[B]]) {blu.batch = 0 : i64}
func.func @together(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %z = call @rows_0(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %a = call @rows_1(%z, %x) {blu.batch = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = call @rows_1(%z, %y) {blu.batch = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %c = call @rows_1(%a, %b) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %c : tensor<8xf32>
}

// The same for an argument whose memory a result may take.
// CHECK-LABEL: func.func @donated(
// CHECK-SAME: %[[P:.+]]: memref<8xf32> {blu.donated, blu.result = {{[0-9]+}} : i64}, %[[Q:.+]]: memref<8xf32>)
// CHECK: call @rows_1(%[[P]], %[[Q]], %[[A:.+]]) {blu.batch = 0 : i64}
// CHECK-NOT: call @rows_1(%[[P]], %[[P]], %[[P]])
// CHECK: return
func.func @donated(%p: tensor<8xf32> {blu.donated}, %q: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %a = call @rows_1(%p, %q) {blu.batch = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %b = call @rows_1(%p, %p) {blu.batch = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %b, %a : tensor<8xf32>, tensor<8xf32>
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
