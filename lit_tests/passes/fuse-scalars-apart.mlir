// Sums that are added up are kernels of their own, so that they need not wait for each other.
// RUN: %blu-opt %s --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse{scalars-apart=true}' | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse' | %filecheck %s --check-prefix=JOINED

// What only reads one sum belongs to it as before.
// CHECK-LABEL: func.func @norm(
// CHECK-SAME: %[[X:.+]]: tensor<8xf32>, %[[Y:.+]]: tensor<4xf32>, %[[Z:.+]]: tensor<2xf32>)
// CHECK-NEXT: %[[A:.+]] = call @rows_0(%[[X]])
// CHECK-NEXT: %[[B:.+]] = call @rows_1(%[[Y]])
// CHECK-NEXT: %[[C:.+]] = call @rows_2(%[[Z]])
// CHECK-NEXT: %[[SUM:.+]] = call @rows_3(
// CHECK-NEXT: return %[[SUM]]
// CHECK-LABEL: func.func private @rows_2(
// CHECK: arith.addf
// CHECK: math.exp
// CHECK-LABEL: func.func private @rows_3(
// CHECK: arith.addf
// CHECK: arith.addf
// JOINED-LABEL: func.func @norm(
// JOINED-COUNT-3: call @rows_
// JOINED-NEXT: return
func.func @norm(%x: tensor<8xf32>, %y: tensor<4xf32>, %z: tensor<2xf32>) -> tensor<f32> {
  %0 = "blu.sum"(%x) {axes = array<i64: 0>, keepdims = false} : (tensor<8xf32>) -> tensor<f32>
  %1 = "blu.sum"(%y) {axes = array<i64: 0>, keepdims = false} : (tensor<4xf32>) -> tensor<f32>
  %2 = "blu.sum"(%z) {axes = array<i64: 0>, keepdims = false} : (tensor<2xf32>) -> tensor<f32>
  %3 = "blu.exp"(%2) : (tensor<f32>) -> tensor<f32>
  %4 = "blu.add"(%0, %1) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %5 = "blu.add"(%4, %3) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %5 : tensor<f32>
}
