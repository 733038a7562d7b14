module {
  func.func @main(%model.wte.weight: tensor<61x16xf32> {blu.name = "model.wte.weight"}, %model.wpe.weight: tensor<12x16xf32> {blu.name = "model.wpe.weight"}, %model.h.0.ln_1.weight: tensor<16xf32> {blu.name = "model.h.0.ln_1.weight"}, %model.h.0.ln_1.bias: tensor<16xf32> {blu.name = "model.h.0.ln_1.bias"}, %model.h.0.attn.c_attn.weight: tensor<16x48xf32> {blu.name = "model.h.0.attn.c_attn.weight"}, %model.h.0.attn.c_attn.bias: tensor<48xf32> {blu.name = "model.h.0.attn.c_attn.bias"}, %model.h.0.attn.c_proj.weight: tensor<16x16xf32> {blu.name = "model.h.0.attn.c_proj.weight"}, %model.h.0.attn.c_proj.bias: tensor<16xf32> {blu.name = "model.h.0.attn.c_proj.bias"}, %model.h.0.ln_2.weight: tensor<16xf32> {blu.name = "model.h.0.ln_2.weight"}, %model.h.0.ln_2.bias: tensor<16xf32> {blu.name = "model.h.0.ln_2.bias"}, %model.h.0.mlp.c_fc.weight: tensor<16x64xf32> {blu.name = "model.h.0.mlp.c_fc.weight"}, %model.h.0.mlp.c_fc.bias: tensor<64xf32> {blu.name = "model.h.0.mlp.c_fc.bias"}, %model.h.0.mlp.c_proj.weight: tensor<64x16xf32> {blu.name = "model.h.0.mlp.c_proj.weight"}, %model.h.0.mlp.c_proj.bias: tensor<16xf32> {blu.name = "model.h.0.mlp.c_proj.bias"}, %model.ln_f.weight: tensor<16xf32> {blu.name = "model.ln_f.weight"}, %model.ln_f.bias: tensor<16xf32> {blu.name = "model.ln_f.bias"}, %tokens: tensor<1x8xi32> {blu.name = "tokens"}) -> tensor<1x8x61xf32> {
    %wte = "blu.take"(%model.wte.weight, %tokens) {axis = 0 : i64} : (tensor<61x16xf32>, tensor<1x8xi32>) -> tensor<1x8x16xf32>
    %0 = "blu.slice"(%model.wpe.weight) {limits = array<i64: 8, 16>, starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : (tensor<12x16xf32>) -> tensor<8x16xf32>
    %1 = "blu.add"(%wte, %0) : (tensor<1x8x16xf32>, tensor<8x16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_1 = "blu.sum"(%1) {axes = array<i64: 2>, keepdims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
    %h.0.ln_1_0 = "blu.constant"() {value = dense<6.250000e-02> : tensor<f32>} : () -> tensor<f32>
    %h.0.ln_1_1 = "blu.multiply"(%h.0.ln_1, %h.0.ln_1_0) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %h.0.ln_1_2 = "blu.subtract"(%1, %h.0.ln_1_1) : (tensor<1x8x16xf32>, tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_1_3 = "blu.square"(%h.0.ln_1_2) : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_1_4 = "blu.sum"(%h.0.ln_1_3) {axes = array<i64: 2>, keepdims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
    %h.0.ln_1_5 = "blu.multiply"(%h.0.ln_1_4, %h.0.ln_1_0) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %h.0.ln_1_6 = "blu.constant"() {value = dense<9.99999974E-6> : tensor<f32>} : () -> tensor<f32>
    %h.0.ln_1_7 = "blu.add"(%h.0.ln_1_5, %h.0.ln_1_6) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %h.0.ln_1_8 = "blu.rsqrt"(%h.0.ln_1_7) : (tensor<1x8x1xf32>) -> tensor<1x8x1xf32>
    %h.0.ln_1_9 = "blu.multiply"(%h.0.ln_1_2, %h.0.ln_1_8) : (tensor<1x8x16xf32>, tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_1_10 = "blu.multiply"(%h.0.ln_1_9, %model.h.0.ln_1.weight) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_1_11 = "blu.add"(%h.0.ln_1_10, %model.h.0.ln_1.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0.attn.c_attn = "blu.matmul"(%h.0.ln_1_11, %model.h.0.attn.c_attn.weight) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x48xf32>) -> tensor<1x8x48xf32>
    %h.0.attn.c_attn_12 = "blu.add"(%h.0.attn.c_attn, %model.h.0.attn.c_attn.bias) : (tensor<1x8x48xf32>, tensor<48xf32>) -> tensor<1x8x48xf32>
    %h.0.attn = "blu.slice"(%h.0.attn.c_attn_12) {limits = array<i64: 1, 8, 16>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %h.0.attn_13 = "blu.reshape"(%h.0.attn) {shape = array<i64: 1, 8, 2, 8>} : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_14 = "blu.transpose"(%h.0.attn_13) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_15 = "blu.slice"(%h.0.attn.c_attn_12) {limits = array<i64: 1, 8, 32>, starts = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %h.0.attn_16 = "blu.reshape"(%h.0.attn_15) {shape = array<i64: 1, 8, 2, 8>} : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_17 = "blu.transpose"(%h.0.attn_16) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_18 = "blu.slice"(%h.0.attn.c_attn_12) {limits = array<i64: 1, 8, 48>, starts = array<i64: 0, 0, 32>, strides = array<i64: 1, 1, 1>} : (tensor<1x8x48xf32>) -> tensor<1x8x16xf32>
    %h.0.attn_19 = "blu.reshape"(%h.0.attn_18) {shape = array<i64: 1, 8, 2, 8>} : (tensor<1x8x16xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_20 = "blu.transpose"(%h.0.attn_19) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x8x2x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_21 = "blu.attention"(%h.0.attn_14, %h.0.attn_17, %h.0.attn_20) {causal = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0>, precision = "highest", scale = 0.35355339059327373 : f64} : (tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>, tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
    %h.0.attn_22 = "blu.transpose"(%h.0.attn_21) {permutation = array<i64: 0, 2, 1, 3>} : (tensor<1x2x8x8xf32>) -> tensor<1x8x2x8xf32>
    %h.0.attn_23 = "blu.reshape"(%h.0.attn_22) {shape = array<i64: 1, 8, 16>} : (tensor<1x8x2x8xf32>) -> tensor<1x8x16xf32>
    %h.0.attn.c_proj = "blu.matmul"(%h.0.attn_23, %model.h.0.attn.c_proj.weight) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x16xf32>) -> tensor<1x8x16xf32>
    %h.0.attn.c_proj_24 = "blu.add"(%h.0.attn.c_proj, %model.h.0.attn.c_proj.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0 = "blu.add"(%1, %h.0.attn.c_proj_24) : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_2 = "blu.sum"(%h.0) {axes = array<i64: 2>, keepdims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
    %h.0.ln_2_25 = "blu.multiply"(%h.0.ln_2, %h.0.ln_1_0) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %h.0.ln_2_26 = "blu.subtract"(%h.0, %h.0.ln_2_25) : (tensor<1x8x16xf32>, tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_2_27 = "blu.square"(%h.0.ln_2_26) : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_2_28 = "blu.sum"(%h.0.ln_2_27) {axes = array<i64: 2>, keepdims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
    %h.0.ln_2_29 = "blu.multiply"(%h.0.ln_2_28, %h.0.ln_1_0) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %h.0.ln_2_30 = "blu.add"(%h.0.ln_2_29, %h.0.ln_1_6) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %h.0.ln_2_31 = "blu.rsqrt"(%h.0.ln_2_30) : (tensor<1x8x1xf32>) -> tensor<1x8x1xf32>
    %h.0.ln_2_32 = "blu.multiply"(%h.0.ln_2_26, %h.0.ln_2_31) : (tensor<1x8x16xf32>, tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_2_33 = "blu.multiply"(%h.0.ln_2_32, %model.h.0.ln_2.weight) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0.ln_2_34 = "blu.add"(%h.0.ln_2_33, %model.h.0.ln_2.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0.mlp.c_fc = "blu.matmul"(%h.0.ln_2_34, %model.h.0.mlp.c_fc.weight) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp.c_fc_35 = "blu.add"(%h.0.mlp.c_fc, %model.h.0.mlp.c_fc.bias) : (tensor<1x8x64xf32>, tensor<64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp = "blu.multiply"(%h.0.mlp.c_fc_35, %h.0.mlp.c_fc_35) : (tensor<1x8x64xf32>, tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp_36 = "blu.constant"() {value = dense<0.0713548139> : tensor<f32>} : () -> tensor<f32>
    %h.0.mlp_37 = "blu.multiply"(%h.0.mlp, %h.0.mlp_36) : (tensor<1x8x64xf32>, tensor<f32>) -> tensor<1x8x64xf32>
    %h.0.mlp_38 = "blu.constant"() {value = dense<1.59576917> : tensor<f32>} : () -> tensor<f32>
    %h.0.mlp_39 = "blu.add"(%h.0.mlp_37, %h.0.mlp_38) : (tensor<1x8x64xf32>, tensor<f32>) -> tensor<1x8x64xf32>
    %h.0.mlp_40 = "blu.multiply"(%h.0.mlp_39, %h.0.mlp.c_fc_35) : (tensor<1x8x64xf32>, tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp_41 = "blu.sigmoid"(%h.0.mlp_40) : (tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp_42 = "blu.multiply"(%h.0.mlp.c_fc_35, %h.0.mlp_41) : (tensor<1x8x64xf32>, tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
    %h.0.mlp.c_proj = "blu.matmul"(%h.0.mlp_42, %model.h.0.mlp.c_proj.weight) {precision = "highest"} : (tensor<1x8x64xf32>, tensor<64x16xf32>) -> tensor<1x8x16xf32>
    %h.0.mlp.c_proj_43 = "blu.add"(%h.0.mlp.c_proj, %model.h.0.mlp.c_proj.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %h.0_44 = "blu.add"(%h.0, %h.0.mlp.c_proj_43) : (tensor<1x8x16xf32>, tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %ln_f = "blu.sum"(%h.0_44) {axes = array<i64: 2>, keepdims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
    %ln_f_45 = "blu.multiply"(%ln_f, %h.0.ln_1_0) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %ln_f_46 = "blu.subtract"(%h.0_44, %ln_f_45) : (tensor<1x8x16xf32>, tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %ln_f_47 = "blu.square"(%ln_f_46) : (tensor<1x8x16xf32>) -> tensor<1x8x16xf32>
    %ln_f_48 = "blu.sum"(%ln_f_47) {axes = array<i64: 2>, keepdims = true} : (tensor<1x8x16xf32>) -> tensor<1x8x1xf32>
    %ln_f_49 = "blu.multiply"(%ln_f_48, %h.0.ln_1_0) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %ln_f_50 = "blu.add"(%ln_f_49, %h.0.ln_1_6) : (tensor<1x8x1xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %ln_f_51 = "blu.rsqrt"(%ln_f_50) : (tensor<1x8x1xf32>) -> tensor<1x8x1xf32>
    %ln_f_52 = "blu.multiply"(%ln_f_46, %ln_f_51) : (tensor<1x8x16xf32>, tensor<1x8x1xf32>) -> tensor<1x8x16xf32>
    %ln_f_53 = "blu.multiply"(%ln_f_52, %model.ln_f.weight) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %ln_f_54 = "blu.add"(%ln_f_53, %model.ln_f.bias) : (tensor<1x8x16xf32>, tensor<16xf32>) -> tensor<1x8x16xf32>
    %2 = "blu.transpose"(%model.wte.weight) {permutation = array<i64: 1, 0>} : (tensor<61x16xf32>) -> tensor<16x61xf32>
    %3 = "blu.matmul"(%ln_f_54, %2) {precision = "highest"} : (tensor<1x8x16xf32>, tensor<16x61xf32>) -> tensor<1x8x61xf32>
    return %3 : tensor<1x8x61xf32>
  }
}
