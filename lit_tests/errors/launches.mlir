// Launches that somebody has written are looked at before kernels are lowered.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --pass-pipeline='blu-check-level{to=kernel}'

module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>) {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{got 2 kernel operands but expected 1}}
    gpu.launch_func @kernels::@rows_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>, %x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @rows_0(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{the grid of 'rows_0' is 1 x 0 x 1; a GPU takes 1 to 2147483647 x 65535 x 65535 blocks}}
    gpu.launch_func @kernels::@rows_0 blocks in (%c1, %c0, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @rows_0(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>) {
    %c1 = arith.constant 1 : index
    %c1025 = arith.constant 1025 : index
    // expected-error@+1 {{blocks of 'rows_0' have 1025 x 1 x 1 threads; they can be 1 to 1024, in one dimension}}
    gpu.launch_func @kernels::@rows_0 blocks in (%c1, %c1, %c1) threads in (%c1025, %c1, %c1) args(%x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @rows_0(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>, %size: index) {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{the launch of 'rows_0' has a size that is no constant}}
    gpu.launch_func @kernels::@rows_0 blocks in (%size, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @rows_0(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>) {
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    // expected-error@+1 {{clusters of 'rows_0' are 2 x 1 x 1 blocks of a grid of 3 x 1 x 1: they must divide its first dimension}}
    gpu.launch_func @kernels::@rows_0 clusters in (%c2, %c1, %c1) blocks in (%c3, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @rows_0(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>) {
    %c1 = arith.constant 1 : index
    %shared = arith.constant 300000 : i32
    // expected-error@+1 {{blocks of 'rows_0' ask for 300000 bytes of shared memory; no GPU has more than 262144}}
    gpu.launch_func @kernels::@rows_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) dynamic_shared_memory_size %shared args(%x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @rows_0(%x: memref<4xf32>) kernel {
      gpu.return
    }
  }
}

// -----

func.func @main(%x: memref<4xf32>) {
  // expected-error@+1 {{the call of 'rows_0' does not say how many blocks run (blu.blocks, blu.chunk)}}
  func.call @rows_0(%x) : (memref<4xf32>) -> ()
  return
}
func.func private @rows_0(memref<4xf32>)

// -----

func.func @main(%x: memref<4xf32>) {
  // expected-error@+1 {{there is no code of a kernel 'rows_0' in a module @kernels}}
  func.call @rows_0(%x) {blu.blocks = 1 : i64, blu.chunk = 1 : i64} : (memref<4xf32>) -> ()
  return
}
func.func private @rows_0(memref<4xf32>)

// -----

func.func @main(%x: memref<4xf32>) {
  // expected-error@+1 {{the code of kernel 'rows_0' takes 2 buffers, and the launch passes 1}}
  func.call @rows_0(%x) {blu.blocks = 1 : i64, blu.chunk = 1 : i64} : (memref<4xf32>) -> ()
  return
}
func.func private @rows_0(memref<4xf32>)
module @kernels {
  func.func @rows_0(%x: memref<4xf32>, %y: memref<4xf32>, %begin: index, %end: index) {
    return
  }
}

// -----

func.func @main(%x: memref<4xf32>) {
  // expected-error@+1 {{kernel 'rows_0' has 2147483647 blocks, and one launch can have 2147483646}}
  func.call @rows_0(%x) {blu.blocks = 2147483647 : i64, blu.chunk = 1 : i64} : (memref<4xf32>) -> ()
  return
}
func.func private @rows_0(memref<4xf32>)

// -----

// MLIR asks no longer what kernels take when they are LLVM functions.
module attributes {gpu.container_module} {
  func.func @main(%x: memref<4xf32>) {
    %c1 = arith.constant 1 : index
    // expected-error@+1 {{the code of kernel 'rows_0' takes 1 buffers, and the launch passes 2}}
    gpu.launch_func @kernels::@rows_0 blocks in (%c1, %c1, %c1) threads in (%c1, %c1, %c1) args(%x : memref<4xf32>, %x : memref<4xf32>)
    return
  }
  gpu.module @kernels {
    llvm.func @rows_0(%x: !llvm.ptr) attributes {gpu.kernel} {
      llvm.return
    }
  }
}
