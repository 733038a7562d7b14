// A user's pass between two of MLIR's, as pipeline text and as flags.
// RUN: %blu-opt %s --load-pass %S/inputs/drop_negations.py --pass-pipeline='cse,blu-drop-negations{max-count=9},canonicalize' | %filecheck %s
// RUN: %blu-opt %s --load-pass %S/inputs/drop_negations.py --cse --blu-drop-negations=max-count=9 --canonicalize | %filecheck %s

// CHECK-LABEL: func.func @main
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.negative"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
