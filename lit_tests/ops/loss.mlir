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

// -----

// Where no kernel takes it whole, all logits are formed again.
// CHECK-LABEL: func.func @settle_rows(
// CHECK-SAME: %[[TERMS:.+]]: tensor<3x8xf32>, %[[SUMS:.+]]: tensor<3xf32>, %[[X:.+]]: tensor<3x2xf32>, %[[W:.+]]: tensor<8x2xf32>, %[[T:.+]]: tensor<3xi32>)
// CHECK: %[[TURNED:.+]] = "blu.transpose"(%[[W]])
// CHECK: %[[LOGITS:.+]] = "blu.matmul"(%[[X]], %[[TURNED]]) {precision = "highest"}
// CHECK: %[[MAX:.+]] = "blu.max"(%[[LOGITS]]) {axes = array<i64: 1>, keepdims = true}
// CHECK: %[[LESS:.+]] = "blu.subtract"(%[[LOGITS]], %[[MAX]])
// CHECK: %[[AGAIN:.+]] = "blu.exp"(%[[LESS]])
// CHECK: %[[LIMIT:.+]] = "blu.constant"() {value = dense<{{.+}}> : tensor<f32>}
// CHECK: %[[KEPT:.+]] = "blu.less_equal"(%[[SUMS]], %[[LIMIT]])
// CHECK: %[[COLUMN:.+]] = "blu.reshape"(%[[T]]) {shape = array<i64: 3, 1>}
// CHECK: %[[AT_TARGET:.+]] = "blu.equal"(%{{.+}}, %[[COLUMN]])
// CHECK: %[[OTHERS:.+]] = "blu.where"(%[[KEPT]], %[[SUMS]], %{{.+}})
// CHECK: %[[TOTAL:.+]] = "blu.add"(%[[OTHERS]], %{{.+}})
// CHECK: %[[NEAR:.+]] = "blu.log1p"
// CHECK: %[[LOSS:.+]] = "blu.where"(%[[KEPT]], %[[NEAR]], %{{.+}})
// CHECK: return %{{.+}}, %[[TOTAL]], %[[LOSS]]
func.func @settle_rows(%terms: tensor<3x8xf32>, %sums: tensor<3xf32>, %x: tensor<3x2xf32>, %w: tensor<8x2xf32>, %t: tensor<3xi32>) -> (tensor<3x8xf32>, tensor<3xf32>, tensor<3xf32>) {
  %0:3 = "blu.settle_rows"(%terms, %sums, %x, %w, %t) : (tensor<3x8xf32>, tensor<3xf32>, tensor<3x2xf32>, tensor<8x2xf32>, tensor<3xi32>) -> (tensor<3x8xf32>, tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1, %0#2 : tensor<3x8xf32>, tensor<3xf32>, tensor<3xf32>
}
