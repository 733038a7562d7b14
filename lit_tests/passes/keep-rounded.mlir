// The forward pass computes what gradients need of a norm and of GELU, and keeps it in halves and in bytes.
// RUN: %blu-opt %s --blu-keep-rounded | %filecheck %s

// CHECK-LABEL: func.func @slope
// CHECK-SAME: (%[[X:.*]]: tensor<32xf32>, %[[G:.*]]: tensor<32xf32>)
// CHECK-SAME: attributes {blu.forward_ops = 8 : i64}
// CHECK-NEXT: "blu.reduce_precision"(%[[X]])
// CHECK-NEXT: %[[S:.*]] = "blu.sin"(%[[X]])
// CHECK-NEXT: %[[T:.*]] = "blu.multiply"(%[[S]], %[[X]])
// CHECK-NEXT: %[[STEPS:.*]] = "blu.constant"() {value = dense<2.000000e+02>
// CHECK-NEXT: %[[SCALED:.*]] = "blu.multiply"(%[[T]], %[[STEPS]])
// CHECK-NEXT: %[[CODE:.*]] = "blu.nearest_byte"(%[[SCALED]]) {above = 27 : i64}
// CHECK-NEXT: %[[H:.*]] = "blu.gelu"(%[[X]])
// CHECK-NEXT: %[[Y:.*]] = "blu.reduce_precision"(%[[H]])
// CHECK-NEXT: %[[A:.*]] = "blu.multiply"(%[[G]], %[[Y]])
// CHECK-NEXT: %[[WIDE:.*]] = "blu.convert"(%[[CODE]]) {dtype = f32}
// CHECK: "blu.constant"() {value = dense<{{5.0*[eE]-03|0.005}}
// CHECK: %[[SCALED_BACK:.*]] = "blu.multiply"(%[[WIDE]],
// CHECK: "blu.constant"() {value = dense<{{1.350*[eE]-01|0.135}}
// CHECK: %[[BACK:.*]] = "blu.subtract"(%[[SCALED_BACK]],
// CHECK-NEXT: "blu.multiply"(%[[G]], %[[BACK]])
func.func @slope(%x: tensor<32xf32>, %g: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>) attributes {blu.forward_ops = 3 : i64} {
  %r = "blu.reduce_precision"(%x) {dtype = bf16, rounds_gradient = true} : (tensor<32xf32>) -> tensor<32xf32>
  %h = "blu.gelu"(%r) {approximate = "tanh"} : (tensor<32xf32>) -> tensor<32xf32>
  %y = "blu.reduce_precision"(%h) {dtype = bf16, rounds_gradient = false} : (tensor<32xf32>) -> tensor<32xf32>
  %a = "blu.multiply"(%g, %y) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %s = "blu.sin"(%r) : (tensor<32xf32>) -> tensor<32xf32>
  %t = "blu.multiply"(%s, %r) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %u = "blu.multiply"(%g, %t) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %a, %u : tensor<32xf32>, tensor<32xf32>
}

// What is given to GELU is read by others, too, or is not rounded: nothing changes.
// CHECK-LABEL: func.func @others
// CHECK-SAME: attributes {blu.forward_ops = 3 : i64}
// CHECK-NOT: u8
func.func @others(%x: tensor<32xf32>, %g: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>) attributes {blu.forward_ops = 3 : i64} {
  %r = "blu.reduce_precision"(%x) {dtype = bf16, rounds_gradient = true} : (tensor<32xf32>) -> tensor<32xf32>
  %h = "blu.gelu"(%r) {approximate = "tanh"} : (tensor<32xf32>) -> tensor<32xf32>
  %y = "blu.reduce_precision"(%h) {dtype = bf16, rounds_gradient = false} : (tensor<32xf32>) -> tensor<32xf32>
  %a = "blu.multiply"(%g, %r) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %s = "blu.sin"(%r) : (tensor<32xf32>) -> tensor<32xf32>
  %u = "blu.multiply"(%a, %s) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %y, %u : tensor<32xf32>, tensor<32xf32>
}

// Who reads what is rounded beside GELU keeps it in memory: the slope is read off that, too.
// CHECK-LABEL: func.func @stored
// CHECK: %[[R:.*]] = "blu.reduce_precision"(%arg0)
// CHECK: "blu.sin"(%[[R]])
// CHECK: "blu.nearest_byte"
// CHECK: "blu.gelu"(%[[R]])
func.func @stored(%x: tensor<32xf32>, %g: tensor<32xf32>) -> (tensor<32xf32>, tensor<32xf32>, tensor<32xf32>) attributes {blu.forward_ops = 4 : i64} {
  %r = "blu.reduce_precision"(%x) {dtype = bf16, rounds_gradient = true} : (tensor<32xf32>) -> tensor<32xf32>
  %n = "blu.negative"(%r) : (tensor<32xf32>) -> tensor<32xf32>
  %h = "blu.gelu"(%r) {approximate = "tanh"} : (tensor<32xf32>) -> tensor<32xf32>
  %y = "blu.reduce_precision"(%h) {dtype = bf16, rounds_gradient = false} : (tensor<32xf32>) -> tensor<32xf32>
  %a = "blu.multiply"(%g, %y) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %s = "blu.sin"(%r) : (tensor<32xf32>) -> tensor<32xf32>
  %t = "blu.multiply"(%s, %r) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  %u = "blu.multiply"(%g, %t) : (tensor<32xf32>, tensor<32xf32>) -> tensor<32xf32>
  return %n, %a, %u : tensor<32xf32>, tensor<32xf32>, tensor<32xf32>
}
