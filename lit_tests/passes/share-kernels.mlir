// Kernels that differ in their names, and in how many blocks run, are one; others stay.
// RUN: %blu-opt %s --blu-share-kernels --mlir-print-local-scope | %filecheck %s

module attributes {
  blu.level = "llvm",
  blu.plan = "{\"entry\": \"main\", \"inputs\": [], \"outputs\": [], \"constants\": [], \"launches\": [{\"kernel\": \"rows_0\", \"args\": [[\"arena\", 0]], \"location\": \"\", \"grid\": [12, 1, 1], \"threads\": 128, \"shared_bytes\": 0}, {\"kernel\": \"rows_1\", \"args\": [[\"arena\", 0]], \"location\": \"\", \"grid\": [96, 1, 1], \"threads\": 128, \"shared_bytes\": 0}, {\"kernel\": \"rows_2\", \"args\": [[\"arena\", 0]], \"location\": \"\", \"grid\": [3, 1, 1], \"threads\": 128, \"shared_bytes\": 0}, {\"kernel\": \"rows_3\", \"args\": [[\"arena\", 0]], \"location\": \"\", \"grid\": [4, 1, 1], \"threads\": 128, \"shared_bytes\": 0}], \"checks\": [], \"status_slots\": 0, \"arena_bytes\": 64}"
} {
  llvm.func @rows_0(%x: !llvm.ptr) attributes {blu.kernel = "rows", blu.grid = array<i64: 12>, blu.shared_bytes = 0 : i64, blu.threads = 128 : i64, nvvm.kernel} {
    %0 = llvm.mlir.constant(1.0 : f32) : f32
    llvm.store %0, %x : f32, !llvm.ptr
    llvm.return
  }
  llvm.func @rows_1(%x: !llvm.ptr) attributes {blu.kernel = "rows", blu.grid = array<i64: 96>, blu.shared_bytes = 0 : i64, blu.threads = 128 : i64, nvvm.kernel} {
    %one = llvm.mlir.constant(1.0 : f32) : f32
    llvm.store %one, %x : f32, !llvm.ptr
    llvm.return
  }
  llvm.func @rows_2(%x: !llvm.ptr) attributes {blu.kernel = "rows", blu.grid = array<i64: 3>, blu.shared_bytes = 0 : i64, blu.threads = 256 : i64, nvvm.kernel} {
    %0 = llvm.mlir.constant(1.0 : f32) : f32
    llvm.store %0, %x : f32, !llvm.ptr
    llvm.return
  }
  llvm.func @rows_3(%x: !llvm.ptr) attributes {blu.kernel = "rows", blu.grid = array<i64: 4>, blu.shared_bytes = 0 : i64, blu.threads = 128 : i64, nvvm.kernel} {
    %0 = llvm.mlir.constant(2.0 : f32) : f32
    llvm.store %0, %x : f32, !llvm.ptr
    llvm.return
  }
}

// CHECK: blu.plan = "{{.*}}{\22kernel\22: \22rows_0\22, \22grid\22: [12, 1, 1], {{.*}}{\22kernel\22: \22rows_0\22, \22grid\22: [96, 1, 1], {{.*}}{\22kernel\22: \22rows_2\22, \22grid\22: [3, 1, 1], {{.*}}{\22kernel\22: \22rows_3\22, \22grid\22: [4, 1, 1], 
// CHECK: llvm.func @rows_0
// CHECK-NOT: llvm.func @rows_1
// CHECK: llvm.func @rows_2
// CHECK: llvm.func @rows_3
