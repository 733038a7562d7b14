// A loop carries, walks along, gives and computes only what is read; what stays as it is is read from above.
// RUN: %blu-opt %s --blu-trim-loops | %filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME: %[[A:.+]]: tensor<4xf32>, %[[B:.+]]: tensor<4xf32>, %[[C:.+]]: tensor<4xf32>, %[[X:.+]]: tensor<3x4xf32>, %[[Y:.+]]: tensor<3x4xf32>)
// CHECK-NOT: blu.sin
// CHECK: %[[LOOP:.+]] = "blu.scan"(%[[A]], %[[X]], %[[C]])
// CHECK-NEXT: ^bb0(%[[CARRY:.+]]: tensor<4xf32>, %[[SLICE:.+]]: tensor<4xf32>, %[[SAME:.+]]: tensor<4xf32>):
// CHECK-NEXT: %[[PRODUCT:.+]] = "blu.multiply"(%[[CARRY]], %[[SLICE]])
// CHECK-NEXT: %[[SUM:.+]] = "blu.add"(%[[PRODUCT]], %[[SAME]])
// CHECK-NEXT: "blu.yield"(%[[SUM]])
// CHECK-NOT: blu.exp
// CHECK: return %[[LOOP]], %[[C]]
#takes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#gives = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<4xf32>, %x: tensor<3x4xf32>, %y: tensor<3x4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = "blu.sin"(%b) : (tensor<4xf32>) -> tensor<4xf32>
  %0:4 = "blu.scan"(%a, %s, %c, %x, %y) ({
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<4xf32>, %v: tensor<4xf32>, %w: tensor<4xf32>):
    %1 = "blu.multiply"(%p, %v) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "blu.add"(%1, %r) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "blu.exp"(%q) : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "blu.add"(%3, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    "blu.yield"(%2, %4, %r, %3) {operandSegmentSizes = #gives} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {length = 3 : i64, reverse = false, saved = 0 : i64, operandSegmentSizes = #takes, resultSegmentSizes = #gives} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<3x4xf32>)
  return %0#0, %0#2 : tensor<4xf32>, tensor<4xf32>
}
