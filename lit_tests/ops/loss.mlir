// The loss is written in simpler ops before it is lowered.
// RUN: %blu-opt %s --split-input-file --blu-decompose | %filecheck %s

// CHECK-LABEL: func.func @cross_entropy(
// CHECK-SAME: %[[X:.+]]: tensor<3x8xf32>, %[[T:.+]]: tensor<3xi32>)
// CHECK: %[[CONST:.+]] = "blu.constant"() {value = dense<-100> : tensor<i32>}
// CHECK: %[[NOT_EQUAL:.+]] = "blu.not_equal"(%[[T]], %[[CONST]])
// CHECK: %[[CONST_1:.+]] = "blu.constant"() {value = dense<0> : tensor<i32>}
// CHECK: %[[WHERE:.+]] = "blu.where"(%[[NOT_EQUAL]], %[[T]], %[[CONST_1]])
// CHECK: %[[RESHAPE:.+]] = "blu.reshape"(%[[WHERE]]) {shape = array<i64: 3, 1>}
// CHECK: %[[CHECKED:.+]] = "blu.checked_index"(%[[RESHAPE]]) {from_end = false, {{.*}}reported_as = "cross_entropy"
// CHECK: %[[MAX:.+]] = "blu.max"(%[[X]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[TAKE_ALONG_AXIS:.+]] = "blu.take_along_axis"(%[[X]], %[[CHECKED]]) {axis = 1 : i64}
// CHECK: %[[PICKED:.+]] = "blu.subtract"(%[[TAKE_ALONG_AXIS]], %[[MAX]])
// CHECK: %[[RESHAPE_1:.+]] = "blu.reshape"(%[[PICKED]]) {shape = array<i64: 3>}
// CHECK: %[[SUBTRACT:.+]] = "blu.subtract"(%[[X]], %[[MAX]])
// CHECK: %[[EXP:.+]] = "blu.exp"(%[[SUBTRACT]])
// CHECK: %[[SUM:.+]] = "blu.sum"(%[[EXP]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[RESHAPE_2:.+]] = "blu.reshape"(%[[SUM]]) {shape = array<i64: 3>}
// CHECK: %[[LOG:.+]] = "blu.log"(%[[RESHAPE_2]])
// CHECK: %[[SUBTRACT_1:.+]] = "blu.subtract"(%[[LOG]], %[[RESHAPE_1]])
// CHECK: %[[CONST_4:.+]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK: %[[WHERE_2:.+]] = "blu.where"(%[[NOT_EQUAL]], %[[SUBTRACT_1]], %[[CONST_4]])
// CHECK: return %[[WHERE_2]] : tensor<3xf32>
func.func @cross_entropy(%x: tensor<3x8xf32>, %t: tensor<3xi32>) -> tensor<3xf32> {
  %0 = "blu.cross_entropy"(%x, %t) {ignore_index = -100 : i64} : (tensor<3x8xf32>, tensor<3xi32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
