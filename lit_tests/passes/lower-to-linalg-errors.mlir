// An op without a rule is refused where it stands: a composite op that nobody has decomposed.
// RUN: %blu-opt %s --verify-diagnostics --lower-to-linalg

func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error@below {{no rule lowers blu.softmax to linalg}}
  %0 = "blu.softmax"(%x) {axis = 1 : i64} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}
