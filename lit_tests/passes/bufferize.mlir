// Every tensor gets a place: views become strides, results buffers that kernels write to.
// RUN: %blu-opt %s --split-input-file --pass-pipeline='blu-decompose,lower-to-linalg,canonicalize,cse,blu-fuse,blu-pair-donations,blu-bufferize' --mlir-print-local-scope | %filecheck %s

// A kernel reads a part of its input by strides and offset, and writes the output itself.
// CHECK-LABEL: func.func @view(
// CHECK-SAME: %[[X:.+]]: memref<6x8xf32>)
// CHECK-SAME: blu.inputs = [tensor<6x8xf32>], blu.results = [tensor<2x4xf32>]
// CHECK-NEXT: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<2x4xf32>
// CHECK-NEXT: %[[PART:.+]] = memref.reinterpret_cast %[[X]] to offset: [8], sizes: [2, 4], strides: [8, 2]
// CHECK-NEXT: call @rows_0(%[[PART]], %[[OUT]])
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @rows_0(
// CHECK-SAME: %[[IN:.+]]: memref<2x4xf32, strided<[8, 2], offset: 8>>, %[[OUT:.+]]: memref<2x4xf32>)
// CHECK: %[[VALUE:.+]] = bufferization.to_tensor %[[IN]] restrict
// CHECK: %[[RESULT:.+]] = linalg.generic {{.*}} ins(%[[VALUE]]
// CHECK: bufferization.materialize_in_destination %[[RESULT]] in restrict writable %[[OUT]]
func.func @view(%x: tensor<6x8xf32>) -> tensor<2x4xf32> {
  %0 = "blu.slice"(%x) {starts = array<i64: 1, 0>, limits = array<i64: 3, 8>, strides = array<i64: 1, 2>} : (tensor<6x8xf32>) -> tensor<2x4xf32>
  %1 = "blu.exp"(%0) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}

// -----

// Where a result is only transposed, it is written in the transposed layout at once.
// CHECK-LABEL: func.func @transposed_layout(
// CHECK-SAME: %[[X:.+]]: memref<3x4xf32>)
// CHECK-NEXT: %[[BUFFER:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "arena"} : () -> memref<4x3xf32>
// CHECK-NEXT: %[[TURNED:.+]] = memref.reinterpret_cast %[[BUFFER]] to offset: [0], sizes: [3, 4], strides: [1, 3]
// CHECK-NEXT: call @rows_0(%[[X]], %[[TURNED]])
// CHECK: call @rows_1(%[[BUFFER]],
func.func @transposed_layout(%x: tensor<3x4xf32>) -> tensor<4x3xf32> {
  %0 = "blu.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "blu.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %2 = "blu.tanh"(%1) : (tensor<4x3xf32>) -> tensor<4x3xf32>
  return %2 : tensor<4x3xf32>
}

// -----

// A product reads its factors in either order, so what it reads transposed is written row by row.
// CHECK-LABEL: func.func @transposed_factor(
// CHECK: %[[BUFFER:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "arena"} : () -> memref<3x4xf32>
// CHECK-NEXT: call @rows_0(%{{.+}}, %[[BUFFER]])
// CHECK: %[[TURNED:.+]] = memref.reinterpret_cast %[[BUFFER]] to offset: [0], sizes: [4, 3], strides: [1, 4]
// CHECK: call @gemm_0(%[[TURNED]],
func.func @transposed_factor(%x: tensor<3x4xf32>, %y: tensor<3x5xf32>) -> tensor<4x5xf32> {
  %0 = "blu.exp"(%x) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %1 = "blu.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %2 = "blu.matmul"(%1, %y) {precision = "highest"} : (tensor<4x3xf32>, tensor<3x5xf32>) -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}

// -----

// A donated input is updated where it is: output 0 is input 0.
// CHECK-LABEL: func.func @in_place(
// CHECK-SAME: %[[CACHE:.+]]: memref<8x4xf32> {blu.donated, blu.result = {{[0-9]+}} : i64}, %[[ROW:.+]]: memref<1x4xf32>, %[[I:.+]]: memref<i32>)
// CHECK-NEXT: call @update_0(%[[ROW]], %[[I]], %[[CACHE]])
// CHECK-NEXT: "plan.alias"(%[[CACHE]]) {result = 0 : i64}
// CHECK-NEXT: return
// CHECK-LABEL: func.func private @update_0(
// CHECK-SAME: %[[ROW:.+]]: memref<1x4xf32>, %[[I:.+]]: memref<i32>, %[[CACHE:.+]]: memref<8x4xf32>)
// CHECK: bufferization.to_tensor %[[CACHE]] restrict writable
// CHECK: tensor.insert_slice
func.func @in_place(%cache: tensor<8x4xf32> {blu.donated}, %row: tensor<1x4xf32>, %i: tensor<i32>) -> tensor<8x4xf32> {
  %c = "blu.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "blu.dynamic_update_slice"(%cache, %row, %i, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// Any other input is copied before it is updated.
// CHECK-LABEL: func.func @copy_before_update(
// CHECK-SAME: %[[CACHE:.+]]: memref<8x4xf32>, %[[ROW:.+]]: memref<1x4xf32>, %[[I:.+]]: memref<i32>)
// CHECK: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"}
// CHECK-NEXT: call @copy_0(%[[CACHE]], %[[OUT]])
// CHECK-NEXT: call @update_0(%[[ROW]], %[[I]], %[[OUT]])
// CHECK-NEXT: return
func.func @copy_before_update(%cache: tensor<8x4xf32>, %row: tensor<1x4xf32>, %i: tensor<i32>) -> tensor<8x4xf32> {
  %c = "blu.constant"() {value = dense<0> : tensor<i32>} : () -> tensor<i32>
  %0 = "blu.dynamic_update_slice"(%cache, %row, %i, %c) {operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// -----

// An updated value that is needed later keeps its memory.
// CHECK-LABEL: func.func @needed_later(
// CHECK: %[[E:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @rows_0(%{{.+}}, %[[E]])
// CHECK: %[[U:.+]] = "plan.buffer"() {index = 1 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @copy_0(%[[E]], %[[U]])
// CHECK: call @update_0(%{{.+}}, %{{.+}}, %[[U]])
func.func @needed_later(%x: tensor<8xf32>, %row: tensor<2xf32>, %i: tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = "blu.exp"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "blu.dynamic_update_slice"(%0, %row, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8xf32>, tensor<2xf32>, tensor<i32>) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// An update with a part of the value itself reads what it overwrites, so it gets memory of its own.
// CHECK-LABEL: func.func @overlap(
// CHECK: %[[E:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "arena"}
// CHECK: call @rows_0(%{{.+}}, %[[E]])
// CHECK: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @copy_0(%[[E]], %[[OUT]])
// CHECK: %[[PART:.+]] = memref.reinterpret_cast %[[E]] to offset: [0], sizes: [7]
// CHECK: call @update_0(%[[PART]], %{{.+}}, %[[OUT]])
func.func @overlap(%x: tensor<8xf32>, %i: tensor<i32>) -> tensor<8xf32> {
  %0 = "blu.exp"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "blu.slice"(%0) {starts = array<i64: 0>, limits = array<i64: 7>, strides = array<i64: 1>} : (tensor<8xf32>) -> tensor<7xf32>
  %2 = "blu.dynamic_update_slice"(%0, %1, %i) {operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<8xf32>, tensor<7xf32>, tensor<i32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// -----

// Operands of a concatenation are copied into their places of the output.
// CHECK-LABEL: func.func @concatenate(
// CHECK-SAME: %[[X:.+]]: memref<2x3xf32>, %[[Y:.+]]: memref<2x5xf32>)
// CHECK-NEXT: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<2x8xf32>
// CHECK-NEXT: %[[LEFT:.+]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [2, 3], strides: [8, 1]
// CHECK-NEXT: call @copy_0(%[[X]], %[[LEFT]])
// CHECK-NEXT: %[[RIGHT:.+]] = memref.reinterpret_cast %[[OUT]] to offset: [3], sizes: [2, 5], strides: [8, 1]
// CHECK-NEXT: call @copy_1(%[[Y]], %[[RIGHT]])
// CHECK-NEXT: return
func.func @concatenate(%x: tensor<2x3xf32>, %y: tensor<2x5xf32>) -> tensor<2x8xf32> {
  %0 = "blu.concatenate"(%x, %y) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

// Kernels write what only becomes a part of a concatenation where it belongs, through views too. An input is copied.
// CHECK-LABEL: func.func @parts(
// CHECK-SAME: %[[X:.+]]: memref<2x3xf32>, %[[Y:.+]]: memref<5x2xf32>, %[[Z:.+]]: memref<2x1xf32>)
// CHECK-NEXT: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<2x9xf32>
// CHECK-NEXT: %[[LEFT:.+]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [2, 3], strides: [9, 1]
// CHECK-NEXT: call @rows_0(%[[X]], %[[LEFT]])
// CHECK-NEXT: %[[RIGHT:.+]] = memref.reinterpret_cast %[[OUT]] to offset: [4], sizes: [5, 2], strides: [1, 9]
// CHECK-NEXT: call @rows_1(%[[Y]], %[[RIGHT]])
// CHECK-NEXT: %[[MIDDLE:.+]] = memref.reinterpret_cast %[[OUT]] to offset: [3], sizes: [2, 1], strides: [9, 1]
// CHECK-NEXT: call @copy_0(%[[Z]], %[[MIDDLE]])
// CHECK-NEXT: return
func.func @parts(%x: tensor<2x3xf32>, %y: tensor<5x2xf32>, %z: tensor<2x1xf32>) -> tensor<2x9xf32> {
  %0 = "blu.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "blu.tanh"(%y) : (tensor<5x2xf32>) -> tensor<5x2xf32>
  %2 = "blu.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<5x2xf32>) -> tensor<2x5xf32>
  %3 = "blu.concatenate"(%0, %z, %2) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x5xf32>) -> tensor<2x9xf32>
  return %3 : tensor<2x9xf32>
}

// -----

// So it is where the concatenation only becomes a part of a larger one.
// CHECK-LABEL: func.func @parts_of_parts(
// CHECK-NOT: call @copy
// CHECK: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<9xf32>
// CHECK-NOT: call @copy
// CHECK: memref.reinterpret_cast %[[OUT]] to offset: [4], sizes: [2]
// CHECK-NOT: call @copy
// CHECK: return
func.func @parts_of_parts(%x: tensor<4xf32>, %y: tensor<2xf32>, %z: tensor<3xf32>) -> tensor<9xf32> {
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "blu.tanh"(%y) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "blu.sqrt"(%z) : (tensor<3xf32>) -> tensor<3xf32>
  %3 = "blu.concatenate"(%1, %2) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  %4 = "blu.concatenate"(%0, %3) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<4xf32>, tensor<5xf32>) -> tensor<9xf32>
  return %4 : tensor<9xf32>
}

// -----

// What begins at a line of memory is memory of its own: kernels are equal wherever that is, and in views it is said.
// CHECK-LABEL: func.func @parts_at_lines(
// CHECK: %[[OUT:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"} : () -> memref<36xf32>
// CHECK: %[[FIRST:.+]] = memref.reinterpret_cast %[[OUT]] to offset: [0], sizes: [16], strides: [1] : memref<36xf32> to memref<16xf32>
// CHECK: call @rows_0(%{{.+}}, %[[FIRST]]) : (memref<16xf32>, memref<16xf32>)
// CHECK: %[[SECOND:.+]] = "plan.part"(%[[OUT]]) {offset = 64 : i64} : (memref<36xf32>) -> memref<16xf32>
// CHECK: call @rows_0(%{{.+}}, %[[SECOND]]) : (memref<16xf32>, memref<16xf32>)
// CHECK: %[[THIRD:.+]] = "plan.part"(%[[OUT]]) {offset = 128 : i64} : (memref<36xf32>) -> memref<1xf32>
// CHECK: call @copy_0(%{{.+}}, %[[THIRD]])
// CHECK: memref.reinterpret_cast %[[OUT]] to offset: [33], sizes: [3]
// CHECK: call @copy_1
// CHECK: return
func.func @parts_at_lines(%x: tensor<16xf32>, %y: tensor<16xf32>, %z: tensor<1xf32>, %w: tensor<3xf32>) -> tensor<36xf32> {
  %0 = "blu.exp"(%x) : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "blu.exp"(%y) : (tensor<16xf32>) -> tensor<16xf32>
  %2 = "blu.concatenate"(%0, %1, %z, %w) {axis = 0 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<16xf32>, tensor<16xf32>, tensor<1xf32>, tensor<3xf32>) -> tensor<36xf32>
  return %2 : tensor<36xf32>
}

// -----

// What is needed otherwise too has memory of its own, and is copied.
// CHECK-LABEL: func.func @part_and_more(
// CHECK: %[[E:.+]] = "plan.buffer"() {index = 1 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @rows_0(%{{.+}}, %[[E]])
// CHECK: call @copy_0(%[[E]],
func.func @part_and_more(%x: tensor<2x3xf32>) -> (tensor<2x6xf32>, tensor<2x3xf32>) {
  %0 = "blu.exp"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "blu.concatenate"(%0, %x) {axis = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>
  return %1, %0 : tensor<2x6xf32>, tensor<2x3xf32>
}

// -----

// An output is memory of its own: an input that is returned is copied, and a value that is returned twice as well.
// CHECK-LABEL: func.func @outputs(
// CHECK-SAME: %[[X:.+]]: memref<4xf32>)
// CHECK: %[[E:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "arena"}
// CHECK: call @rows_0(%[[X]], %[[E]])
// CHECK: %[[FIRST:.+]] = "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @copy_0(%[[X]], %[[FIRST]])
// CHECK: %[[SECOND:.+]] = "plan.buffer"() {index = 1 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @copy_0(%[[E]], %[[SECOND]])
// CHECK: %[[THIRD:.+]] = "plan.buffer"() {index = 2 : i64, offset = -1 : i64, space = "output"}
// CHECK: call @copy_0(%[[E]], %[[THIRD]])
func.func @outputs(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = "blu.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %x, %0, %0 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// Kernels that do the same are one, and a constant is memory that nobody writes.
// CHECK-LABEL: func.func @shared_kernel(
// CHECK: %[[C:.+]] = "plan.buffer"() {blu.value = dense<[{{.*}}]> : tensor<2x2xf32>, index = 0 : i64, offset = -1 : i64, space = "constant"} : () -> memref<2x2xf32>
// CHECK: call @gemm_0(%{{.+}}, %[[C]], %[[P:.+]]) :
// CHECK: call @gemm_0(%[[P]], %[[C]], %{{.+}}) :
// CHECK: func.func private @gemm_0(
// CHECK-NOT: func.func
func.func @shared_kernel(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = "blu.constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %0 = "blu.matmul"(%x, %c) {precision = "highest"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = "blu.matmul"(%0, %c) {precision = "highest"} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %1 : tensor<2x2xf32>
}
