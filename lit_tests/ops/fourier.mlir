// Fourier transforms, which the host computes: see linear_algebra.mlir. Complex numbers are pairs of tensors.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-check-level{to=linalg}' | %filecheck %s --check-prefix=LINALG
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,blu-fuse,blu-bufferize' | %filecheck %s --check-prefix=MEMORY

// LINALG-LABEL: func.func @main
// LINALG: "blu.real_fourier"
// LINALG: "blu.fourier"
// LINALG: "blu.inverse_real_fourier"
// LINALG-NOT: plan.check

// MEMORY-LABEL: func.func @main
// MEMORY: "plan.host_call"{{.*}} operands = 1 : i64, routine = "real_fourier"} : (memref<4x6xf32>, memref<4x4xf32>, memref<4x4xf32>) -> ()
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "fourier"}
// MEMORY: "plan.host_call"{{.*}} operands = 2 : i64, routine = "inverse_real_fourier"} : (memref<4x4xf32>, memref<4x4xf32>, memref<4x6xf32>) -> ()
func.func @main(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0:2 = "blu.real_fourier"(%x) {ndim = 1 : i64, norm = "backward"} : (tensor<4x6xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %1:2 = "blu.fourier"(%0#0, %0#1) {ndim = 2 : i64, norm = "ortho", inverse = true} : (tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  %2 = "blu.inverse_real_fourier"(%1#0, %1#1) {ndim = 1 : i64, norm = "backward", size = 6 : i64} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
