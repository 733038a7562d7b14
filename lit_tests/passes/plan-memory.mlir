// Buffers that are never alive together share memory; the larger come first, each as low as there is room.
// RUN: %blu-opt %s --split-input-file --blu-plan-memory | %filecheck %s

// A chain: the first buffer is free when the third is written.
// CHECK: module attributes {blu.arena_bytes = 512 : i64}
// CHECK: "plan.buffer"() {index = 0 : i64, offset = 0 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 1 : i64, offset = 256 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 2 : i64, offset = 0 : i64, space = "arena"}
module {
  func.func @main(%x: memref<64xf32>, %y: memref<64xf32>) {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%x, %0) : (memref<64xf32>, memref<64xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%0, %1) : (memref<64xf32>, memref<64xf32>) -> ()
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%1, %2) : (memref<64xf32>, memref<64xf32>) -> ()
    func.call @step(%2, %y) : (memref<64xf32>, memref<64xf32>) -> ()
    return
  }
  func.func private @step(memref<64xf32>, memref<64xf32>) attributes {blu.kernel = "rows"}
}

// -----

// All alive until the end: side by side, the largest first, on boundaries of 64 bytes.
// CHECK: module attributes {blu.arena_bytes = 320 : i64}
// CHECK: offset = 192 : i64, space = "arena"} : () -> memref<3xf32>
// CHECK: offset = 256 : i64, space = "arena"} : () -> memref<3xi1>
// CHECK: offset = 0 : i64, space = "arena"} : () -> memref<20xf64>
module {
  func.func @main(%x: memref<3xf32>) {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<3xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<3xi1>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<20xf64>
    func.call @three(%x, %0, %1, %2) : (memref<3xf32>, memref<3xf32>, memref<3xi1>, memref<20xf64>) -> ()
    func.call @three(%x, %0, %1, %2) : (memref<3xf32>, memref<3xf32>, memref<3xi1>, memref<20xf64>) -> ()
    return
  }
  func.func private @three(memref<3xf32>, memref<3xf32>, memref<3xi1>, memref<20xf64>) attributes {blu.kernel = "rows"}
}

// -----

// A view keeps its buffer alive. Outputs are no part of the arena, and nobody needs an unused buffer.
// CHECK: module attributes {blu.arena_bytes = 128 : i64}
// CHECK: "plan.buffer"() {index = 0 : i64, offset = 0 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 1 : i64, offset = 64 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 0 : i64, offset = -1 : i64, space = "output"}
// CHECK: memref<1000xf32>
module {
  func.func @main(%x: memref<16xf32>) {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<16xf32>
    %view = memref.reinterpret_cast %0 to offset: [4], sizes: [4], strides: [1] : memref<16xf32> to memref<4xf32, strided<[1], offset: 4>>
    func.call @fill(%0) : (memref<16xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<16xf32>
    func.call @fill(%1) : (memref<16xf32>) -> ()
    func.call @part(%view) : (memref<4xf32, strided<[1], offset: 4>>) -> ()
    %2 = "plan.buffer"() {space = "output", index = 0 : i64, offset = -1 : i64} : () -> memref<16xf32>
    func.call @fill(%2) : (memref<16xf32>) -> ()
    %3 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<1000xf32>
    return
  }
  func.func private @fill(memref<16xf32>) attributes {blu.kernel = "rows"}
  func.func private @part(memref<4xf32, strided<[1], offset: 4>>) attributes {blu.kernel = "rows"}
}

// -----

// Calls of a batch run at the same time: what the first of them reads is not free when the last one writes.
// CHECK: module attributes {blu.arena_bytes = 1024 : i64}
// CHECK: "plan.buffer"() {index = 0 : i64, offset = 0 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 1 : i64, offset = 256 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 2 : i64, offset = 512 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 3 : i64, offset = 768 : i64, space = "arena"}
module {
  func.func @main(%x: memref<64xf32>, %y: memref<64xf32>) {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%x, %0) : (memref<64xf32>, memref<64xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%x, %1) : (memref<64xf32>, memref<64xf32>) -> ()
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%0, %2) {blu.batch = 0 : i64} : (memref<64xf32>, memref<64xf32>) -> ()
    %3 = "plan.buffer"() {space = "arena", index = 3 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @step(%1, %3) {blu.batch = 0 : i64} : (memref<64xf32>, memref<64xf32>) -> ()
    func.call @step(%2, %y) : (memref<64xf32>, memref<64xf32>) -> ()
    func.call @step(%3, %y) : (memref<64xf32>, memref<64xf32>) -> ()
    return
  }
  func.func private @step(memref<64xf32>, memref<64xf32>) attributes {blu.kernel = "rows"}
}

// -----

// Behind a large one that is no whole number of 512 bytes, the next begins at the next of these.
// CHECK: module attributes {blu.arena_bytes = 131584 : i64}
// CHECK: offset = 0 : i64, space = "arena"} : () -> memref<16401xf32>
// CHECK: offset = 66048 : i64, space = "arena"} : () -> memref<16384xf32>
module {
  func.func @main(%x: memref<16401xf32>) {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<16401xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<16384xf32>
    func.call @two(%x, %0, %1) : (memref<16401xf32>, memref<16401xf32>, memref<16384xf32>) -> ()
    func.call @two(%x, %0, %1) : (memref<16401xf32>, memref<16401xf32>, memref<16384xf32>) -> ()
    return
  }
  func.func private @two(memref<16401xf32>, memref<16401xf32>, memref<16384xf32>) attributes {blu.kernel = "rows"}
}

// -----

// The largest first would take 576 bytes: what is needed longest of all that is alive at once lies below.
// CHECK: module attributes {blu.arena_bytes = 448 : i64}
// CHECK: offset = 0 : i64, space = "arena"} : () -> memref<47xf32>
// CHECK: offset = 192 : i64, space = "arena"} : () -> memref<32xf32>
// CHECK: offset = 0 : i64, space = "arena"} : () -> memref<48xf32>
// CHECK: offset = 320 : i64, space = "arena"} : () -> memref<31xf32>
// CHECK: offset = 192 : i64, space = "arena"} : () -> memref<64xf32>
module {
  func.func @main() {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<47xf32>
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<32xf32>
    %2 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<48xf32>
    %3 = "plan.buffer"() {space = "arena", index = 3 : i64, offset = -1 : i64} : () -> memref<31xf32>
    %4 = "plan.buffer"() {space = "arena", index = 4 : i64, offset = -1 : i64} : () -> memref<64xf32>
    func.call @one(%0) : (memref<47xf32>) -> ()
    func.call @two(%0, %1) : (memref<47xf32>, memref<32xf32>) -> ()
    func.call @three(%1, %2, %3) : (memref<32xf32>, memref<48xf32>, memref<31xf32>) -> ()
    func.call @four(%2, %4) : (memref<48xf32>, memref<64xf32>) -> ()
    return
  }
  func.func private @one(memref<47xf32>) attributes {blu.kernel = "rows"}
  func.func private @two(memref<47xf32>, memref<32xf32>) attributes {blu.kernel = "rows"}
  func.func private @three(memref<32xf32>, memref<48xf32>, memref<31xf32>) attributes {blu.kernel = "rows"}
  func.func private @four(memref<48xf32>, memref<64xf32>) attributes {blu.kernel = "rows"}
}

// -----

// Rows that are read for the last time make room for others: of %0, the first are free when the first of %1 are
// written, and so on. Columns are in use together: as of %3, the strides of which pass by others.
// CHECK: module attributes {blu.arena_bytes = 512 : i64}
// CHECK: "plan.buffer"() {index = 0 : i64, offset = 0 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 1 : i64, offset = 0 : i64, space = "arena"}
// CHECK: "plan.buffer"() {index = 2 : i64, offset = 256 : i64, space = "arena"}
module {
  func.func @main() {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<2x32xf32>
    func.call @fill(%0) : (memref<2x32xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<2x32xf32>
    %a = memref.reinterpret_cast %0 to offset: [0], sizes: [32], strides: [1] : memref<2x32xf32> to memref<32xf32>
    func.call @row(%a) : (memref<32xf32>) -> ()
    %b = memref.reinterpret_cast %1 to offset: [0], sizes: [32], strides: [1] : memref<2x32xf32> to memref<32xf32>
    func.call @row(%b) : (memref<32xf32>) -> ()
    %c = "plan.part"(%0) {offset = 128 : i64} : (memref<2x32xf32>) -> memref<32xf32>
    func.call @row(%c) : (memref<32xf32>) -> ()
    %d = "plan.part"(%1) {offset = 128 : i64} : (memref<2x32xf32>) -> memref<32xf32>
    func.call @row(%d) : (memref<32xf32>) -> ()
    %3 = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<2x32xf32>
    %e = memref.reinterpret_cast %3 to offset: [0], sizes: [2, 16], strides: [32, 1] : memref<2x32xf32> to memref<2x16xf32, strided<[32, 1]>>
    %f = memref.reinterpret_cast %3 to offset: [16], sizes: [2, 16], strides: [32, 1] : memref<2x32xf32> to memref<2x16xf32, strided<[32, 1], offset: 16>>
    func.call @columns(%e) : (memref<2x16xf32, strided<[32, 1]>>) -> ()
    func.call @later(%f) : (memref<2x16xf32, strided<[32, 1], offset: 16>>) -> ()
    func.call @fill(%1) : (memref<2x32xf32>) -> ()
    func.call @columns(%e) : (memref<2x16xf32, strided<[32, 1]>>) -> ()
    return
  }
  func.func private @fill(memref<2x32xf32>) attributes {blu.kernel = "rows"}
  func.func private @row(memref<32xf32>) attributes {blu.kernel = "rows"}
  func.func private @columns(memref<2x16xf32, strided<[32, 1]>>) attributes {blu.kernel = "rows"}
  func.func private @later(memref<2x16xf32, strided<[32, 1], offset: 16>>) attributes {blu.kernel = "rows"}
}

// -----

// Calls of a batch run together: the second row of %0 is not free when the first of %1 is written.
// CHECK: module attributes {blu.arena_bytes = 512 : i64}
module {
  func.func @main() {
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<2x32xf32>
    func.call @fill(%0) : (memref<2x32xf32>) -> ()
    %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<2x32xf32>
    %a = "plan.part"(%0) {offset = 128 : i64} : (memref<2x32xf32>) -> memref<32xf32>
    %b = memref.reinterpret_cast %1 to offset: [0], sizes: [32], strides: [1] : memref<2x32xf32> to memref<32xf32>
    %c = memref.reinterpret_cast %0 to offset: [0], sizes: [32], strides: [1] : memref<2x32xf32> to memref<32xf32>
    %d = "plan.part"(%1) {offset = 128 : i64} : (memref<2x32xf32>) -> memref<32xf32>
    func.call @step(%c, %b) {blu.batch = 0 : i64} : (memref<32xf32>, memref<32xf32>) -> ()
    func.call @step(%a, %d) {blu.batch = 0 : i64} : (memref<32xf32>, memref<32xf32>) -> ()
    func.call @fill(%1) : (memref<2x32xf32>) -> ()
    return
  }
  func.func private @fill(memref<2x32xf32>) attributes {blu.kernel = "rows"}
  func.func private @step(memref<32xf32>, memref<32xf32>) attributes {blu.kernel = "rows"}
}
