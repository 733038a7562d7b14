// Kernels of GPUs whose launches hand something on to each other say what, and bufferization gives them memory for it.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,canonicalize,blu-fuse,blu-choose-schedules,blu-reserve-gpu-scratch' | %filecheck %s
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,canonicalize,blu-fuse,blu-choose-schedules,blu-reserve-gpu-scratch,blu-bufferize' | %filecheck %s --check-prefix=PLACED

// Three numbers for each query, from the launch of the queries' gradients to that of the keys'.
// CHECK: func.func private @attention_gradient_0({{.*}}) -> ({{.*}}) attributes {blu.kernel = "attention_gradient", blu.schedule = {{{.*}}}, blu.scratch = [memref<2x8xf32>, memref<2x8xf32>, memref<2x8xf32>]}
// Keys and positions between the launches for bytes, twice, and counts of each byte; what one launch sorts needs none.
// CHECK: func.func private @argsort_0({{.*}}) -> tensor<3x5000xi64> attributes {blu.kernel = "argsort", blu.schedule = {{{.*}}}, blu.scratch = [memref<2x3x5000xi8>, memref<2x3x5000xi32>, memref<3x256x4xi32>]}
// CHECK: func.func private @argsort_1({{.*}}) -> tensor<2x8xi64> attributes {blu.kernel = "argsort", blu.schedule = {{{[^[]*}}}} {
// Sums over ranges of rows, for each column; a sum along rows takes one launch.
// CHECK: func.func private @loops_0({{.*}}) -> tensor<64xf32> attributes {blu.kernel = "loops", blu.schedule = {kind = "nest", split = 64 : i64}, blu.scratch = [memref<4096xf32>]}
// CHECK: func.func private @rows_{{.+}}({{.*}}) -> tensor<64xf32> attributes {blu.kernel = "rows"} {
// A split product leaves as many parts as its schedule says.
// CHECK: func.func private @gemm_0({{.*}}) -> tensor<24x40xf32> attributes {blu.kernel = "gemm", blu.schedule = {{{.*}}split = [[PARTS:[0-9]+]] : i64}, blu.scratch = [memref<[[PARTS]]x24x40xf32>]}

// The memory comes behind what a kernel reads and writes.
// PLACED-LABEL: func.func @main(
// PLACED: %[[LARGEST:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<2x8xf32>
// PLACED: %[[SUMS:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<2x8xf32>
// PLACED: %[[INNER:.+]] = "plan.buffer"() {{.*}}space = "arena"} : () -> memref<2x8xf32>
// PLACED: call @attention_gradient_0({{.*}}, %[[LARGEST]], %[[SUMS]], %[[INNER]]) :
module attributes {blu.target = {name = "sm_80"}} {
  func.func @main(%g: tensor<2x8x64xbf16>, %q: tensor<2x8x64xbf16>, %k: tensor<2x8x64xbf16>, %v: tensor<2x8x64xbf16>, %y: tensor<2x8x64xbf16>, %x: tensor<3x5000xui8>, %few: tensor<2x8xui8>, %s: tensor<4096x64xf32>, %t: tensor<64x4096xf32>, %a: tensor<24x2112xf32>, %b: tensor<2112x40xf32>) -> (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<3x5000xi64>, tensor<2x8xi64>, tensor<64xf32>, tensor<64xf32>, tensor<24x40xf32>) {
    %0:3 = "blu.attention_gradient"(%g, %q, %k, %v, %y) {causal = true, precision = "highest", scale = 0.125 : f64, narrow = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>) -> (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>)
    %1 = "blu.argsort"(%x) {axis = 1 : i64, descending = false} : (tensor<3x5000xui8>) -> tensor<3x5000xi64>
    %2 = "blu.argsort"(%few) {axis = 1 : i64, descending = false} : (tensor<2x8xui8>) -> tensor<2x8xi64>
    %3 = "blu.sum"(%s) {axes = array<i64: 0>, keepdims = false} : (tensor<4096x64xf32>) -> tensor<64xf32>
    %4 = "blu.sum"(%t) {axes = array<i64: 1>, keepdims = false} : (tensor<64x4096xf32>) -> tensor<64xf32>
    %5 = "blu.matmul"(%a, %b) {precision = "highest"} : (tensor<24x2112xf32>, tensor<2112x40xf32>) -> tensor<24x40xf32>
    %6 = "blu.exp"(%5) : (tensor<24x40xf32>) -> tensor<24x40xf32>
    return %0#0, %0#1, %0#2, %1, %2, %3, %4, %6 : tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<3x5000xi64>, tensor<2x8xi64>, tensor<64xf32>, tensor<64xf32>, tensor<24x40xf32>
  }
}
