// Factors of matrices, which the host computes: see linear_algebra.mlir.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-check-level{to=linalg}' | %filecheck %s --check-prefix=LINALG
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

// LINALG-LABEL: func.func @main
// LINALG: %[[FACTOR:.*]]:2 = "blu.cholesky"
// LINALG: "plan.check"(%[[FACTOR]]#1) {kind = "indefinite", op = "cholesky", size = 1 : i64}
// LINALG: "blu.qr"
// LINALG-NOT: plan.check
// LINALG: %[[SVD:.*]]:4 = "blu.svd"
// LINALG: "plan.check"(%[[SVD]]#3) {kind = "diverging", op = "svd", size = 1 : i64}
// LINALG: "blu.singular_values"
// LINALG: "blu.eigh"
// LINALG: "blu.eigenvalues"
// LINALG: "blu.pseudo_inverse"

// MEMORY-LABEL: func.func @main
// MEMORY: "plan.host_call"{{.*}} routine = "cholesky"} : (memref<3x3xf64>, memref<3x3xf64>, memref<i64>) -> ()
// MEMORY: "plan.host_call"{{.*}}numbers = "{\22complete\22: false}"{{.*}} routine = "qr"} : (memref<3x3xf64>, memref<3x3xf64>, memref<3x3xf64>) -> ()
// MEMORY: "plan.host_call"{{.*}} routine = "svd"
// MEMORY: "plan.host_call"{{.*}} routine = "singular_values"
// MEMORY: "plan.host_call"{{.*}} routine = "eigh"
// MEMORY: "plan.host_call"{{.*}} routine = "eigenvalues"
// MEMORY: "plan.host_call"{{.*}} routine = "pseudo_inverse"
func.func @main(%x: tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>) {
  %0:2 = "blu.cholesky"(%x) : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i64>)
  %1:2 = "blu.qr"(%x) {complete = false} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3x3xf64>)
  %2:4 = "blu.svd"(%x) {full = false} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<i64>)
  %3:2 = "blu.singular_values"(%x) : (tensor<3x3xf64>) -> (tensor<3xf64>, tensor<i64>)
  %4:3 = "blu.eigh"(%x) : (tensor<3x3xf64>) -> (tensor<3xf64>, tensor<3x3xf64>, tensor<i64>)
  %5:2 = "blu.eigenvalues"(%x) : (tensor<3x3xf64>) -> (tensor<3xf64>, tensor<i64>)
  %6:2 = "blu.pseudo_inverse"(%x) {rtol = 1.0e-5 : f64} : (tensor<3x3xf64>) -> (tensor<3x3xf64>, tensor<i64>)
  return %0#0, %1#0, %2#1, %3#0, %4#1, %5#0, %6#0 : tensor<3x3xf64>, tensor<3x3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3x3xf64>, tensor<3xf64>, tensor<3x3xf64>
}
