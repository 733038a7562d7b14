// Level memref: everything has a place in memory. Kernels write into buffers, transposed weights are strides, and the
// donated total is written over. On GPUs the product says how it is cut.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --compile-to=memref | %filecheck %s --check-prefixes=CHECK,CPU
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_80 --compile-to=memref | %filecheck %s --check-prefixes=CHECK,SM80
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --compile-to=memref | %filecheck %s --check-prefixes=CHECK,SM90

// 1024 x 1536 halves, and behind them 1024 x 64.
// CHECK: blu.arena_bytes = 3276800 : i64
// CHECK-NEXT: blu.level = "memref"
// CHECK-LABEL: func.func @main(
// CHECK: {blu.donated, blu.name = "total", blu.result = 0 : i64}) attributes {blu.inputs = [{{.*}}], blu.results = [tensor<1024x1536xf32>]}
// CHECK: %embed.maxui = "plan.buffer"() {{.*}}space = "status"} : () -> memref<i64>
// CHECK-NEXT: call @rows_0(%tokens, %embed.maxui)
// CHECK-NEXT: "plan.check"(%embed.maxui)
// CHECK-NEXT: %embed.extract = "plan.buffer"() {{{.*}}offset = 3145728 : i64, space = "arena"} : () -> memref<1024x64xbf16>
// CHECK-NEXT: call @rows_1(%tokens, %embed.weight, %embed.extract)
// CHECK: %up.truncf = "plan.buffer"() {{{.*}}offset = 0 : i64, space = "arena"} : () -> memref<1024x1536xbf16>
// CHECK-NEXT: %up.view = memref.reinterpret_cast %up.weight to offset: [0], sizes: [64, 1536], strides: [1, 64]
// CHECK-NEXT: call @gemm_0(%embed.extract, %up.view, %up.bias, %up.truncf)
// CHECK: call @rows_2(%up.truncf, %total, %total)
// CHECK: return

// Inside, kernels are as they were, on tensors that lie in their arguments.
// CHECK: func.func private @gemm_0(
// CHECK-NEXT: %embed.extract.memory: memref<1024x64xbf16>,
// CHECK-NEXT: %up.view.memory: memref<64x1536xbf16, strided<[1, 64]>>,
// CPU: attributes {blu.kernel = "gemm"} {
// SM80: attributes {blu.kernel = "gemm", blu.schedule = {columns = 128 : i64, copied = "undecided", instruction = "bf16", kind = "product", rows = 128 : i64, split = 1 : i64}} {
// SM90: attributes {blu.kernel = "gemm", blu.schedule = {columns = 128 : i64, copied = "undecided", instruction = "bf16", kind = "product", rows = 128 : i64, split = 1 : i64}} {
// CHECK: %embed.extract = bufferization.to_tensor %embed.extract.memory restrict
// CHECK: linalg.contract
// CHECK-NEXT: ins(%embed.extract, %{{.+}} : tensor<1024x64xbf16>, tensor<64x1536xbf16>)
// CHECK: bufferization.materialize_in_destination %{{.+}} in restrict writable %up.truncf.memory
// CHECK: func.func private @rows_2(
// CHECK: attributes {blu.kernel = "rows", blu.written_over = array<i64: 0>} {
