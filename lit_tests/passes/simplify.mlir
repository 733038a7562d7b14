// One function for each rule of blu-simplify.
// RUN: %blu-opt %s --blu-simplify | %filecheck %s

// CHECK-LABEL: func.func @nothing_moves
// CHECK-SAME: (%[[X:.*]]: tensor<2x1xf32>)
// CHECK-NEXT: %[[MOVED:.*]] = "blu.reshape"(%[[X]]) {shape = array<i64: 1, 2>}
// CHECK-NEXT: return %[[X]], %[[MOVED]]
func.func @nothing_moves(%x: tensor<2x1xf32>) -> (tensor<2x1xf32>, tensor<1x2xf32>) {
  %value = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "blu.convert"(%x) {dtype = f32} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %1 = "blu.broadcast_to"(%0) {shape = array<i64: 2, 1>} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %2 = "blu.reshape"(%1) {shape = array<i64: 2, 1>} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %3 = "blu.slice"(%2) {starts = array<i64: 0, 0>, limits = array<i64: 2, 1>, strides = array<i64: 1, 1>} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %4 = "blu.pad"(%3, %value) {low = array<i64: 0, 0>, high = array<i64: 0, 0>} : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %5 = "blu.transpose"(%4) {permutation = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %6 = "blu.reverse"(%5) {axes = array<i64: 1>} : (tensor<2x1xf32>) -> tensor<2x1xf32>
  %7 = "blu.transpose"(%6) {permutation = array<i64: 1, 0>} : (tensor<2x1xf32>) -> tensor<1x2xf32>
  return %6, %7 : tensor<2x1xf32>, tensor<1x2xf32>
}

// CHECK-LABEL: func.func @empty_operands
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>, %{{.*}}: tensor<0xf32>)
// CHECK-NEXT: return %[[X]]
func.func @empty_operands(%x: tensor<2xf32>, %nothing: tensor<0xf32>) -> tensor<2xf32> {
  %0 = "blu.concatenate"(%x, %nothing) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2xf32>, tensor<0xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// CHECK-LABEL: func.func @nothing_to_stop
// CHECK-SAME: (%[[X:.*]]: tensor<2xi1>)
// CHECK-NEXT: return %[[X]]
func.func @nothing_to_stop(%x: tensor<2xi1>) -> tensor<2xi1> {
  %0 = "blu.stop_gradient"(%x) : (tensor<2xi1>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// CHECK-LABEL: func.func @chains
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-DAG: %[[RESHAPED:.*]] = "blu.reshape"(%[[X]]) {shape = array<i64: 4, 6>}
// CHECK-DAG: %[[TURNED:.*]] = "blu.transpose"(%[[X]]) {permutation = array<i64: 2, 0, 1>}
// CHECK-DAG: %[[PART:.*]] = "blu.slice"(%[[X]]) {limits = array<i64: 2, 3, 4>, starts = array<i64: 1, 0, 3>, strides = array<i64: 1, 2, 2>}
// CHECK-DAG: %[[SPREAD:.*]] = "blu.broadcast_to"(%[[X]]) {shape = array<i64: 6, 5, 2, 3, 4>}
// CHECK: return %[[RESHAPED]], %[[TURNED]], %[[PART]], %[[SPREAD]]
func.func @chains(%x: tensor<2x3x4xf32>) -> (tensor<4x6xf32>, tensor<4x2x3xf32>, tensor<1x2x1xf32>, tensor<6x5x2x3x4xf32>) {
  %0 = "blu.reshape"(%x) {shape = array<i64: 24>} : (tensor<2x3x4xf32>) -> tensor<24xf32>
  %1 = "blu.reshape"(%0) {shape = array<i64: 4, 6>} : (tensor<24xf32>) -> tensor<4x6xf32>
  %2 = "blu.transpose"(%x) {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %3 = "blu.transpose"(%2) {permutation = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  %4 = "blu.slice"(%x) {starts = array<i64: 0, 0, 1>, limits = array<i64: 2, 3, 4>, strides = array<i64: 1, 2, 2>} : (tensor<2x3x4xf32>) -> tensor<2x2x2xf32>
  %5 = "blu.slice"(%4) {starts = array<i64: 1, 0, 1>, limits = array<i64: 2, 2, 2>, strides = array<i64: 1, 1, 1>} : (tensor<2x2x2xf32>) -> tensor<1x2x1xf32>
  %6 = "blu.broadcast_to"(%x) {shape = array<i64: 5, 2, 3, 4>} : (tensor<2x3x4xf32>) -> tensor<5x2x3x4xf32>
  %7 = "blu.broadcast_to"(%6) {shape = array<i64: 6, 5, 2, 3, 4>} : (tensor<5x2x3x4xf32>) -> tensor<6x5x2x3x4xf32>
  return %1, %3, %5, %7 : tensor<4x6xf32>, tensor<4x2x3xf32>, tensor<1x2x1xf32>, tensor<6x5x2x3x4xf32>
}

// A detour through a wider dtype goes; one that rounds or saturates stays.
// CHECK-LABEL: func.func @conversions
// CHECK-SAME: (%[[X:.*]]: tensor<bf16>, %[[I:.*]]: tensor<i32>)
// CHECK-DAG: %[[DIRECT:.*]] = "blu.convert"(%[[X]]) {dtype = i8} : (tensor<bf16>) -> tensor<i8>
// CHECK-DAG: %[[HALF:.*]] = "blu.convert"(%[[X]]) {dtype = f16} : (tensor<bf16>) -> tensor<f16>
// CHECK-DAG: %[[ROUNDED:.*]] = "blu.convert"(%[[HALF]]) {dtype = f32} : (tensor<f16>) -> tensor<f32>
// CHECK-DAG: %[[WIDE:.*]] = "blu.convert"(%[[I]]) {dtype = f64} : (tensor<i32>) -> tensor<f64>
// CHECK-DAG: %[[SATURATED:.*]] = "blu.convert"(%[[WIDE]]) {dtype = i8} : (tensor<f64>) -> tensor<i8>
// CHECK: return %[[DIRECT]], %[[ROUNDED]], %[[SATURATED]]
func.func @conversions(%x: tensor<bf16>, %i: tensor<i32>) -> (tensor<i8>, tensor<f32>, tensor<i8>) {
  %0 = "blu.convert"(%x) {dtype = f64} : (tensor<bf16>) -> tensor<f64>
  %1 = "blu.convert"(%0) {dtype = i8} : (tensor<f64>) -> tensor<i8>
  %2 = "blu.convert"(%x) {dtype = f16} : (tensor<bf16>) -> tensor<f16>
  %3 = "blu.convert"(%2) {dtype = f32} : (tensor<f16>) -> tensor<f32>
  %4 = "blu.convert"(%i) {dtype = f64} : (tensor<i32>) -> tensor<f64>
  %5 = "blu.convert"(%4) {dtype = i8} : (tensor<f64>) -> tensor<i8>
  return %1, %3, %5 : tensor<i8>, tensor<f32>, tensor<i8>
}

// x + 0.0 is not x where x is -0.0.
// CHECK-LABEL: func.func @neutral_elements
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[I:.*]]: tensor<3xi32>)
// CHECK-DAG: %[[ZERO:.*]] = "blu.constant"() {value = dense<0.000000e+00> : tensor<f32>}
// CHECK-DAG: %[[SUM:.*]] = "blu.add"(%[[X]], %[[ZERO]])
// CHECK-DAG: %[[WIDE:.*]] = "blu.broadcast_to"(%[[SUM]]) {shape = array<i64: 2, 3>}
// CHECK: return %[[WIDE]], %[[I]]
func.func @neutral_elements(%x: tensor<3xf32>, %i: tensor<3xi32>) -> (tensor<2x3xf32>, tensor<3xi32>) {
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %minus_zero = "blu.constant"() {value = dense<-0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "blu.constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %ones = "blu.broadcast_to"(%one) {shape = array<i64: 2, 3>} : (tensor<f32>) -> tensor<2x3xf32>
  %all_bits = "blu.constant"() {value = dense<-1> : tensor<3xi32>} : () -> tensor<3xi32>
  %nothing = "blu.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "blu.add"(%x, %zero) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %1 = "blu.add"(%minus_zero, %0) : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "blu.subtract"(%1, %zero) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %3 = "blu.divide"(%2, %one) : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %4 = "blu.multiply"(%3, %ones) : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = "blu.add"(%i, %nothing) : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  %6 = "blu.bitwise_and"(%all_bits, %5) : (tensor<3xi32>, tensor<3xi32>) -> tensor<3xi32>
  %7 = "blu.left_shift"(%6, %nothing) : (tensor<3xi32>, tensor<i32>) -> tensor<3xi32>
  return %4, %7 : tensor<2x3xf32>, tensor<3xi32>
}

// CHECK-LABEL: func.func @undone_and_repeated
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT: %[[FLOOR:.*]] = "blu.floor"(%[[X]])
// CHECK-NEXT: return %[[X]], %[[FLOOR]]
func.func @undone_and_repeated(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "blu.negative"(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "blu.negative"(%0) : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "blu.reverse"(%1) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "blu.reverse"(%2) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3xf32>
  %4 = "blu.floor"(%3) : (tensor<3xf32>) -> tensor<3xf32>
  %5 = "blu.floor"(%4) : (tensor<3xf32>) -> tensor<3xf32>
  return %3, %5 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @choices
// CHECK-SAME: (%[[C:.*]]: tensor<3xi1>, %[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<3xf32>)
// CHECK-NEXT: return %[[Y]], %[[X]]
func.func @choices(%c: tensor<3xi1>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %false = "blu.constant"() {value = dense<false> : tensor<3xi1>} : () -> tensor<3xi1>
  %0 = "blu.where"(%false, %x, %y) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = "blu.where"(%c, %x, %x) : (tensor<3xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: func.func @broadcasting
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>, %[[Y:.*]]: tensor<2x3xf32>)
// CHECK-NEXT: %[[SUM:.*]] = "blu.add"(%[[Y]], %[[X]]) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
// CHECK-NEXT: return %[[SUM]]
func.func @broadcasting(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "blu.broadcast_to"(%x) {shape = array<i64: 2, 3>} : (tensor<3xf32>) -> tensor<2x3xf32>
  %1 = "blu.add"(%y, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// Division by zero warns at run time, and nobody knows the sign of 0/0: both stay.
// CHECK-LABEL: func.func @constants
// CHECK-DAG: %[[FOLDED:.*]] = "blu.constant"() {value = dense<[false, true]> : tensor<2xi1>}
// CHECK-DAG: %[[NAN:.*]] = "blu.divide"
// CHECK-DAG: %[[QUOTIENT:.*]] = "blu.floor_divide"
// CHECK: return %[[FOLDED]], %[[NAN]], %[[QUOTIENT]]
func.func @constants() -> (tensor<2xi1>, tensor<f32>, tensor<i32>) {
  %0 = "blu.constant"() {value = dense<[[1, 5]]> : tensor<1x2xi32>} : () -> tensor<1x2xi32>
  %1 = "blu.constant"() {value = dense<2> : tensor<i32>} : () -> tensor<i32>
  %2 = "blu.multiply"(%0, %1) : (tensor<1x2xi32>, tensor<i32>) -> tensor<1x2xi32>
  %3 = "blu.reshape"(%2) {shape = array<i64: 2>} : (tensor<1x2xi32>) -> tensor<2xi32>
  %4 = "blu.convert"(%3) {dtype = f32} : (tensor<2xi32>) -> tensor<2xf32>
  %5 = "blu.constant"() {value = dense<3.5> : tensor<f32>} : () -> tensor<f32>
  %6 = "blu.greater"(%4, %5) : (tensor<2xf32>, tensor<f32>) -> tensor<2xi1>
  %zero = "blu.constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %7 = "blu.divide"(%zero, %zero) : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %nothing = "blu.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %8 = "blu.floor_divide"(%1, %nothing) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  return %6, %7, %8 : tensor<2xi1>, tensor<f32>, tensor<i32>
}

// A view of what was widened is a view of the narrow numbers; what is rounded to them again is the view itself.
// CHECK-LABEL: func.func @views_of_widened
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xbf16>, %[[N:.*]]: tensor<2x3xi32>)
// CHECK-NEXT: %[[VIEW:.*]] = "blu.transpose"(%[[X]])
// CHECK-NEXT: %[[WIDE:.*]] = "blu.convert"(%[[N]]) {dtype = f32}
// CHECK-NEXT: %[[LAST:.*]] = "blu.transpose"(%[[WIDE]])
// CHECK-NEXT: return %[[VIEW]], %[[LAST]]
func.func @views_of_widened(%x: tensor<2x3xbf16>, %n: tensor<2x3xi32>) -> (tensor<3x2xbf16>, tensor<3x2xf32>) {
  %0 = "blu.convert"(%x) {dtype = f32} : (tensor<2x3xbf16>) -> tensor<2x3xf32>
  %1 = "blu.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %2 = "blu.convert"(%1) {dtype = bf16} : (tensor<3x2xf32>) -> tensor<3x2xbf16>
  %3 = "blu.convert"(%n) {dtype = f32} : (tensor<2x3xi32>) -> tensor<2x3xf32>
  %4 = "blu.transpose"(%3) {permutation = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %2, %4 : tensor<3x2xbf16>, tensor<3x2xf32>
}

// -----

// Narrow numbers are turned around, and padded with a number that they hold.
// CHECK-LABEL: func.func @move_before_widening(
// CHECK-SAME: %[[X:.+]]: tensor<3xbf16>)
// CHECK-DAG: %[[REVERSED:.+]] = "blu.reverse"(%[[X]]) {{.*}} -> tensor<3xbf16>
// CHECK-DAG: "blu.convert"(%[[REVERSED]]) {dtype = f32}
// CHECK-DAG: %[[PADDED:.+]] = "blu.pad"(%[[X]], %{{.+}}) {{.*}} -> tensor<5xbf16>
// CHECK-DAG: "blu.reshape"(%[[PADDED]]) {{.*}} -> tensor<1x5xbf16>
// CHECK-DAG: "blu.pad"(%{{.+}}, %{{.+}}) {{.*}} -> tensor<4xf32>
func.func @move_before_widening(%x: tensor<3xbf16>) -> (tensor<3xf32>, tensor<1x5xf32>, tensor<1x4xf32>) {
  %0 = "blu.convert"(%x) {dtype = f32} : (tensor<3xbf16>) -> tensor<3xf32>
  %1 = "blu.reverse"(%0) {axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3xf32>
  %2 = "blu.constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %3 = "blu.pad"(%0, %2) {high = array<i64: 1>, low = array<i64: 1>} : (tensor<3xf32>, tensor<f32>) -> tensor<5xf32>
  %4 = "blu.constant"() {value = dense<0.1> : tensor<f32>} : () -> tensor<f32>
  %5 = "blu.pad"(%0, %4) {high = array<i64: 1>, low = array<i64: 0>} : (tensor<3xf32>, tensor<f32>) -> tensor<4xf32>
  %6 = "blu.reshape"(%3) {shape = array<i64: 1, 5>} : (tensor<5xf32>) -> tensor<1x5xf32>
  %7 = "blu.reshape"(%5) {shape = array<i64: 1, 4>} : (tensor<4xf32>) -> tensor<1x4xf32>
  return %1, %6, %7 : tensor<3xf32>, tensor<1x5xf32>, tensor<1x4xf32>
}

// -----

// Sums that are put together are rounded before; what is no sum is put together as it is.
// CHECK-LABEL: func.func @narrow_before_copies(
// CHECK-SAME: %[[X:.+]]: tensor<3xf32>, %[[Y:.+]]: tensor<3xf32>)
// CHECK-DAG: %[[SUM:.+]] = "blu.add"(%[[X]], %[[Y]])
// CHECK-DAG: %[[LEFT:.+]] = "blu.convert"(%[[SUM]]) {dtype = bf16}
// CHECK-DAG: %[[DIFFERENCE:.+]] = "blu.subtract"(%[[X]], %[[Y]])
// CHECK-DAG: %[[RIGHT:.+]] = "blu.convert"(%[[DIFFERENCE]]) {dtype = bf16}
// CHECK-DAG: "blu.concatenate"(%[[LEFT]], %[[RIGHT]]) {{.*}} -> tensor<6xbf16>
// CHECK-DAG: "blu.concatenate"(%[[X]], %[[Y]]) {{.*}} -> tensor<6xf32>
func.func @narrow_before_copies(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<6xbf16>, tensor<6xbf16>) {
  %0 = "blu.add"(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %1 = "blu.subtract"(%x, %y) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %2 = "blu.concatenate"(%0, %1) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  %3 = "blu.convert"(%2) {dtype = bf16} : (tensor<6xf32>) -> tensor<6xbf16>
  %4 = "blu.concatenate"(%x, %y) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<3xf32>, tensor<3xf32>) -> tensor<6xf32>
  %5 = "blu.convert"(%4) {dtype = bf16} : (tensor<6xf32>) -> tensor<6xbf16>
  return %3, %5 : tensor<6xbf16>, tensor<6xbf16>
}
