// MLIR's own spellings print the IR on stderr.
// RUN: %blu-opt %s --cse --canonicalize --mlir-print-ir-after-change -o %t 2>&1 | %filecheck %s --check-prefix=CHANGE
// RUN: %blu-opt %s --cse --canonicalize --mlir-print-ir-before=canonicalize -o %t 2>&1 | %filecheck %s --check-prefix=BEFORE
// RUN: %blu-opt %s --mlir-print-debuginfo | %filecheck %s --check-prefix=LOCATION

// CHANGE: IR Dump After cse
// CHANGE-COUNT-1: blu.negative
// CHANGE-NOT: IR Dump
// BEFORE-NOT: cse
// BEFORE: IR Dump Before canonicalize
// LOCATION: loc("{{.*}}print-flags.mlir":{{[0-9]+}}:
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
