// Level kernel, for processors: kernels are vector code over a range of blocks, and their calls say how many there are.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=x86-64-v3 --compile-to=kernel | %filecheck %s

// CHECK: blu.level = "kernel"
// CHECK-LABEL: func.func @main(
// CHECK: %[[MAXIMUM:.+]] = "plan.buffer"() {{.*}}space = "status"} : () -> memref<i64>
// CHECK: call @rows_0(%tokens, %[[MAXIMUM]]) {blu.blocks = {{[0-9]+}} : i64, blu.chunk = {{[0-9]+}} : i64}
// CHECK: "plan.check"(%[[MAXIMUM]])
// CHECK: %[[X:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<1024x64xbf16>
// CHECK: call @rows_1(%tokens, %embed.weight, %[[X]])
// CHECK: %[[Y:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<1024x1536xbf16>
// CHECK: %[[W:.+]] = memref.reinterpret_cast %up.weight
// CHECK: call @gemm_0(%[[X]], %[[W]], %up.bias, %[[Y]])
// CHECK: call @rows_2(%[[Y]], %total, %total)
// CHECK: "plan.alias"(%total) {result = {{[0-9]}} : i64}
// CHECK: func.func private @gemm_0(memref

// Vectors as long as the target has them, a tile of 4 rows by 3 of these, and the activation on what is in registers.
// CHECK: module @kernels {
// CHECK: func.func @gemm_0(
// CHECK: %begin: index,
// CHECK-NEXT: %end: index) attributes {blu.kernel = "gemm", blu.schedule = {{{.*}}}} {
// CHECK-NOT: linalg
// CHECK: scf.for %{{.+}} = %begin to %end
// CHECK-COUNT-12: vector.fma {{.*}} : vector<8xf32>
// CHECK: vector.load %up.bias[{{.+}}] : memref<1536xbf16>, vector<8xbf16>
// CHECK: vector.store %{{.+}}, %{{.+}}[{{.+}}] : memref<1024x1536xbf16>, vector<8xbf16>

// What is added to the total is written over it in the last walk over a row.
// CHECK: func.func @rows_2(
// CHECK: attributes {{{.*}}blu.kernel = "rows", blu.schedule = {{{.*}}}, blu.written_over = array<i64: 0>} {
// CHECK-NOT: linalg
// CHECK: %[[READ:.+]] = memref.reinterpret_cast %total to
// CHECK-NEXT: %[[WRITTEN:.+]] = memref.reinterpret_cast %total_1 to
// CHECK: arith.cmpf ogt, {{.*}} : vector<16xf32>
// CHECK-NOT: %[[WRITTEN]][
// CHECK: math.exp {{.*}} : vector<16xf32>
// CHECK-NOT: %[[WRITTEN]][
// CHECK: %[[OLD:.+]] = vector.load %[[READ]][{{.+}}] : {{.*}}, vector<16xf32>
// CHECK: %[[NEW:.+]] = arith.addf %[[OLD]], %{{.+}} : vector<16xf32>
// CHECK: vector.store %[[NEW]], %[[WRITTEN]][{{.+}}] : {{.*}}, vector<16xf32>
