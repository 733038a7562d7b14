module {
  func.func @main(%model.wte.weight: tensor<61x16xf32> {blu.name = "model.wte.weight"}, %model.wpe.weight: tensor<12x16xf32> {blu.name = "model.wpe.weight"}, %model.h.0.ln_1.weight: tensor<16xf32> {blu.name = "model.h.0.ln_1.weight"}, %model.h.0.ln_1.bias: tensor<16xf32> {blu.name = "model.h.0.ln_1.bias"}, %model.h.0.attn.c_attn.weight: tensor<16x48xf32> {blu.name = "model.h.0.attn.c_attn.weight"}, %model.h.0.attn.c_attn.bias: tensor<48xf32> {blu.name = "model.h.0.attn.c_attn.bias"}, %model.h.0.attn.c_proj.weight: tensor<16x16xf32> {blu.name = "model.h.0.attn.c_proj.weight"}, %model.h.0.attn.c_proj.bias: tensor<16xf32> {blu.name = "model.h.0.attn.c_proj.bias"}, %model.h.0.ln_2.weight: tensor<16xf32> {blu.name = "model.h.0.ln_2.weight"}, %model.h.0.ln_2.bias: tensor<16xf32> {blu.name = "model.h.0.ln_2.bias"}, %model.h.0.mlp.c_fc.weight: tensor<16x64xf32> {blu.name = "model.h.0.mlp.c_fc.weight"}, %model.h.0.mlp.c_fc.bias: tensor<64xf32> {blu.name = "model.h.0.mlp.c_fc.bias"}, %model.h.0.mlp.c_proj.weight: tensor<64x16xf32> {blu.name = "model.h.0.mlp.c_proj.weight"}, %model.h.0.mlp.c_proj.bias: tensor<16xf32> {blu.name = "model.h.0.mlp.c_proj.bias"}, %model.ln_f.weight: tensor<16xf32> {blu.name = "model.ln_f.weight"}, %model.ln_f.bias: tensor<16xf32> {blu.name = "model.ln_f.bias"}, %tokens: tensor<1x8xi32> {blu.name = "tokens"}) -> tensor<1x8x61xf32> {
    %wte = "blu.take"(%model.wte.weight, %tokens) {axis = 0 : i64} : (tensor<61x16xf32>, tensor<1x8xi32>) -> tensor<1x8x16xf32>
    %0 = "blu.slice"(%model.wpe.weight) {limits = array<i64: 8, 16>, starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<12x16xf32>) -> tensor<8x16xf32>
    %1 = "blu.add"(%wte, %0) : (tensor<1x8x16xf32>, tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_1 = "blu.layer_norm"(%1, %model.h.0.ln_1.weight, %model.h.0.ln_1.bias) {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0.attn.c_attn = "blu.matmul"(%h.0.ln_1, %model.h.0.attn.c_attn.weight) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x48xf32>) -> tensor<1x8x48xf32>
    %h.0.attn.c_attn_0 = "blu.add"(%h.0.attn.c_attn, %model.h.0.attn.c_attn.bias) : (tensor<1x8x48xf32>, tensor<48xf32>) -> tensor<1x8x48xf32>
    %h.0.attn = "blu.slice"(%h.0.attn.c_attn_0) {limits = array<i64: 1, 8, 16>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %h.0.attn_1 = "blu.reshape"(%h.0.attn) {shape = array<i64: 1, 8, 2, 8>} : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_2 = "blu.transpose"(%h.0.attn_1) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_3 = "blu.slice"(%h.0.attn.c_attn_0) {limits = array<i64: 1, 8, 32>, starts = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %h.0.attn_4 = "blu.reshape"(%h.0.attn_3) {shape = array<i64: 1, 8, 2, 8>} : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_5 = "blu.transpose"(%h.0.attn_4) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_6 = "blu.slice"(%h.0.attn.c_attn_0) {limits = array<i64: 1, 8, 48>, starts = array<i64: 0, 0, 32>, strides = array<i64: 1, 1, 1>} : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %h.0.attn_7 = "blu.reshape"(%h.0.attn_6) {shape = array<i64: 1, 8, 2, 8>} : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_8 = "blu.transpose"(%h.0.attn_7) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_9 = "blu.attention"(%h.0.attn_2, %h.0.attn_5, %h.0.attn_8) {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, precision = "highest", scale = 0.35355339059327373 : f64} : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_10 = "blu.transpose"(%h.0.attn_9) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x8x8xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_11 = "blu.reshape"(%h.0.attn_10) {shape = array<i64: 1, 8, 16>} : (tensor<1x8x2x8xf32>) -> tensor<1x8x16xf32>
    %h.0.attn.c_proj = "blu.matmul"(%h.0.attn_11, %model.h.0.attn.c_proj.weight) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %h.0.attn.c_proj_12 = "blu.add"(%h.0.attn.c_proj, %model.h.0.attn.c_proj.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0 = "blu.add"(%1, %h.0.attn.c_proj_12) : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_2 = "blu.layer_norm"(%h.0, %model.h.0.ln_2.weight, %model.h.0.ln_2.bias) {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0.mlp.c_fc = "blu.matmul"(%h.0.ln_2, %model.h.0.mlp.c_fc.weight) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp.c_fc_13 = "blu.add"(%h.0.mlp.c_fc, %model.h.0.mlp.c_fc.bias) : (tensor<1x8x64xf32>, tensor<64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp = "blu.gelu"(%h.0.mlp.c_fc_13) {approximate = "tanh"} : (tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp.c_proj = "blu.matmul"(%h.0.mlp, %model.h.0.mlp.c_proj.weight) {precision = "highest"} : (tensor<1x8x64xf32>, tensor<64x16xf32>) -> tensor<1x8x16xf32>
    %h.0.mlp.c_proj_14 = "blu.add"(%h.0.mlp.c_proj, %model.h.0.mlp.c_proj.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0_15 = "blu.add"(%h.0, %h.0.mlp.c_proj_14) : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %ln_f = "blu.layer_norm"(%h.0_15, %model.ln_f.weight, %model.ln_f.bias) {epsilon = 1.000000e-05 : f64, operandSegmentSizes = array<i32: 1, 1, 1>} : (tensor<1x8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %2 = "blu.transpose"(%model.wte.weight) {permutation = array<i64: 1, 0>} : (tensor<61x16xf32>) -> tensor<16x61xf32>
    %3 = "blu.matmul"(%ln_f, %2) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x61xf32>) -> tensor<1x8x61xf32>
    return %3 : tensor<1x8x61xf32>
  }
}
