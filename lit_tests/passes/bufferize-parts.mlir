// Parts of a larger value are written where they belong; what another part lies over is copied there, in order.
// RUN: %blu-opt %s --pass-pipeline='blu-pair-donations,blu-bufferize' | %filecheck %s

// CHECK-LABEL: func.func @side_by_side(
// CHECK-SAME: %[[X:.+]]: memref<16xf32>, %[[Y:.+]]: memref<16xf32>)
// CHECK: %[[WHOLE:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<32xf32>
// CHECK: %[[B:.+]] = "plan.part"(%[[WHOLE]]) {offset = 64 : i64}
// CHECK: call @rows_0(%[[Y]], %[[B]])
// CHECK: call @rows_0(%[[X]], %{{.+}})
// CHECK-NOT: call
// CHECK: return
func.func @side_by_side(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<32xf32> {
  %b = call @rows_0(%y) : (tensor<16xf32>) -> tensor<16xf32>
  %a = call @rows_0(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %e = tensor.empty() : tensor<32xf32>
  %1 = tensor.insert_slice %a into %e[0] [16] [1] : tensor<16xf32> into tensor<32xf32>
  %2 = tensor.insert_slice %b into %1[16] [16] [1] : tensor<16xf32> into tensor<32xf32>
  return %2 : tensor<32xf32>
}

// The second part, which is made first, lies over half of the first one.
// CHECK-LABEL: func.func @one_over_the_other(
// CHECK-SAME: %[[X:.+]]: memref<16xf32>, %[[Y:.+]]: memref<16xf32>)
// CHECK: %[[B:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "arena"} : () -> memref<16xf32>
// CHECK: call @rows_0(%[[Y]], %[[B]])
// CHECK: %[[A:.+]] = "plan.buffer"() {index = 1 : i64, offset = -1 : i64, space = "arena"} : () -> memref<16xf32>
// CHECK: call @rows_0(%[[X]], %[[A]])
// CHECK: call @{{.+}}(%[[A]], %{{.+}})
// CHECK: call @{{.+}}(%[[B]], %{{.+}})
// CHECK: return
func.func @one_over_the_other(%x: tensor<16xf32>, %y: tensor<16xf32>) -> tensor<24xf32> {
  %b = call @rows_0(%y) : (tensor<16xf32>) -> tensor<16xf32>
  %a = call @rows_0(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %e = tensor.empty() : tensor<24xf32>
  %1 = tensor.insert_slice %a into %e[0] [16] [1] : tensor<16xf32> into tensor<24xf32>
  %2 = tensor.insert_slice %b into %1[8] [16] [1] : tensor<16xf32> into tensor<24xf32>
  return %2 : tensor<24xf32>
}
func.func private @rows_0(%x: tensor<16xf32>) -> tensor<16xf32> attributes {blu.kernel = "rows"} {
  %0 = tensor.empty() : tensor<16xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%x : tensor<16xf32>) outs(%0 : tensor<16xf32>) {
  ^bb0(%a: f32, %b: f32):
    %2 = math.exp %a : f32
    linalg.yield %2 : f32
  } -> tensor<16xf32>
  return %1 : tensor<16xf32>
}
