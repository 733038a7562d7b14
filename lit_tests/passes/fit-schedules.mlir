// Strides say by which kind of kernel a product is formed, or rows are walked; what others have said stays.
// RUN: %blu-opt %s --blu-fit-schedules | %filecheck %s
// RUN: %blu-opt %s --blu-fit-schedules --mlir-pass-statistics -o %t 2>&1 | %filecheck %s --check-prefix=COUNT

// COUNT-DAG: blu-fit-schedules: 1 schedules of kind wgmma
// COUNT-DAG: blu-fit-schedules: 3 schedules of kind mma
// COUNT-DAG: blu-fit-schedules: 1 schedules of kind simt
// COUNT-DAG: blu-fit-schedules: 1 schedules of kind strips
// COUNT-DAG: blu-fit-schedules: 2 schedules of kind loops
module attributes {blu.target = {name = "sm_90a"}} {
  // Hopper's copy engine takes rows that begin at multiples of 16 bytes.
  // CHECK-LABEL: func.func private @aligned(
  // CHECK-SAME: blu.schedule = {columns = 128 : i64, copied = "undecided", group = {{.+}}, instruction = "bf16", kind = "wgmma", lead = 1 : i64, registers = "none", rows = 128 : i64, split = 1 : i64, stages = {{.+}}, sums = "boxed"}
  func.func private @aligned(%x: memref<2048x2048xbf16>, %y: memref<2048x2048xbf16>, %z: memref<2048x2048xf32>) attributes {blu.kernel = "gemm", blu.schedule = {columns = 128 : i64, instruction = "bf16", kind = "product", rows = 128 : i64, split = 1 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<2048x2048xbf16> to tensor<2048x2048xbf16>
    %1 = bufferization.to_tensor %y restrict : memref<2048x2048xbf16> to tensor<2048x2048xbf16>
    %2 = tensor.empty() : tensor<2048x2048xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) outs(%3 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<2048x2048xf32>, memref<2048x2048xf32>) -> ()
    return
  }

  // The same sizes, and a row begins 8 bytes further than the copy engine wants.
  // CHECK-LABEL: func.func private @unaligned(
  // CHECK-SAME: blu.schedule = {columns = 128 : i64, group = {{.+}}, instruction = "bf16", kind = "mma", rows = 128 : i64, split = 1 : i64, stages = {{.+}}, warp_columns = {{.+}}, warp_rows = {{.+}}}
  func.func private @unaligned(%x: memref<2048x2048xbf16, strided<[2052, 1]>>, %y: memref<2048x2048xbf16>, %z: memref<2048x2048xf32>) attributes {blu.kernel = "gemm", blu.schedule = {columns = 128 : i64, instruction = "bf16", kind = "product", rows = 128 : i64, split = 1 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<2048x2048xbf16, strided<[2052, 1]>> to tensor<2048x2048xbf16>
    %1 = bufferization.to_tensor %y restrict : memref<2048x2048xbf16> to tensor<2048x2048xbf16>
    %2 = tensor.empty() : tensor<2048x2048xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) outs(%3 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<2048x2048xf32>, memref<2048x2048xf32>) -> ()
    return
  }

  // What has been chosen is kept, field by field.
  // CHECK-LABEL: func.func private @chosen(
  // CHECK-SAME: blu.schedule = {columns = 64 : i64, group = 4 : i64, instruction = "bf16", kind = "mma", rows = 64 : i64, split = 1 : i64, stages = 3 : i64, warp_columns = 32 : i64, warp_rows = 32 : i64}
  func.func private @chosen(%x: memref<2048x2048xbf16>, %y: memref<2048x2048xbf16>, %z: memref<2048x2048xf32>) attributes {blu.kernel = "gemm", blu.schedule = {columns = 64 : i64, group = 4 : i64, instruction = "bf16", kind = "mma", rows = 64 : i64, split = 1 : i64, stages = 3 : i64, warp_columns = 32 : i64, warp_rows = 32 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<2048x2048xbf16> to tensor<2048x2048xbf16>
    %1 = bufferization.to_tensor %y restrict : memref<2048x2048xbf16> to tensor<2048x2048xbf16>
    %2 = tensor.empty() : tensor<2048x2048xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<2048x2048xbf16>, tensor<2048x2048xbf16>) outs(%3 : tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<2048x2048xf32>, memref<2048x2048xf32>) -> ()
    return
  }

  // Written by hand, without a schedule: k is not split, since there is no memory for its parts.
  // CHECK-LABEL: func.func private @by_hand(
  // CHECK-SAME: blu.schedule = {{{.*}}instruction = "bf16", kind = "mma", {{.*}}split = 1 : i64
  func.func private @by_hand(%x: memref<36x2112xbf16>, %y: memref<2112x40xbf16>, %z: memref<36x40xf32>) attributes {blu.kernel = "gemm"} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<36x2112xbf16> to tensor<36x2112xbf16>
    %1 = bufferization.to_tensor %y restrict : memref<2112x40xbf16> to tensor<2112x40xbf16>
    %2 = tensor.empty() : tensor<36x40xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<36x40xf32>) -> tensor<36x40xf32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<36x2112xbf16>, tensor<2112x40xbf16>) outs(%3 : tensor<36x40xf32>) -> tensor<36x40xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<36x40xf32>, memref<36x40xf32>) -> ()
    return
  }

  // Strict f32 is multiplied by each thread on its own.
  // CHECK-LABEL: func.func private @strict(
  // CHECK-SAME: blu.schedule = {columns = 64 : i64, group = {{.+}}, instruction = "f32", kind = "simt", rows = 64 : i64, split = 1 : i64, stages = {{.+}}}
  func.func private @strict(%x: memref<256x256xf32>, %y: memref<256x256xf32>, %z: memref<256x256xf32>) attributes {blu.kernel = "gemm", blu.schedule = {columns = 64 : i64, instruction = "f32", kind = "product", rows = 64 : i64, split = 1 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<256x256xf32> to tensor<256x256xf32>
    %1 = bufferization.to_tensor %y restrict : memref<256x256xf32> to tensor<256x256xf32>
    %2 = tensor.empty() : tensor<256x256xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<256x256xf32>) -> tensor<256x256xf32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<256x256xf32>, tensor<256x256xf32>) outs(%3 : tensor<256x256xf32>) -> tensor<256x256xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<256x256xf32>, memref<256x256xf32>) -> ()
    return
  }

  // For one row, the matrix is read once, a strip of columns for each block.
  // CHECK-LABEL: func.func private @one_row(
  // CHECK-SAME: blu.schedule = {columns = {{[0-9]+}} : i64, kind = "strips", warps = {{[0-9]+}} : i64}
  func.func private @one_row(%x: memref<1x2048xbf16>, %y: memref<2048x2048xbf16>, %z: memref<1x2048xf32>) attributes {blu.kernel = "gemm", blu.schedule = {columns = 128 : i64, instruction = "bf16", kind = "product", rows = 128 : i64, split = 1 : i64}} {
    %zero = arith.constant 0.0 : f32
    %0 = bufferization.to_tensor %x restrict : memref<1x2048xbf16> to tensor<1x2048xbf16>
    %1 = bufferization.to_tensor %y restrict : memref<2048x2048xbf16> to tensor<2048x2048xbf16>
    %2 = tensor.empty() : tensor<1x2048xf32>
    %3 = linalg.fill ins(%zero : f32) outs(%2 : tensor<1x2048xf32>) -> tensor<1x2048xf32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<1x2048xbf16>, tensor<2048x2048xbf16>) outs(%3 : tensor<1x2048xf32>) -> tensor<1x2048xf32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<1x2048xf32>, memref<1x2048xf32>) -> ()
    return
  }

  // No tile multiplies integers.
  // CHECK-LABEL: func.func private @integers(
  // CHECK-SAME: blu.schedule = {kind = "loops"}
  func.func private @integers(%x: memref<8x8xi32>, %y: memref<8x8xi32>, %z: memref<8x8xi32>) attributes {blu.kernel = "gemm", blu.schedule = {kind = "loops"}} {
    %zero = arith.constant 0 : i32
    %0 = bufferization.to_tensor %x restrict : memref<8x8xi32> to tensor<8x8xi32>
    %1 = bufferization.to_tensor %y restrict : memref<8x8xi32> to tensor<8x8xi32>
    %2 = tensor.empty() : tensor<8x8xi32>
    %3 = linalg.fill ins(%zero : i32) outs(%2 : tensor<8x8xi32>) -> tensor<8x8xi32>
    %4 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>] ins(%0, %1 : tensor<8x8xi32>, tensor<8x8xi32>) outs(%3 : tensor<8x8xi32>) -> tensor<8x8xi32>
    bufferization.materialize_in_destination %4 in restrict writable %z : (tensor<8x8xi32>, memref<8x8xi32>) -> ()
    return
  }

  // A kernel of rows is walked in one way or another as well.
  // CHECK-LABEL: func.func private @rows_0(
  // CHECK-SAME: attributes {blu.kernel = "rows", blu.schedule = {kind = "loops"}}
  func.func private @rows_0(%x: memref<8xf32>, %y: memref<8xf32>) attributes {blu.kernel = "rows"} {
    %0 = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
    bufferization.materialize_in_destination %0 in restrict writable %y : (tensor<8xf32>, memref<8xf32>) -> ()
    return
  }

  // What is written in one way has no schedule.
  // CHECK-LABEL: func.func private @update_0(
  // CHECK-NOT: blu.schedule
  func.func private @update_0(%x: memref<8xf32>, %y: memref<8xf32>) attributes {blu.kernel = "update"} {
    %0 = bufferization.to_tensor %x restrict : memref<8xf32> to tensor<8xf32>
    bufferization.materialize_in_destination %0 in restrict writable %y : (tensor<8xf32>, memref<8xf32>) -> ()
    return
  }
}
