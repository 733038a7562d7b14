// A loop that goes on while something is true is one step of the host program, which is done again; what its body finds
// at indices is carried, as the number of steps is not known.
// RUN: %blu-opt %s --blu-outline-loops --lower-to-linalg --blu-lift-checks --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func private @body_0(
// CHECK-SAME: %{{.+}}: tensor<i1> {blu.donated, blu.name = "carry.0"}, %[[AT:.+]]: tensor<i64> {blu.donated, blu.name = "carry.1"}, %[[X:.+]]: tensor<f32> {blu.donated, blu.name = "carry.2"},
// CHECK-SAME: %[[WORST:.+]]: tensor<i64> {blu.donated}, %[[TABLE:.+]]: tensor<5xf32>)
// CHECK-SAME: blu.loop_body = 4 : i64
// CHECK: %[[NOW:.+]] = linalg.generic {{.*}} ins(%[[WORST]], %{{.+}} : tensor<i64>, tensor<i64>)
// CHECK: arith.maxui
// CHECK: return %{{.+}}, %{{.+}}, %{{.+}}, %[[NOW]] : tensor<i1>, tensor<i64>, tensor<f32>, tensor<i64>
// CHECK-LABEL: func.func @main(
// CHECK: %[[LOOP:.+]]:4 = "plan.loop"(%{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}}) {arena = -1 : i64, blu.goes_on, body = @body_0, carries = 4 : i64, count = 1 : i64,
// CHECK: "plan.check"(%[[LOOP]]#3)
// CHECK: return %[[LOOP]]#2
#takes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
#gives = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>
func.func @main(%goes_on: tensor<i1>, %at: tensor<i64>, %x: tensor<f32>, %table: tensor<5xf32>) -> tensor<f32> {
  %0:3 = "blu.while_loop"(%goes_on, %at, %x, %table) ({
  ^bb0(%a: tensor<i1>, %b: tensor<i64>, %c: tensor<f32>, %d: tensor<5xf32>):
    %1 = "blu.take"(%d, %b) {axis = 0 : i64} : (tensor<5xf32>, tensor<i64>) -> tensor<f32>
    %2 = "blu.less"(%1, %c) : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %3 = "blu.add"(%b, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    "blu.yield"(%2, %3, %1) {operandSegmentSizes = #gives} : (tensor<i1>, tensor<i64>, tensor<f32>) -> ()
  }) {operandSegmentSizes = #takes, resultSegmentSizes = #gives} : (tensor<i1>, tensor<i64>, tensor<f32>, tensor<5xf32>) -> (tensor<i1>, tensor<i64>, tensor<f32>)
  return %0#2 : tensor<f32>
}
