// A kernel reads nothing before it waits that launches which still run may write, wherever that is in the arena.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --blu-check-early-launches

// What no kernel writes, what others are not passed, and what was written before.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>, %b: memref<16xf32>) attributes {arg_attrs = [{}, {blu.donated}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = 128 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%1 : memref<16xf32>, %2 : memref<16xf32>) {blu.early}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%b : memref<16xf32>, %0 : memref<16xf32>) {blu.early}
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %2 : memref<16xf32>) {blu.early}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%1 : memref<16xf32>, %0 : memref<16xf32>) {blu.early}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %1 : memref<16xf32>)
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// A result of the launch before.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    // expected-error@below {{'reads_first' reads argument 0 before it waits for 'waits_first', which may write to the same memory}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// A buffer whose memory is used again, in part.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 32 : i64} : () -> memref<16xf32>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = 128 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>)
    // expected-error@below {{'reads_first' reads argument 0 before it waits}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %2 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// A part of a buffer.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<32xf32>
    %1 = "plan.part"(%0) {offset = 64 : i64} : (memref<32xf32>) -> memref<16xf32>
    %2 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    %3 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = 128 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %2 : memref<16xf32>)
    // expected-error@below {{'reads_first' reads argument 0 before it waits}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%1 : memref<16xf32>, %3 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// An argument that may be written over.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{blu.donated}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %a : memref<16xf32>)
    // expected-error@below {{'reads_first' reads argument 0 before it waits}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// A result of the program.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "output", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    // expected-error@below {{'reads_first' reads argument 0 before it waits}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// In the body of a loop, any two arguments may be one.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>, %b: memref<16xf32>) attributes {arg_attrs = [{}, {}], blu.loop_body = 1 : i64} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %a : memref<16xf32>)
    // expected-error@below {{'reads_first' reads argument 0 before it waits}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%b : memref<16xf32>, %0 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// A launch that lets the next one begin before it has waited.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = 128 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    gpu.launch_func @kernels::@lets_begin_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    // expected-error@below {{'reads_first' reads argument 0 before it waits for 'waits_first'}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %2 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @lets_begin_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// One that has waited: all before it are over.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = 128 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %2 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// One that does not begin early: so are they.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = 128 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    gpu.launch_func @kernels::@lets_begin_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>)
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%0 : memref<16xf32>, %2 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
    gpu.func @lets_begin_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// A kernel that writes before it waits.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@writes_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    // expected-error@below {{the launch of 'writes_first' begins early, but its kernel has 'memref.store' before it waits}}
    gpu.launch_func @kernels::@writes_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @writes_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      gpu.return
    }
  }
}

// -----

// A kernel that does not wait.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>) attributes {arg_attrs = [{}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 0 : i64} : () -> memref<16xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = 64 : i64} : () -> memref<16xf32>
    gpu.launch_func @kernels::@never_waits blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %0 : memref<16xf32>)
    // expected-error@below {{the launch of 'never_waits' begins early, but its kernel }}
    gpu.launch_func @kernels::@never_waits blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %1 : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @never_waits(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// The first of a program: what came before it may write to anything.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>, %b: memref<16xf32>) attributes {arg_attrs = [{}, {}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    // expected-error@below {{'reads_first' reads before it waits for what came before the program}}
    gpu.launch_func @kernels::@reads_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %b : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @reads_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      %0 = memref.load %x[%c0] : memref<16xf32>
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}

// -----

// One that waits.
module attributes {gpu.container_module} {
  func.func @main(%a: memref<16xf32>, %b: memref<16xf32>) attributes {arg_attrs = [{}, {}]} {
    %c1 = arith.constant 1 : index
    %c32 = arith.constant 32 : index
    gpu.launch_func @kernels::@waits_first blocks in (%c1, %c1, %c1) threads in (%c32, %c1, %c1) args(%a : memref<16xf32>, %b : memref<16xf32>) {blu.early}
    return
  }
  gpu.module @kernels {
    gpu.func @waits_first(%x: memref<16xf32>, %y: memref<16xf32>) kernel {
      %c0 = arith.constant 0 : index
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.wait;", "~{memory}" : () -> ()
      llvm.inline_asm has_side_effects asm_dialect = att "griddepcontrol.launch_dependents;", "~{memory}" : () -> ()
      %0 = memref.load %x[%c0] : memref<16xf32>
      memref.store %0, %y[%c0] : memref<16xf32>
      gpu.return
    }
  }
}
