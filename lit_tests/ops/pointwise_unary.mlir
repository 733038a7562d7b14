// One scalar body per op, in a loop whose leading dimensions are one.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s
// RUN: %blu-opt %s --split-input-file --lower-to-linalg=keeps-subnormals=false | %filecheck %s --check-prefix=SHORT

// Leading dimensions are collapsed, so that ops over the same data get the same loops.
// CHECK-LABEL: func.func @leading_dimensions(
// CHECK-SAME: %[[X:.+]]: tensor<2x3x4xf32>)
// CHECK: %[[FLAT:.+]] = tensor.collapse_shape %[[X]] [[0, 1], [2]] : tensor<2x3x4xf32> into tensor<6x4xf32>
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>
// CHECK-SAME: ["parallel", "parallel"]} ins(%[[FLAT]] : tensor<6x4xf32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[EXP:.+]] = math.exp %[[IN]] : f32
// CHECK-NEXT: linalg.yield %[[EXP]] : f32
// CHECK: %[[SPLIT:.+]] = tensor.expand_shape %[[LOOP]] [[0, 1], [2]] output_shape [2, 3, 4] : tensor<6x4xf32> into tensor<2x3x4xf32>
// CHECK: return %[[SPLIT]] : tensor<2x3x4xf32>
func.func @leading_dimensions(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = "blu.exp"(%x) : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// Halves compute in f32 and are rounded once.
// CHECK-LABEL: func.func @half(
// CHECK-SAME: %[[X:.+]]: tensor<4xf16>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xf16>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f16, %{{.+}}: f16):
// CHECK-NEXT: %[[EXTF:.+]] = arith.extf %[[IN]] : f16 to f32
// CHECK-NEXT: %[[ABSF:.+]] = math.absf %[[EXTF]] : f32
// CHECK-NEXT: %[[NEGF:.+]] = arith.negf %[[ABSF]] : f32
// CHECK-NEXT: %[[EXP:.+]] = math.exp %[[NEGF]] : f32
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: %[[CMPF:.+]] = arith.cmpf olt, %[[EXTF]], %[[C0]] : f32
// CHECK-NEXT: %[[C1:.+]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[CMPF]], %[[EXP]], %[[C1]] : f32
// CHECK-NEXT: %[[C1_1:.+]] = arith.constant 1.000000e+00 : f32
// CHECK-NEXT: %[[ADDF:.+]] = arith.addf %[[EXP]], %[[C1_1]] : f32
// CHECK-NEXT: %[[DIVF:.+]] = arith.divf %[[SELECT]], %[[ADDF]] : f32
// CHECK-NEXT: %[[TRUNCF:.+]] = arith.truncf %[[DIVF]] : f32 to f16
// CHECK-NEXT: linalg.yield %[[TRUNCF]] : f16
// CHECK: return %[[LOOP]] : tensor<4xf16>

// Where exponentials of f32 are 0 below 2^-126, the shorter body gives as much.
// SHORT-LABEL: func.func @half(
// SHORT: %[[EXTF:.+]] = arith.extf
// SHORT-NEXT: %[[C1:.+]] = arith.constant 1.000000e+00 : f32
// SHORT-NEXT: %[[NEGF:.+]] = arith.negf %[[EXTF]] : f32
// SHORT-NEXT: %[[EXP:.+]] = math.exp %[[NEGF]] : f32
// SHORT-NEXT: %[[C1_1:.+]] = arith.constant 1.000000e+00 : f32
// SHORT-NEXT: %[[ADDF:.+]] = arith.addf %[[EXP]], %[[C1_1]] : f32
// SHORT-NEXT: arith.divf %[[C1]], %[[ADDF]] : f32
func.func @half(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = "blu.sigmoid"(%x) : (tensor<4xf16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// CHECK-LABEL: func.func @bfloat(
// CHECK-SAME: %[[X:.+]]: tensor<4xbf16>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xbf16>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: bf16, %{{.+}}: bf16):
// CHECK-NEXT: %[[EXTF:.+]] = arith.extf %[[IN]] : bf16 to f32
// CHECK-NEXT: %[[TANH:.+]] = math.tanh %[[EXTF]] : f32
// CHECK-NEXT: %[[TRUNCF:.+]] = arith.truncf %[[TANH]] : f32 to bf16
// CHECK-NEXT: linalg.yield %[[TRUNCF]] : bf16
// CHECK: return %[[LOOP]] : tensor<4xbf16>
func.func @bfloat(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = "blu.tanh"(%x) : (tensor<4xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// Integers know their sign by the dtype, which linalg's types no longer show.
// CHECK-LABEL: func.func @signs(
// CHECK-SAME: %[[X:.+]]: tensor<4xi32>, %[[Y:.+]]: tensor<4xi8>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xi32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: i32, %{{.+}}: i32):
// CHECK-NEXT: %[[C0:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[CMPI:.+]] = arith.cmpi slt, %[[IN]], %[[C0]] : i32
// CHECK-NEXT: %[[C0_1:.+]] = arith.constant 0 : i32
// CHECK-NEXT: %[[SUBI:.+]] = arith.subi %[[C0_1]], %[[IN]] : i32
// CHECK-NEXT: %[[SELECT:.+]] = arith.select %[[CMPI]], %[[SUBI]], %[[IN]] : i32
// CHECK-NEXT: linalg.yield %[[SELECT]] : i32
// CHECK: %[[LOOP_1:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[Y]] : tensor<4xi8>)
// CHECK-NEXT: ^bb0(%[[IN_1:.+]]: i8, %{{.+}}: i8):
// CHECK-NEXT: %[[C0_2:.+]] = arith.constant 0 : i8
// CHECK-NEXT: %[[MAXUI:.+]] = arith.maxui %[[IN_1]], %[[C0_2]] : i8
// CHECK-NEXT: linalg.yield %[[MAXUI]] : i8
// CHECK: return %[[LOOP]], %[[LOOP_1]] : tensor<4xi32>, tensor<4xi8>
func.func @signs(%x: tensor<4xi32>, %y: tensor<4xui8>) -> (tensor<4xi32>, tensor<4xui8>) {
  %0 = "blu.absolute"(%x) : (tensor<4xi32>) -> tensor<4xi32>
  %1 = "blu.relu"(%y) : (tensor<4xui8>) -> tensor<4xui8>
  return %0, %1 : tensor<4xi32>, tensor<4xui8>
}

// -----

// A question about floats has i1 results; NaN is what differs from itself.
// CHECK-LABEL: func.func @isnan(
// CHECK-SAME: %[[X:.+]]: tensor<4xf64>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>
// CHECK-SAME: ["parallel"]} ins(%[[X]] : tensor<4xf64>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f64, %{{.+}}: i1):
// CHECK-NEXT: %[[CMPF:.+]] = arith.cmpf une, %[[IN]], %[[IN]] : f64
// CHECK-NEXT: linalg.yield %[[CMPF]] : i1
// CHECK: return %[[LOOP]] : tensor<4xi1>
func.func @isnan(%x: tensor<4xf64>) -> tensor<4xi1> {
  %0 = "blu.isnan"(%x) : (tensor<4xf64>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

// A 0-d tensor is a loop without dimensions.
// CHECK-LABEL: func.func @scalar(
// CHECK-SAME: %[[X:.+]]: tensor<f32>)
// CHECK: %[[LOOP:.+]] = linalg.generic
// CHECK-SAME: affine_map<() -> ()>, affine_map<() -> ()>
// CHECK-SAME: []} ins(%[[X]] : tensor<f32>)
// CHECK-NEXT: ^bb0(%[[IN:.+]]: f32, %{{.+}}: f32):
// CHECK-NEXT: %[[SQRT:.+]] = math.sqrt %[[IN]] : f32
// CHECK-NEXT: linalg.yield %[[SQRT]] : f32
// CHECK: return %[[LOOP]] : tensor<f32>
func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  %0 = "blu.sqrt"(%x) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// CHECK-LABEL: func.func @arccos(
// CHECK: linalg.generic
// CHECK: math.acos %{{.+}} : f32
func.func @arccos(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.arccos"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @arccosh(
// CHECK: linalg.generic
// CHECK: math.acosh %{{.+}} : f32
func.func @arccosh(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.arccosh"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @arcsin(
// CHECK: linalg.generic
// CHECK: math.asin %{{.+}} : f32
func.func @arcsin(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.arcsin"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @arcsinh(
// CHECK: linalg.generic
// CHECK: math.asinh %{{.+}} : f32
func.func @arcsinh(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.arcsinh"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @arctan(
// CHECK: linalg.generic
// CHECK: math.atan %{{.+}} : f32
func.func @arctan(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.arctan"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @arctanh(
// CHECK: linalg.generic
// CHECK: math.atanh %{{.+}} : f32
func.func @arctanh(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.arctanh"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @cbrt(
// CHECK: linalg.generic
// CHECK: math.cbrt %{{.+}} : f32
func.func @cbrt(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.cbrt"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @ceil(
// CHECK: linalg.generic
// CHECK: math.ceil %{{.+}} : f32
func.func @ceil(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.ceil"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @cos(
// CHECK: linalg.generic
// CHECK: math.cos %{{.+}} : f32
func.func @cos(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.cos"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @cosh(
// CHECK: linalg.generic
// CHECK: math.cosh %{{.+}} : f32
func.func @cosh(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.cosh"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @erf(
// CHECK: linalg.generic
// CHECK: math.erf %{{.+}} : f32
func.func @erf(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.erf"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @erfc(
// CHECK: linalg.generic
// CHECK: math.erfc %{{.+}} : f32
func.func @erfc(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.erfc"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @exp2(
// CHECK: linalg.generic
// CHECK: math.exp2 %{{.+}} : f32
func.func @exp2(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.exp2"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @expm1(
// CHECK: linalg.generic
// CHECK: math.expm1 %{{.+}} : f32
func.func @expm1(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.expm1"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @floor(
// CHECK: linalg.generic
// CHECK: math.floor %{{.+}} : f32
func.func @floor(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.floor"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @invert(
// CHECK: linalg.generic
// CHECK: arith.xori %{{.+}}, %{{.+}}-1_i8 : i8
func.func @invert(%x: tensor<6xi8>) -> tensor<6xi8> {
  %0 = "blu.invert"(%x) : (tensor<6xi8>) -> tensor<6xi8>
  return %0 : tensor<6xi8>
}

// -----

// CHECK-LABEL: func.func @isfinite(
// CHECK: linalg.generic
// CHECK: math.absf %{{.+}} : f32
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: arith.cmpf olt, %{{.+}}, %{{.+}} : f32
func.func @isfinite(%x: tensor<12xf32>) -> tensor<12xi1> {
  %0 = "blu.isfinite"(%x) : (tensor<12xf32>) -> tensor<12xi1>
  return %0 : tensor<12xi1>
}

// -----

// CHECK-LABEL: func.func @isinf(
// CHECK: linalg.generic
// CHECK: math.absf %{{.+}} : f32
// CHECK: arith.constant 0x7F800000 : f32
// CHECK: arith.cmpf oeq, %{{.+}}, %{{.+}} : f32
func.func @isinf(%x: tensor<12xf32>) -> tensor<12xi1> {
  %0 = "blu.isinf"(%x) : (tensor<12xf32>) -> tensor<12xi1>
  return %0 : tensor<12xi1>
}

// -----

// CHECK-LABEL: func.func @log(
// CHECK: linalg.generic
// CHECK: math.log %{{.+}} : f32
func.func @log(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.log"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @log10(
// CHECK: linalg.generic
// CHECK: math.log10 %{{.+}} : f32
func.func @log10(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.log10"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @log1p(
// CHECK: linalg.generic
// CHECK: math.log1p %{{.+}} : f32
func.func @log1p(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.log1p"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @log2(
// CHECK: linalg.generic
// CHECK: math.log2 %{{.+}} : f32
func.func @log2(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.log2"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @logical_not(
// CHECK: linalg.generic
// CHECK: arith.constant true
// CHECK: arith.xori %{{.+}}, %{{.+}} : i1
func.func @logical_not(%x: tensor<5xi1>) -> tensor<5xi1> {
  %0 = "blu.logical_not"(%x) : (tensor<5xi1>) -> tensor<5xi1>
  return %0 : tensor<5xi1>
}

// -----

// CHECK-LABEL: func.func @negative(
// CHECK: linalg.generic
// CHECK: arith.negf %{{.+}} : f32
func.func @negative(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.negative"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @reciprocal(
// CHECK: linalg.generic
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK: arith.divf %{{.+}}, %{{.+}} : f32
func.func @reciprocal(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.reciprocal"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @round(
// CHECK: linalg.generic
// CHECK: math.roundeven %{{.+}} : f32
func.func @round(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.round"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @rsqrt(
// CHECK: linalg.generic
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK: math.sqrt %{{.+}} : f32
// CHECK: arith.divf %{{.+}}, %{{.+}} : f32
func.func @rsqrt(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.rsqrt"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @sign(
// CHECK: linalg.generic
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.cmpf ogt, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.cmpf olt, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.cmpf oeq, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
// CHECK: arith.constant 1.000000e+00 : f32
// CHECK: arith.constant -1.000000e+00 : f32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : f32
func.func @sign(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.sign"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @sin(
// CHECK: linalg.generic
// CHECK: math.sin %{{.+}} : f32
func.func @sin(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.sin"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @sinh(
// CHECK: linalg.generic
// CHECK: math.sinh %{{.+}} : f32
func.func @sinh(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.sinh"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @square(
// CHECK: linalg.generic
// CHECK: arith.mulf %{{.+}}, %{{.+}} : f32
func.func @square(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.square"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @tan(
// CHECK: linalg.generic
// CHECK: math.tan %{{.+}} : f32
func.func @tan(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.tan"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}

// -----

// CHECK-LABEL: func.func @trunc(
// CHECK: linalg.generic
// CHECK: math.trunc %{{.+}} : f32
func.func @trunc(%x: tensor<12xf32>) -> tensor<12xf32> {
  %0 = "blu.trunc"(%x) : (tensor<12xf32>) -> tensor<12xf32>
  return %0 : tensor<12xf32>
}
