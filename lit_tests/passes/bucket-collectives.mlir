// Sums over ranks become one of all their elements, where the last of these is made.
// RUN: %blu-opt %s --split-input-file --blu-bucket-collectives --mlir-print-local-scope | %filecheck %s

// What is made first comes first, whatever the order in which sums were written.
// CHECK-LABEL: func.func @in_the_order_of_making(
// CHECK: %[[FIRST:.*]] = "blu.exp"
// CHECK: %[[SECOND:.*]] = "blu.tanh"
// CHECK: %[[A:.*]] = "blu.reshape"(%[[FIRST]]){{.*}}-> tensor<6xf32>
// CHECK: %[[ALL:.*]] = "blu.concatenate"(%[[A]], %[[SECOND]])
// CHECK: "blu.all_reduce"(%[[ALL]]){{.*}}tensor<10xf32>
// CHECK-NOT: "blu.all_reduce"
// CHECK: return
func.func @in_the_order_of_making(%x: tensor<2x3xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<2x3xf32>) {
  %0 = "blu.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "blu.tanh"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "blu.all_reduce"(%1) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "blu.all_reduce"(%0) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %2, %3 : tensor<4xf32>, tensor<2x3xf32>
}

// -----

// A sum whose result the next one's operand is made of travels alone, before it.
// CHECK-LABEL: func.func @one_waits_for_another(
// CHECK: %[[TOTAL:.*]] = "blu.all_reduce"(%{{.*}}){{.*}}tensor<4xf32>
// CHECK: "blu.exp"(%[[TOTAL]])
// CHECK: "blu.all_reduce"
// CHECK: return
func.func @one_waits_for_another(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.exp"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "blu.all_reduce"(%1) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// -----

// Other axes, reductions and dtypes are not added up together.
// CHECK-LABEL: func.func @what_differs_stays_apart(
// CHECK-NOT: "blu.concatenate"
// CHECK-COUNT-4: "blu.all_reduce"
func.func @what_differs_stays_apart(%x: tensor<4xf32>, %y: tensor<4xf64>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>) {
  %0 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.all_reduce"(%x) {axis = "tp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "blu.all_reduce"(%x) {axis = "dp", ranks = 2 : i64, reduction = "max"} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "blu.all_reduce"(%y) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf64>) -> tensor<4xf64>
  return %0, %1, %2, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf64>
}

// -----

// Sums of sums over another axis stay behind these, whatever travels with them.
// CHECK-LABEL: func.func @sums_of_sums(
// CHECK: %[[DP:.*]] = "blu.all_reduce"({{.*}}axis = "dp"{{.*}}tensor<8xf32>
// CHECK: "blu.all_reduce"({{.*}}axis = "tp"{{.*}}tensor<8xf32>
// CHECK: return
func.func @sums_of_sums(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.all_reduce"(%0) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "blu.exp"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "blu.all_reduce"(%2) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "blu.all_reduce"(%1) {axis = "tp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = "blu.all_reduce"(%3) {axis = "tp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  return %4, %5 : tensor<4xf32>, tensor<4xf32>
}

// -----

// Tensors of whole lines of memory (64 bytes) come first, whatever was made before them, so that each begins at one.
// CHECK-LABEL: func.func @what_is_aligned_stays_so(
// CHECK: %[[SCALAR:.*]] = "blu.exp"(%arg0){{.*}}tensor<f32>
// CHECK: %[[ROWS:.*]] = "blu.exp"(%arg1)
// CHECK: %[[A:.*]] = "blu.reshape"(%[[ROWS]]){{.*}}-> tensor<32xf32>
// CHECK: %[[B:.*]] = "blu.reshape"(%[[SCALAR]]){{.*}}-> tensor<1xf32>
// CHECK: %[[ALL:.*]] = "blu.concatenate"(%[[A]], %[[B]])
// CHECK: "blu.all_reduce"(%[[ALL]]){{.*}}tensor<33xf32>
func.func @what_is_aligned_stays_so(%x: tensor<f32>, %y: tensor<2x16xf32>) -> (tensor<f32>, tensor<2x16xf32>) {
  %0 = "blu.exp"(%x) : (tensor<f32>) -> tensor<f32>
  %1 = "blu.exp"(%y) : (tensor<2x16xf32>) -> tensor<2x16xf32>
  %2 = "blu.all_reduce"(%0) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<f32>) -> tensor<f32>
  %3 = "blu.all_reduce"(%1) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<2x16xf32>) -> tensor<2x16xf32>
  return %2, %3 : tensor<f32>, tensor<2x16xf32>
}

// -----

// What is a bucket by itself (128 MiB here) travels as it is; what is made before and after it, together.
// CHECK-LABEL: func.func @a_large_one_is_not_copied(
// CHECK: %[[LARGE:.*]] = "blu.tanh"(%{{.*}}) : (tensor<33554432xf32>)
// CHECK: "blu.all_reduce"(%[[LARGE]])
// CHECK: %[[ALL:.*]] = "blu.concatenate"(%{{.*}}, %{{.*}}){{.*}}-> tensor<8xf32>
// CHECK: "blu.all_reduce"(%[[ALL]]){{.*}}tensor<8xf32>
// CHECK-NOT: "blu.all_reduce"
// CHECK: return
func.func @a_large_one_is_not_copied(%x: tensor<4xf32>, %y: tensor<33554432xf32>) -> (tensor<4xf32>, tensor<33554432xf32>, tensor<4xf32>) {
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.tanh"(%y) : (tensor<33554432xf32>) -> tensor<33554432xf32>
  %2 = "blu.negative"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %3 = "blu.all_reduce"(%0) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "blu.all_reduce"(%1) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<33554432xf32>) -> tensor<33554432xf32>
  %5 = "blu.all_reduce"(%2) {axis = "dp", ranks = 2 : i64, reduction = "sum"} : (tensor<4xf32>) -> tensor<4xf32>
  return %3, %4, %5 : tensor<4xf32>, tensor<33554432xf32>, tensor<4xf32>
}
