// Expected errors of the parser, of the verifier, of a Python verifier and of a pass, each in a module of its own.
// RUN: %blu-opt %s --split-input-file --verify-diagnostics --load-pass %S/inputs/drop_negations.py --blu-drop-negations=max-count=0

// expected-error@+1 {{custom op 'nonsense' is unknown}}
nonsense

// -----

func.func @shape(%x: tensor<4xf32>) {
  // expected-error@below {{blu.add: gives f32[4], but the result is declared as f32[5]}}
  %0 = "blu.add"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @pass(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.negative"(%0) : (tensor<4xf32>) -> tensor<4xf32> // expected-error-re {{more than {{[0-9]+}} negations}}
  return %1 : tensor<4xf32>
}

// -----

func.func @fine() {
  return
}
