// What a loop only adds up, of slices that are in memory anyway, is formed after it.
// RUN: %blu-opt %s --blu-hoist-sums --blu-trim-loops | %filecheck %s

// Products of rows, turned and in more bits, and sums of a slice.
// CHECK-LABEL: func.func @sums(
// CHECK-SAME: %[[X:[^ ]+]]: tensor<5x2x3xbf16>, %[[Z:[^ ]+]]: tensor<5x2x4xbf16>, %[[W:[^ ]+]]: tensor<4x3xf32>, %[[B:[^ ]+]]: tensor<4xbf16>)
// CHECK: %[[Y:.+]] = "blu.scan"(%[[Z]])
// CHECK-NEXT: ^bb0(%[[SLICE:.+]]: tensor<2x4xbf16>):
// CHECK-NEXT: %[[EXP:.+]] = "blu.exp"(%[[SLICE]])
// CHECK-NEXT: "blu.yield"(%[[EXP]])
// CHECK: %[[LEFT:.+]] = "blu.reshape"(%[[X]]) {shape = array<i64: 10, 3>}
// CHECK: %[[TURNED:.+]] = "blu.transpose"(%[[LEFT]])
// CHECK: %[[RIGHT:.+]] = "blu.reshape"(%[[Y]]) {shape = array<i64: 10, 4>}
// CHECK: %[[PRODUCT:.+]] = "blu.matmul"(%[[TURNED]], %[[RIGHT]]) {precision = "highest"} : (tensor<3x10xbf16>, tensor<10x4xbf16>) -> tensor<3x4xbf16>
// CHECK: %[[BACK:.+]] = "blu.transpose"(%[[PRODUCT]])
// CHECK: %[[WIDE:.+]] = "blu.convert"(%[[BACK]])
// CHECK: %[[FIRST:.+]] = "blu.add"(%[[W]], %[[WIDE]]) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[Y]]) {axes = array<i64: 0, 1>, keepdims = false} : (tensor<5x2x4xbf16>) -> tensor<4xbf16>
// CHECK: "blu.add"(%[[B]], %{{.+}}) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
#two = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#three = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#four = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#carries = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @sums(%x: tensor<5x2x3xbf16>, %z: tensor<5x2x4xbf16>, %w: tensor<4x3xf32>, %b: tensor<4xbf16>) -> (tensor<4x3xf32>, tensor<4xbf16>, tensor<5x2x4xbf16>) {
  %0:3 = "blu.scan"(%w, %b, %x, %z) ({
  ^bb0(%p: tensor<4x3xf32>, %q: tensor<4xbf16>, %s: tensor<2x3xbf16>, %t: tensor<2x4xbf16>):
    %y = "blu.exp"(%t) : (tensor<2x4xbf16>) -> tensor<2x4xbf16>
    %1 = "blu.transpose"(%s) {permutation = array<i64: 1, 0>} : (tensor<2x3xbf16>) -> tensor<3x2xbf16>
    %2 = "blu.matmul"(%1, %y) {precision = "highest"} : (tensor<3x2xbf16>, tensor<2x4xbf16>) -> tensor<3x4xbf16>
    %3 = "blu.transpose"(%2) {permutation = array<i64: 1, 0>} : (tensor<3x4xbf16>) -> tensor<4x3xbf16>
    %4 = "blu.convert"(%3) {dtype = f32} : (tensor<4x3xbf16>) -> tensor<4x3xf32>
    %5 = "blu.add"(%p, %4) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
    %6 = "blu.sum"(%y) {axes = array<i64: 0>, keepdims = false} : (tensor<2x4xbf16>) -> tensor<4xbf16>
    %7 = "blu.add"(%6, %q) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
    "blu.yield"(%5, %7, %y) {operandSegmentSizes = #three} : (tensor<4x3xf32>, tensor<4xbf16>, tensor<2x4xbf16>) -> ()
  }) {length = 5 : i64, reverse = true, saved = 0 : i64, operandSegmentSizes = #two, resultSegmentSizes = #three} : (tensor<4x3xf32>, tensor<4xbf16>, tensor<5x2x3xbf16>, tensor<5x2x4xbf16>) -> (tensor<4x3xf32>, tensor<4xbf16>, tensor<5x2x4xbf16>)
  return %0#0, %0#1, %0#2 : tensor<4x3xf32>, tensor<4xbf16>, tensor<5x2x4xbf16>
}

// Slices that nobody reads are not kept for it; what else reads the sum, or is no sum of rows, stays.
// CHECK-LABEL: func.func @kept(
// CHECK: %[[LOOP:.+]]:3 = "blu.scan"(
// CHECK: "blu.sum"
// CHECK: "blu.sum"
// CHECK: "blu.multiply"
// CHECK: return %[[LOOP]]#0, %[[LOOP]]#1, %[[LOOP]]#2
func.func @kept(%x: tensor<5x2x4xf32>, %a: tensor<4xf32>, %b: tensor<4xf32>, %c: tensor<2x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>) {
  %0:4 = "blu.scan"(%a, %b, %c, %x) ({
  ^bb0(%p: tensor<4xf32>, %q: tensor<4xf32>, %r: tensor<2x4xf32>, %s: tensor<2x4xf32>):
    %y = "blu.exp"(%s) : (tensor<2x4xf32>) -> tensor<2x4xf32>
    %1 = "blu.sum"(%y) {axes = array<i64: 0>, keepdims = false} : (tensor<2x4xf32>) -> tensor<4xf32>
    %2 = "blu.add"(%p, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "blu.sum"(%s) {axes = array<i64: 0>, keepdims = false} : (tensor<2x4xf32>) -> tensor<4xf32>
    %4 = "blu.add"(%q, %3) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "blu.multiply"(%r, %q) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
    %6 = "blu.add"(%r, %5) : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    "blu.yield"(%2, %4, %6, %y) {operandSegmentSizes = #four} : (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> ()
  }) {length = 5 : i64, reverse = false, saved = 0 : i64, operandSegmentSizes = #carries, resultSegmentSizes = #four} : (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<5x2x4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>, tensor<5x2x4xf32>)
  return %0#0, %0#1, %0#2 : tensor<4xf32>, tensor<4xf32>, tensor<2x4xf32>
}
