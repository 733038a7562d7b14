// What the host computes stays as it was written at level linalg, and is a call of a routine on memory after that.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-check-level{to=linalg}' | %filecheck %s --check-prefix=LINALG
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

// LINALG-LABEL: func.func @main
// LINALG: %[[INVERSE:.*]]:2 = "blu.inverse"
// LINALG: "plan.check"(%[[INVERSE]]#1) {kind = "singular", op = "inv", size = 4 : i64}
// LINALG: %[[SOLVED:.*]]:2 = "blu.solve"
// LINALG: "plan.check"(%[[SOLVED]]#1) {kind = "singular", op = "solve", size = 4 : i64}
// LINALG: "blu.determinant"
// LINALG-NOT: plan.check
// LINALG: "blu.slogdet"
// LINALG-NOT: plan.check
// LINALG: "blu.cofactors"

// What may fail writes to a slot of the program's status; a transposed operand is copied into order.
// MEMORY-LABEL: func.func @main
// MEMORY: %[[FOUND:.*]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "status"}
// MEMORY: "plan.host_call"(%{{.*}}, %{{.*}}, %[[FOUND]]) {numbers = "{}", operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0>, operands = 1 : i64, routine = "inverse"} : (memref<4x3x3xf32>, memref<4x3x3xf32>, memref<i64>) -> ()
// MEMORY: "plan.check"(%[[FOUND]])
// MEMORY: call @{{.*}} : (memref<4x3x3xf32, strided<[9, 1, 3]>>, memref<4x3x3xf32>) -> ()
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "solve"
// MEMORY: "plan.host_call"{{.*}} routine = "determinant"
// MEMORY: "plan.host_call"{{.*}} routine = "slogdet"
// MEMORY: "plan.host_call"{{.*}} routine = "cofactors"
func.func @main(%x: tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x3x3xf32>) {
  %0:2 = "blu.inverse"(%x) : (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<i64>)
  %turned = "blu.transpose"(%x) {permutation = array<i64: 0, 2, 1>} : (tensor<4x3x3xf32>) -> tensor<4x3x3xf32>
  %1:2 = "blu.solve"(%x, %turned) : (tensor<4x3x3xf32>, tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<i64>)
  %2 = "blu.determinant"(%x) : (tensor<4x3x3xf32>) -> tensor<4xf32>
  %3:2 = "blu.slogdet"(%x) : (tensor<4x3x3xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %4:2 = "blu.cofactors"(%x) : (tensor<4x3x3xf32>) -> (tensor<4x3x3xf32>, tensor<i64>)
  return %0#0, %1#0, %2, %3#0, %3#1, %4#0 : tensor<4x3x3xf32>, tensor<4x3x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x3x3xf32>
}
