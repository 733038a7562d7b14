// Factors of matrices, which the host computes: see linear_algebra.mlir.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-check-level{to=linalg}' | %filecheck %s --check-prefix=LINALG
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

// LINALG-LABEL: func.func @main
// LINALG: %[[FACTOR:.*]]:2 = "blu.cholesky"
// LINALG: "plan.check"(%[[FACTOR]]#1) {kind = "indefinite", op = "cholesky", size = 1 : i64}

// MEMORY-LABEL: func.func @main
// MEMORY: "plan.host_call"{{.*}} routine = "cholesky"} : (memref<3x3xf64>, memref<3x3xf64>, memref<i64>) -> ()
func.func @main(%x: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %0:2 = "blu.cholesky"(%x) : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i64>)
  return %0#0 : tensor<3x3xf64>
}
