// Kernels become functions on bare pointers; what a GPU has an instruction for is that instruction.
// RUN: %blu-compile %s -q --target=sm_80 --compile-to=lower-to-nvvm | %filecheck %s

// Exponentials are powers of two by the machine, with what is lost of the product put back; integers are of 32 bits.
// CHECK: llvm.func @rows_0(
// CHECK-NEXT: !llvm.ptr,
// CHECK-NEXT: !llvm.ptr) attributes {{{.*}}blu.kernel = "rows"
// CHECK-NOT: {{(scf|vector|memref|arith|math)\.}}
// CHECK: %[[THREAD:.+]] = nvvm.read.ptx.sreg.tid.x : i32
// CHECK: llvm.urem %{{.+}}, %c8_i32 : i32
// CHECK: %[[X:.+]] = llvm.load %{{.+}} {alignment = 16 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK: %[[POWER:.+]] = llvm.fmul %[[X]], %c1.4427_4xf32 : vector<4xf32>
// CHECK: %[[REST:.+]] = llvm.intr.fma(%[[POWER]], %c-0.693147_4xf32, %[[X]])
// CHECK-COUNT-4: llvm.inline_asm asm_dialect = att "ex2.approx.ftz.f32 $0, $1;"
// CHECK: llvm.intr.fma(%[[RAISED:.+]], %[[REST]], %[[RAISED]])
// CHECK-COUNT-3: nvvm.shfl.sync bfly
// CHECK: llvm.store %{{.+}} : f32, !llvm.ptr
// CHECK: llvm.return
func.func @main(%x: tensor<64x20xf32>) -> tensor<64xf32> {
  %0 = "blu.exp"(%x) : (tensor<64x20xf32>) -> tensor<64x20xf32>
  %1 = "blu.sum"(%0) {axes = array<i64: 1>, keepdims = false} : (tensor<64x20xf32>) -> tensor<64xf32>
  return %1 : tensor<64xf32>
}
