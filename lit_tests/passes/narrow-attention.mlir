// Gradients of attention that are only rounded come out rounded, through views as well; all three, or none.
// RUN: %blu-opt %s --blu-narrow-attention --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @rounded(
// CHECK-NEXT: %[[GRADIENTS:.+]]:3 = "blu.attention_gradient"({{.*}}) {{{.*}}narrow = true{{.*}}} : ({{.*}}) -> (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>)
// CHECK-NOT: linalg.generic
// CHECK: %[[ROWS:.+]] = tensor.collapse_shape %[[GRADIENTS]]#2 {{\[\[}}0, 1], [2]] : tensor<2x8x64xbf16> into tensor<16x64xbf16>
// CHECK-NEXT: return %[[GRADIENTS]]#0, %[[GRADIENTS]]#1, %[[ROWS]]
func.func @rounded(%g: tensor<2x8x64xbf16>, %q: tensor<2x8x64xbf16>, %k: tensor<2x8x64xbf16>, %v: tensor<2x8x64xbf16>, %y: tensor<2x8x64xbf16>) -> (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<16x64xbf16>) {
  %0:3 = "blu.attention_gradient"(%g, %q, %k, %v, %y) {causal = true, precision = "highest", scale = 0.125 : f64, narrow = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>) -> (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>)
  %empty = tensor.empty() : tensor<2x8x64xbf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#0 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xbf16>) {
  ^bb0(%a: f32, %out: bf16):
    %4 = arith.truncf %a : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<2x8x64xbf16>
  %2 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#1 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xbf16>) {
  ^bb0(%a: f32, %out: bf16):
    %4 = arith.truncf %a : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<2x8x64xbf16>
  %rows = tensor.collapse_shape %0#2 [[0, 1], [2]] : tensor<2x8x64xf32> into tensor<16x64xf32>
  %flat = tensor.empty() : tensor<16x64xbf16>
  %3 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%rows : tensor<16x64xf32>) outs(%flat : tensor<16x64xbf16>) {
  ^bb0(%a: f32, %out: bf16):
    %4 = arith.truncf %a : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<16x64xbf16>
  return %1, %2, %3 : tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<16x64xbf16>
}

// The gradient of the values is wanted in full.
// CHECK-LABEL: func.func @wanted(
// CHECK-NEXT: %[[GRADIENTS:.+]]:3 = "blu.attention_gradient"({{.*}}) {{{.*}}narrow = false{{.*}}} : ({{.*}}) -> (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>)
// CHECK-COUNT-2: arith.truncf
// CHECK: return %{{.+}}, %{{.+}}, %[[GRADIENTS]]#2
func.func @wanted(%g: tensor<2x8x64xbf16>, %q: tensor<2x8x64xbf16>, %k: tensor<2x8x64xbf16>, %v: tensor<2x8x64xbf16>, %y: tensor<2x8x64xbf16>) -> (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xf32>) {
  %0:3 = "blu.attention_gradient"(%g, %q, %k, %v, %y) {causal = true, precision = "highest", scale = 0.125 : f64, narrow = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>) -> (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>)
  %empty = tensor.empty() : tensor<2x8x64xbf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#0 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xbf16>) {
  ^bb0(%a: f32, %out: bf16):
    %4 = arith.truncf %a : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<2x8x64xbf16>
  %2 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#1 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xbf16>) {
  ^bb0(%a: f32, %out: bf16):
    %4 = arith.truncf %a : f32 to bf16
    linalg.yield %4 : bf16
  } -> tensor<2x8x64xbf16>
  return %1, %2, %0#2 : tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xf32>
}

// Rounded to other bits than those of the queries: f16.
// CHECK-LABEL: func.func @others(
// CHECK: narrow = false
// CHECK-COUNT-3: arith.truncf
func.func @others(%g: tensor<2x8x64xbf16>, %q: tensor<2x8x64xbf16>, %k: tensor<2x8x64xbf16>, %v: tensor<2x8x64xbf16>, %y: tensor<2x8x64xbf16>) -> (tensor<2x8x64xf16>, tensor<2x8x64xf16>, tensor<2x8x64xf16>) {
  %0:3 = "blu.attention_gradient"(%g, %q, %k, %v, %y) {causal = true, precision = "highest", scale = 0.125 : f64, narrow = false, operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 0, 0, 0>} : (tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>, tensor<2x8x64xbf16>) -> (tensor<2x8x64xf32>, tensor<2x8x64xf32>, tensor<2x8x64xf32>)
  %empty = tensor.empty() : tensor<2x8x64xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#0 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xf16>) {
  ^bb0(%a: f32, %out: f16):
    %4 = arith.truncf %a : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<2x8x64xf16>
  %2 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#1 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xf16>) {
  ^bb0(%a: f32, %out: f16):
    %4 = arith.truncf %a : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<2x8x64xf16>
  %3 = linalg.generic {indexing_maps = [affine_map<(h, i, j) -> (h, i, j)>, affine_map<(h, i, j) -> (h, i, j)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%0#2 : tensor<2x8x64xf32>) outs(%empty : tensor<2x8x64xf16>) {
  ^bb0(%a: f32, %out: f16):
    %4 = arith.truncf %a : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<2x8x64xf16>
  return %1, %2, %3 : tensor<2x8x64xf16>, tensor<2x8x64xf16>, tensor<2x8x64xf16>
}
