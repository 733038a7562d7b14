// Less precision is a conversion there and back.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @reduce_precision(
// CHECK: "blu.convert"(
// CHECK: "blu.convert"(
func.func @reduce_precision(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = "blu.reduce_precision"(%x) {dtype = f16, rounds_gradient = false} : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}
