// Complex matrices, which the host computes with: see linear_algebra.mlir. Real and imaginary parts are tensors.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-check-level{to=linalg}' | %filecheck %s --check-prefix=LINALG
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

// LINALG-LABEL: func.func @main
// LINALG: %[[INVERSE:.*]]:3 = "blu.complex_inverse"
// LINALG: "plan.check"(%[[INVERSE]]#2) {kind = "singular", op = "inv", size = 1 : i64}
// LINALG: "blu.complex_solve"
// LINALG: "blu.complex_slogdet"
// LINALG: "blu.complex_cholesky"
// LINALG: "plan.check"{{.*}} {kind = "indefinite", op = "cholesky", size = 1 : i64}
// LINALG: "blu.complex_qr"
// LINALG: "blu.complex_svd"
// LINALG: "blu.complex_eigh"
// LINALG: "blu.complex_eig"

// MEMORY-LABEL: func.func @main
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_inverse"}
// MEMORY: "plan.host_call"{{.*}} operands = 4 : i64, routine = "complex_solve"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_slogdet"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_cholesky"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_qr"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_svd"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_eigh"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "complex_eig"}
func.func @main(%x: tensor<3x3xf32>, %y: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<f32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "blu.complex_inverse"(%x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<i64>)
  %1:3 = "blu.complex_solve"(%x, %y, %x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<i64>)
  %2:3 = "blu.complex_slogdet"(%x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  %3:3 = "blu.complex_cholesky"(%x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<i64>)
  %4:4 = "blu.complex_qr"(%x, %y) {complete = false} : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3x3xf32>)
  %5:6 = "blu.complex_svd"(%x, %y) {full = false} : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<i64>)
  %6:4 = "blu.complex_eigh"(%x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<i64>)
  %7:5 = "blu.complex_eig"(%x, %y) : (tensor<3x3xf32>, tensor<3x3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<i64>)
  return %0#0, %1#1, %2#2, %3#0, %4#2, %5#2, %6#0, %7#1 : tensor<3x3xf32>, tensor<3x3xf32>, tensor<f32>, tensor<3x3xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
