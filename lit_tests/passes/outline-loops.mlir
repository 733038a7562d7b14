// Bodies become functions, which stand before what they are called from: the innermost first.
// RUN: %blu-opt %s --blu-outline-loops | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-outline-loops,lower-to-linalg,blu-fuse,blu-pair-donations,blu-bufferize,blu-plan-memory' | %filecheck %s --check-prefix=MEMORY

// CHECK: func.func private @body_1(%[[CARRY:.+]]: tensor<4xf32> {blu.donated, blu.name = "carry.0"}, %[[WEIGHT:.+]]: tensor<4xf32>) -> (tensor<4xf32> {blu.name = "carry.0"}) attributes {blu.loop_body = 1 : i64} {
// CHECK-NEXT: %[[NEXT:.+]] = "blu.multiply"(%[[CARRY]], %[[WEIGHT]])
// CHECK-NEXT: return %[[NEXT]]
// CHECK: func.func private @body_0(%[[CARRY:.+]]: tensor<4xf32> {{.*}}, %[[WEIGHT:.+]]: tensor<4xf32>)
// CHECK-NEXT: %[[INNER:.+]] = "plan.loop"(%[[CARRY]], %[[WEIGHT]]) {arena = -1 : i64, body = @body_1, carries = 1 : i64, count = 3 : i64, given = 0 : i64,
// CHECK-NEXT: %[[NEXT:.+]] = "blu.exp"(%[[INNER]])
// CHECK: func.func @main(
// CHECK-NEXT: "plan.loop"(%{{.+}}, %{{.+}}) {arena = -1 : i64, body = @body_0, carries = 1 : i64, count = 2 : i64,

// What the body writes over what it is given has one cell of 64 bytes. In an arena of their own, bodies have theirs.
// MEMORY: func.func private @body_1(%[[CARRY:.+]]: memref<4xf32> {{.*}}, %[[WEIGHT:.+]]: memref<4xf32>) attributes {blu.arena_bytes = 0 : i64,
// MEMORY-NEXT: call @rows_0(%[[CARRY]], %[[WEIGHT]], %[[CARRY]])
// MEMORY-NEXT: "plan.alias"(%[[CARRY]]) {result = 0 : i64}
// MEMORY: func.func private @body_0(
// MEMORY-NEXT: %[[CELLS:.+]] = "plan.buffer"() {index = 0 : i64, offset = 0 : i64, space = "arena"} : () -> memref<1x16xf32>
// MEMORY: call @copy_0(
// MEMORY-NEXT: "plan.loop"(%[[CELLS]], %{{.+}}) {arena = 0 : i64, body = @body_1,
// MEMORY: func.func @main(
// MEMORY: "plan.loop"(%{{.+}}, %{{.+}}) {arena = 64 : i64, body = @body_0,
#takes = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#gives = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#two = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#one = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#none = array<i32: 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @main(%h: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.scan"(%h, %w) ({
  ^bb0(%carry: tensor<4xf32>, %weight: tensor<4xf32>):
    %1 = "blu.scan"(%carry, %weight) ({
    ^bb0(%carry_0: tensor<4xf32>, %weight_0: tensor<4xf32>):
      %2 = "blu.multiply"(%carry_0, %weight_0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      "blu.yield"(%2) {operandSegmentSizes = #one} : (tensor<4xf32>) -> ()
    }) {length = 3 : i64, reverse = false, saved = 0 : i64, operandSegmentSizes = #none, resultSegmentSizes = #one} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "blu.exp"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    "blu.yield"(%3) {operandSegmentSizes = #one} : (tensor<4xf32>) -> ()
  }) {length = 2 : i64, reverse = false, saved = 0 : i64, operandSegmentSizes = #none, resultSegmentSizes = #one} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
