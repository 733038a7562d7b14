// The host program becomes JSON, its constants bytes; kernels stay.
// RUN: %blu-opt %s --blu-export-plan | %filecheck %s

// CHECK: module attributes {
// CHECK-SAME: blu.constants = "0000803f00000040"
// CHECK-SAME: blu.plan = "{\22entry\22: \22main\22,
// CHECK-SAME: \22inputs\22: [{\22shape\22: [2], \22dtype\22: \22f32\22, \22name\22: \22x\22, \22donated\22: false}, {\22shape\22: [2], \22dtype\22: \22u8\22, \22name\22: \22state\22, \22donated\22: true}],
// CHECK-SAME: \22outputs\22: [{\22shape\22: [2], \22dtype\22: \22f32\22, \22name\22: \22\22, \22input\22: null}, {\22shape\22: [2], \22dtype\22: \22u8\22, \22name\22: \22new state\22, \22input\22: 1}],
// CHECK-SAME: \22constants\22: [{\22offset\22: 0, \22bytes\22: 8}],
// CHECK-SAME: \22launches\22: [{\22kernel\22: \22rows_0\22, \22blocks\22: 3, \22chunk\22: 2, \22args\22: [[\22input\22, 0, 0], [\22constant\22, 0, 0], [\22arena\22, 64]], \22location\22: \22model.py:2 (up)\22},
// CHECK-SAME: {\22kernel\22: \22rows_0\22, {{.*}} \22args\22: [[\22arena\22, 64], [\22constant\22, 0, 0], [\22output\22, 0, 0]], \22location\22: \22\22},
// CHECK-SAME: {\22kernel\22: \22check_0\22, {{.*}} \22args\22: [[\22input\22, 1, 0], [\22status\22, 0]],
// CHECK-SAME: \22checks\22: [{\22kind\22: \22index\22, \22op\22: \22take\22, \22size\22: 10, \22location\22: \22model.py:3\22}],
// CHECK-SAME: \22status_slots\22: 1, \22arena_bytes\22: 128}"
// CHECK-NOT: func.func
// CHECK: module @kernels {
// CHECK-NEXT: llvm.func @rows_0(
// CHECK: llvm.func @check_0(
module attributes {blu.arena_bytes = 128 : i64} {
  func.func @main(%x: memref<2xf32> {blu.name = "x"}, %s: memref<2xi8> {blu.name = "state", blu.donated}) attributes {blu.inputs = [tensor<2xf32>, tensor<2xui8>], blu.result_names = ["", "new state"], blu.results = [tensor<2xf32>, tensor<2xui8>]} {
    %c = "plan.buffer"() {blu.value = dense<[1.0, 2.0]> : tensor<2xf32>, space = "constant", index = 0 : i64, offset = -1 : i64} : () -> memref<2xf32>
    %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = 64 : i64} : () -> memref<2xf32>
    func.call @rows_0(%x, %c, %0) {blu.blocks = 3 : i64, blu.chunk = 2 : i64} : (memref<2xf32>, memref<2xf32>, memref<2xf32>) -> () loc("up"("model.py":2:1))
    %1 = "plan.buffer"() {space = "output", index = 0 : i64, offset = -1 : i64} : () -> memref<2xf32>
    func.call @rows_0(%0, %c, %1) {blu.blocks = 3 : i64, blu.chunk = 2 : i64} : (memref<2xf32>, memref<2xf32>, memref<2xf32>) -> () loc(unknown)
    %found = "plan.buffer"() {space = "status", index = 0 : i64, offset = -1 : i64} : () -> memref<i64>
    func.call @check_0(%s, %found) {blu.blocks = 1 : i64, blu.chunk = 1 : i64} : (memref<2xi8>, memref<i64>) -> ()
    "plan.check"(%found) {kind = "index", op = "take", size = 10 : i64} : (memref<i64>) -> () loc("model.py":3:1)
    "plan.alias"(%s) {result = 1 : i64} : (memref<2xi8>) -> ()
    return
  }
  func.func private @rows_0(memref<2xf32>, memref<2xf32>, memref<2xf32>)
  func.func private @check_0(memref<2xi8>, memref<i64>)
  module @kernels {
    llvm.func @rows_0(%x: !llvm.ptr, %c: !llvm.ptr, %out: !llvm.ptr, %begin: i64, %end: i64) attributes {blu.kernel = "rows"} {
      llvm.return
    }
    llvm.func @check_0(%x: !llvm.ptr, %out: !llvm.ptr, %begin: i64, %end: i64) attributes {blu.kernel = "rows"} {
      llvm.return
    }
  }
}
