// RUN: %blu-opt %s --blu-hoist-results | %filecheck %s

// Each sum is made where its product is. What it is added to is made right before, since it is no result.
// CHECK-LABEL: func.func @sums
// CHECK: "blu.matmul"(%arg0, %arg1)
// CHECK-NEXT: %[[FIRST:.*]] = "blu.negative"(%arg2)
// CHECK-NEXT: "blu.add"(%[[FIRST]], %{{.*}})
// CHECK-NEXT: "blu.matmul"(%arg1, %arg0)
// CHECK-NEXT: %[[SECOND:.*]] = "blu.negative"(%arg3)
// CHECK-NEXT: "blu.add"(%[[SECOND]], %{{.*}})
// CHECK-NEXT: return
func.func @sums(%x: tensor<4x4xf32> {blu.donated}, %y: tensor<4x4xf32>, %a: tensor<4x4xf32>, %b: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "blu.matmul"(%x, %y) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.matmul"(%y, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "blu.negative"(%a) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "blu.negative"(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "blu.add"(%2, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "blu.add"(%3, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>
}

// A number that others read before stays where it is.
// CHECK-LABEL: func.func @number
// CHECK: %[[ONE:.*]] = "blu.negative"(%arg2)
// CHECK-NEXT: %[[SHIFTED:.*]] = "blu.add"(%arg1, %[[ONE]])
// CHECK-NEXT: %[[PRODUCT:.*]] = "blu.matmul"(%[[SHIFTED]], %arg1)
// CHECK-NEXT: "blu.multiply"(%[[PRODUCT]], %[[ONE]])
// CHECK-NEXT: "blu.matmul"
func.func @number(%a: tensor<4x4xf32> {blu.donated}, %x: tensor<4x4xf32>, %n: tensor<1x1xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "blu.matmul"(%x, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.negative"(%n) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %2 = "blu.add"(%x, %1) : (tensor<4x4xf32>, tensor<1x1xf32>) -> tensor<4x4xf32>
  %3 = "blu.matmul"(%2, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "blu.matmul"(%0, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "blu.multiply"(%3, %1) : (tensor<4x4xf32>, tensor<1x1xf32>) -> tensor<4x4xf32>
  return %5, %4 : tensor<4x4xf32>, tensor<4x4xf32>
}

// The new weight may be written over the old one, which a product still reads, turned around.
// CHECK-LABEL: func.func @update
// CHECK: "blu.matmul"(%arg1, %arg1)
// CHECK-NEXT: %[[TURNED:.*]] = "blu.transpose"(%arg0)
// CHECK-NEXT: %[[LAST:.*]] = "blu.matmul"(%arg1, %[[TURNED]])
// CHECK-NEXT: "blu.subtract"(%arg0, %{{.*}})
// CHECK-NEXT: "blu.matmul"(%[[LAST]], %arg1)
// CHECK-NEXT: return
func.func @update(%w: tensor<4x4xf32> {blu.donated}, %x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "blu.matmul"(%x, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "blu.matmul"(%x, %1) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "blu.matmul"(%2, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "blu.subtract"(%w, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %4, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}

// A product that two results are made of is no part of either's kernel, and what a product reads makes no result.
// CHECK-LABEL: func.func @read
// CHECK: %[[FIRST:.*]] = "blu.matmul"
// CHECK-NEXT: "blu.matmul"
// CHECK-NEXT: "blu.negative"
// CHECK-NEXT: "blu.matmul"
// CHECK-NEXT: "blu.negative"(%[[FIRST]])
func.func @read(%x: tensor<4x4xf32> {blu.donated}) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "blu.matmul"(%x, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.matmul"(%0, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "blu.negative"(%1) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "blu.matmul"(%2, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "blu.negative"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2, %3, %4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}

// A result of one number takes no memory worth a kernel of its own.
// CHECK-LABEL: func.func @one
// CHECK: "blu.matmul"
// CHECK-NEXT: "blu.negative"
func.func @one(%x: tensor<4x4xf32> {blu.donated}, %n: tensor<1x1xf32>) -> (tensor<4x4xf32>, tensor<1x1xf32>) {
  %0 = "blu.matmul"(%x, %x) {precision = "highest"} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "blu.negative"(%n) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<1x1xf32>
}
