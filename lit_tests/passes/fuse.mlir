// Which ops become one kernel. What walks the same loops and reads values where they are made belongs together.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse' --mlir-print-local-scope | %filecheck %s

// Vertically: a chain of elementwise ops.
// CHECK-LABEL: func.func @chain(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[Y:.+]]: tensor<4xf32>)
// CHECK-NEXT: %[[RESULT:.+]] = call @rows_0(%[[X]], %[[Y]])
// CHECK-NEXT: return %[[RESULT]]
// CHECK-LABEL: func.func private @rows_0(
// CHECK-SAME: attributes {blu.kernel = "rows"}
// CHECK: math.exp
// CHECK: affine_map<(d0, d1) -> (d1)>
// CHECK: arith.addf
// CHECK: math.tanh
// CHECK-NOT: func.func
func.func @chain(%x: tensor<3x4xf32>, %y: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "blu.add"(%0, %y) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %2 = "blu.tanh"(%1) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// -----

// Reductions over the last dimension, and what follows them in the same rows.
// CHECK-LABEL: func.func @softmax(
// CHECK: call @rows_0(
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @rows_0(
// CHECK: "reduction"
// CHECK: arith.maximumf
// CHECK: arith.subf
// CHECK: math.exp
// CHECK: "reduction"
// CHECK: arith.addf
// CHECK: arith.mulf
// CHECK-NOT: func.func
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.softmax"(%x) {axis = 1 : i64} : (tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// -----

// What follows a product reads other tensors at the place of the sum; rows that are gathered are added by a kernel after it.
// CHECK-LABEL: func.func @product_and_gathered_rows(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[W:.+]]: tensor<4x5xf32>, %[[T:.+]]: tensor<9x5xf32>, %[[I:.+]]: tensor<3xi64>)
// CHECK: %[[P:.+]] = call @gemm_0(%[[X]], %[[W]])
// CHECK: call @rows_{{.+}}(%[[I]], %[[T]], %[[P]])
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @gemm_0(
// CHECK: linalg.contract
// CHECK-NOT: tensor.extract
// CHECK: func.func private @rows_
func.func @product_and_gathered_rows(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %t: tensor<9x5xf32>, %i: tensor<3xi64>) -> tensor<3x5xf32> {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = "blu.take"(%t, %i) {axis = 0 : i64} : (tensor<9x5xf32>, tensor<3xi64>) -> tensor<3x5xf32>
  %2 = "blu.add"(%0, %1) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %2 : tensor<3x5xf32>
}

// -----

// The epilogue of a matrix product: bias, activation, residual.
// CHECK-LABEL: func.func @epilogue(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[W:.+]]: tensor<4x5xf32>, %[[B:.+]]: tensor<5xf32>, %[[R:.+]]: tensor<3x5xf32>)
// CHECK-NEXT: call @gemm_0(%[[X]], %[[W]], %[[B]], %[[R]])
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @gemm_0(
// CHECK-SAME: attributes {blu.kernel = "gemm"}
// CHECK: linalg.contract
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK: arith.addf
// CHECK-NOT: func.func
func.func @epilogue(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %b: tensor<5xf32>, %r: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = "blu.add"(%0, %b) : (tensor<3x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  %2 = "blu.relu"(%1) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %3 = "blu.add"(%2, %r) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  return %3 : tensor<3x5xf32>
}

// -----

// What comes before a matrix product is a kernel of its own, since the product reads each value many times.
// CHECK-LABEL: func.func @prologue(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>, %[[W:.+]]: tensor<4x5xf32>)
// CHECK-NEXT: %[[E:.+]] = call @rows_0(%[[X]])
// CHECK-NEXT: %[[P:.+]] = call @gemm_0(%[[E]], %[[W]])
// CHECK-NEXT: return %[[P]]
func.func @prologue(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0 = "blu.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "blu.matmul"(%0, %w) {precision = "highest"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// -----

// Horizontally: two reductions of the same rows read them once.
// CHECK-LABEL: func.func @siblings(
// CHECK-NEXT: %[[BOTH:.+]]:2 = call @rows_0(
// CHECK-NEXT: return %[[BOTH]]#0, %[[BOTH]]#1
// CHECK-LABEL: func.func private @rows_0(
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK-NOT: func.func
func.func @siblings(%x: tensor<3x4xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "blu.sum"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  %1 = "blu.max"(%x) {axes = array<i64: 1>, keepdims = false} : (tensor<3x4xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// A product's kernel stays one when something that reads the same joins it.
// CHECK-LABEL: func.func @sibling_of_product(
// CHECK-NEXT: %[[BOTH:.+]]:2 = call @gemm_0(
// CHECK-NEXT: return %[[BOTH]]#0, %[[BOTH]]#1
func.func @sibling_of_product(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>, %y: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = "blu.multiply"(%0, %y) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %2 = "blu.tanh"(%y) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %1, %2 : tensor<3x5xf32>, tensor<3x5xf32>
}

// -----

// A group never waits for itself: the difference needs the sum over rows, which needs the exponential to be finished.
// CHECK-LABEL: func.func @no_cycle(
// CHECK-SAME: %[[X:.+]]: tensor<3x4xf32>)
// CHECK-NEXT: %[[E:.+]] = call @rows_0(%[[X]])
// CHECK-NEXT: %[[S:.+]] = call @loops_0(%[[E]])
// CHECK-NEXT: %[[D:.+]] = call @rows_1(%[[E]], %[[S]])
// CHECK-NEXT: return %[[D]]
func.func @no_cycle(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "blu.sum"(%0) {axes = array<i64: 0>, keepdims = false} : (tensor<3x4xf32>) -> tensor<4xf32>
  %2 = "blu.subtract"(%0, %1) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %2 : tensor<3x4xf32>
}

// -----

// A value that is read outside of its kernel is one of the kernel's results.
// CHECK-LABEL: func.func @two_results(
// CHECK-NEXT: %[[BOTH:.+]]:2 = call @gemm_0(
// CHECK-NEXT: return %[[BOTH]]#0, %[[BOTH]]#1
// CHECK-LABEL: func.func private @gemm_0(
// CHECK: %[[PRODUCT:.+]] = linalg.contract
// CHECK: %[[TANH:.+]] = linalg.generic {{.*}} ins(%[[PRODUCT]]
// CHECK: return %[[PRODUCT]], %[[TANH]]
func.func @two_results(%x: tensor<3x4xf32>, %w: tensor<4x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  %0 = "blu.matmul"(%x, %w) {precision = "highest"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = "blu.tanh"(%0) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  return %0, %1 : tensor<3x5xf32>, tensor<3x5xf32>
}

// -----

// Views stay in the host program: they become strides.
// CHECK-LABEL: func.func @views(
// CHECK-SAME: %[[X:.+]]: tensor<6x4xf32>)
// CHECK: %[[PART:.+]] = tensor.extract_slice %[[X]]
// CHECK: %[[TURNED:.+]] = linalg.transpose ins(%[[PART]]
// CHECK: call @rows_0(%[[TURNED]])
// CHECK-NEXT: return
func.func @views(%x: tensor<6x4xf32>) -> tensor<4x2xf32> {
  %0 = "blu.slice"(%x) {starts = array<i64: 1, 0>, limits = array<i64: 3, 4>, strides = array<i64: 1, 1>} : (tensor<6x4xf32>) -> tensor<2x4xf32>
  %1 = "blu.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<4x2xf32>
  %2 = "blu.exp"(%1) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %2 : tensor<4x2xf32>
}

// -----

// A gather reads its table from inside of its body, and fuses like any loop; the check of its indices is for the host.
// CHECK-LABEL: func.func @gather(
// CHECK-SAME: %[[W:.+]]: tensor<9x4xf32>, %[[I:.+]]: tensor<3xi32>, %[[P:.+]]: tensor<3x4xf32>)
// CHECK-NEXT: %[[FOUND:.+]] = call @rows_0(%[[I]])
// CHECK-NEXT: "plan.check"(%[[FOUND]])
// CHECK-NEXT: %[[SUM:.+]] = call @rows_1(%[[I]], %[[W]], %[[P]])
// CHECK-NEXT: return %[[SUM]]
// CHECK-LABEL: func.func private @rows_1(
// CHECK-SAME: %{{.+}}: tensor<3xi32>, %[[TABLE:.+]]: tensor<9x4xf32>, %{{.+}}: tensor<3x4xf32>)
// CHECK: tensor.extract %[[TABLE]]
// CHECK: arith.addf
func.func @gather(%w: tensor<9x4xf32>, %i: tensor<3xi32>, %p: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = "blu.take"(%w, %i) {axis = 0 : i64} : (tensor<9x4xf32>, tensor<3xi32>) -> tensor<3x4xf32>
  %1 = "blu.add"(%0, %p) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// -----

// Loops that make what follows a product come to it, even where others read what they make on the way.
// CHECK-LABEL: func.func @joined_by_a_product(
// CHECK-NEXT: %[[BOTH:.+]]:2 = call @gemm_0(
// CHECK-NEXT: %[[SECOND:.+]] = call @gemm_1(
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @gemm_0(
// CHECK: linalg.contract
// CHECK: math.exp
// CHECK: arith.mulf
// CHECK-LABEL: func.func private @gemm_1(
func.func @joined_by_a_product(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>, %x: tensor<3x5xf32>, %y: tensor<5x2xf32>) -> (tensor<3x5xf32>, tensor<3x2xf32>) {
  %0 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  %1 = "blu.exp"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %2 = "blu.multiply"(%0, %1) : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %3 = "blu.matmul"(%1, %y) {precision = "highest"} : (tensor<3x5xf32>, tensor<5x2xf32>) -> tensor<3x2xf32>
  return %2, %3 : tensor<3x5xf32>, tensor<3x2xf32>
}
