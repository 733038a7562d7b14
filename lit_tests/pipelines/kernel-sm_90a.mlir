// Level kernel, for Hopper: kernels are what a thread does, in a gpu.module; the program launches grids of them.
// RUN: %blu-compile %S/inputs/network.mlir -q --target=sm_90a --compile-to=kernel | %filecheck %s

// CHECK: blu.level = "kernel"
// CHECK: gpu.container_module
// CHECK-LABEL: func.func @main(
// CHECK: %[[MAXIMUM:.+]] = "plan.buffer"() {{.*}}space = "status"} : () -> memref<i64>
// CHECK-NEXT: gpu.launch_func @kernels::@rows_0
// CHECK-NEXT: args(%tokens : memref<1024xi32>, %[[MAXIMUM]] : memref<i64>)
// CHECK-NEXT: "plan.check"(%[[MAXIMUM]])
// CHECK: %[[X:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<1024x64xbf16>
// CHECK-NEXT: gpu.launch_func @kernels::@rows_1
// CHECK: %[[Y:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<1024x1536xbf16>
// CHECK-NEXT: %[[W:.+]] = memref.reinterpret_cast %up.weight

// The copy engine is told of both factors, and of the result, which it stores by boxes of 16 rows.
// CHECK-NEXT: %[[LEFT:.+]] = "plan.tensor_map"(%[[X]]) {box = array<i64: 64, 128>, dtype = "bf16", offset = 0 : i64, shape = array<i64: 64, 1024>, strides = array<i64: 1, 64>}
// CHECK-NEXT: %[[RIGHT:.+]] = "plan.tensor_map"(%[[W]]) {box = array<i64: 64, 128>, {{.*}}shape = array<i64: 64, 1536>
// CHECK-NEXT: %[[RESULT:.+]] = "plan.tensor_map"(%[[Y]]) {box = array<i64: 64, 16>, {{.*}}shape = array<i64: 1536, 1024>
// CHECK-NEXT: gpu.launch_func @kernels::@gemm_0 blocks in (%c{{[0-9]+}}, %c1, %c1) threads in (%c384, %c1, %c1) dynamic_shared_memory_size %c{{[0-9]+}}_i32
// CHECK-NEXT: args(%[[X]] : {{.+}}, %[[W]] : {{.+}}, %up.bias : {{.+}}, %[[Y]] : {{.+}}, %[[LEFT]] : memref<128xi8>, %[[RIGHT]] : memref<128xi8>, %[[RESULT]] : memref<128xi8>)
// CHECK: "plan.alias"(%total) {result = 0 : i64}

// CHECK-LABEL: gpu.module @kernels {
// CHECK: gpu.func @gemm_0(
// CHECK: %up.weight.map: memref<128xi8>,
// CHECK-NEXT: memref<128xi8>) kernel attributes {{{.*}}blu.kernel = "gemm", {{.*}}blu.schedule = {{{.*}}kind = "wgmma", {{.*}}sums = "boxed"}, known_block_size = array<i32: 384, 1, 1>}
// CHECK-NOT: linalg
// CHECK: nvvm.cp.async.bulk.tensor.shared.cluster.global
// CHECK: nvvm.wgmma.fence.aligned
// CHECK: wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16
// CHECK: nvvm.wgmma.commit.group.sync.aligned
// CHECK: gpu.return
// CHECK: gpu.func @rows_2(
// CHECK-NOT: linalg
