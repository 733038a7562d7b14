// A declared gradient gets its body, and then everything is inlined into the program.
// RUN: %blu-opt %s --blu-differentiate | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='blu-differentiate,blu-inline' | %filecheck %s --check-prefix=INLINED

// Forward, then backward from the sum to the exponential, whose gradient is its result.
// CHECK-LABEL: func.func private @f_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) attributes {blu.forward_ops = 2 : i64} {
// CHECK-NEXT: %[[E:.+]] = "blu.exp"(%[[X]])
// CHECK-NEXT: %[[S:.+]] = "blu.sum"(%[[E]])
// CHECK: %[[ONE:.+]] = "blu.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: %[[G:.+]] = "blu.broadcast_to"(%{{.+}}) {shape = array<i64: 3>}
// CHECK: %[[D:.+]] = "blu.multiply"(%[[G]], %[[E]])
// CHECK-NEXT: return %[[S]], %[[D]]

// INLINED-NOT: private
// INLINED-LABEL: func.func @main(
// INLINED-NEXT: "blu.exp"
// INLINED-NOT: call
// INLINED: return
func.func private @f(%x: tensor<3xf32>) -> tensor<f32> {
  %0 = "blu.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "blu.sum"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<3xf32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @f_gradient(tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) attributes {blu.gradient_of = @f, blu.with_respect_to = array<i64: 0>}
func.func @main(%x: tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>) {
  %0:2 = call @f_gradient(%x) : (tensor<3xf32>) -> (tensor<f32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<f32>, tensor<3xf32>
}

// What a function calls may call others: all of it is differentiated.
// CHECK-LABEL: func.func private @nested_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<f32>)
// CHECK-NEXT: %[[SIN:.+]] = "blu.sin"(%[[X]])
// CHECK: %[[COS:.+]] = "blu.cos"(%[[X]])
// CHECK: %[[D:.+]] = "blu.multiply"(%{{.+}}, %[[COS]])
// CHECK-NEXT: return %[[SIN]], %[[D]]
func.func private @inner(%x: tensor<f32>) -> tensor<f32> {
  %0 = "blu.sin"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @middle(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @inner(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @nested(%x: tensor<f32>) -> tensor<f32> {
  %0 = call @middle(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @nested_gradient(tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {blu.gradient_of = @nested, blu.with_respect_to = array<i64: 0>}

// What goes through blu.stop_gradient is a constant: the gradient of x * stop(x) is stop(x), times one.
// CHECK-LABEL: func.func private @stopped_gradient(
// CHECK-SAME: %[[X:.+]]: tensor<f32>)
// CHECK-NEXT: %[[STOPPED:.+]] = "blu.stop_gradient"(%[[X]])
// CHECK-NEXT: %[[Y:.+]] = "blu.multiply"(%[[X]], %[[STOPPED]])
// CHECK: %[[ONE:.+]] = "blu.constant"() {value = dense<1.000000e+00> : tensor<f32>}
// CHECK: %[[D:.+]] = "blu.multiply"(%[[ONE]], %[[STOPPED]])
// CHECK: return %[[Y]], %[[D]]
func.func private @stopped(%x: tensor<f32>) -> tensor<f32> {
  %0 = "blu.stop_gradient"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "blu.multiply"(%x, %0) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1 : tensor<f32>
}
func.func private @stopped_gradient(tensor<f32>) -> (tensor<f32>, tensor<f32>) attributes {blu.gradient_of = @stopped, blu.with_respect_to = array<i64: 0>}

// A pullback takes the gradients of results, and what ops with effects gave: here there are none.
// CHECK-LABEL: func.func private @pair_pullback(
// CHECK-SAME: %[[X:.+]]: tensor<3xf32>, %[[G:.+]]: tensor<3xf32>, %[[H:.+]]: tensor<3xf32>) -> tensor<3xf32>
// CHECK-SAME: attributes {blu.forward_ops = 2 : i64} {
// CHECK-NEXT: %[[E:.+]] = "blu.exp"(%[[X]])
// CHECK-NEXT: %{{.+}} = "blu.sin"(%[[X]])
// CHECK-NEXT: %[[C:.+]] = "blu.cos"(%[[X]])
// CHECK-NEXT: %[[B:.+]] = "blu.multiply"(%[[H]], %[[C]])
// CHECK-NEXT: %[[A:.+]] = "blu.multiply"(%[[G]], %[[E]])
// CHECK-NEXT: %[[D:.+]] = "blu.add"(%[[B]], %[[A]])
// CHECK-NEXT: return %[[D]]
func.func private @pair(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "blu.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "blu.sin"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}
func.func private @pair_pullback(tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32> attributes {blu.pullback_of = @pair, blu.pulled_results = array<i64: 0, 1>, blu.with_respect_to = array<i64: 0>}
