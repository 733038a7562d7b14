// An index of several is one loop; each is checked beside it.
// RUN: %blu-opt %s --split-input-file --lower-to-linalg --mlir-print-local-scope | %filecheck %s

// CHECK-LABEL: func.func @checked_index(
// CHECK: arith.constant 0 : i64
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK: arith.extsi %{{.+}} : i32 to i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 2 : i64
// CHECK: arith.cmpi sge, %{{.+}}, %{{.+}} : i64
// CHECK: arith.ori %{{.+}}, %{{.+}} : i1
// CHECK: arith.constant 0 : i64
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK: arith.maxui %{{.+}}, %{{.+}} : i64
// CHECK: "plan.check"(
// CHECK: arith.constant 0 : i64
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 3 : i64
// CHECK: arith.cmpi sge, %{{.+}}, %{{.+}} : i64
// CHECK: arith.ori %{{.+}}, %{{.+}} : i1
// CHECK: arith.constant 0 : i64
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK: arith.maxui %{{.+}}, %{{.+}} : i64
// CHECK: "plan.check"(
// CHECK: arith.constant 0 : i64
// CHECK: linalg.fill
// CHECK: tensor.collapse_shape
// CHECK: linalg.generic
// CHECK: arith.extsi %{{.+}} : i32 to i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 9 : i64
// CHECK: arith.cmpi sge, %{{.+}}, %{{.+}} : i64
// CHECK: arith.ori %{{.+}}, %{{.+}} : i1
// CHECK: arith.constant 0 : i64
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK: arith.maxui %{{.+}}, %{{.+}} : i64
// CHECK: "plan.check"(
// CHECK: linalg.generic
// CHECK: arith.constant 0 : i64
// CHECK: arith.extsi %{{.+}} : i32 to i64
// CHECK: arith.constant 2 : i64
// CHECK: arith.muli %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 0 : i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 2 : i64
// CHECK: arith.addi %{{.+}}, %{{.+}} : i64
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK: arith.addi %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 3 : i64
// CHECK: arith.muli %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 0 : i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 3 : i64
// CHECK: arith.addi %{{.+}}, %{{.+}} : i64
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK: arith.addi %{{.+}}, %{{.+}} : i64
// CHECK: arith.extsi %{{.+}} : i32 to i64
// CHECK: arith.constant 9 : i64
// CHECK: arith.muli %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 0 : i64
// CHECK: arith.cmpi slt, %{{.+}}, %{{.+}} : i64
// CHECK: arith.constant 9 : i64
// CHECK: arith.addi %{{.+}}, %{{.+}} : i64
// CHECK: arith.select %{{.+}}, %{{.+}}, %{{.+}} : i64
// CHECK: arith.addi %{{.+}}, %{{.+}} : i64
func.func @checked_index(%x: tensor<2xi32>, %y: tensor<i64>, %z: tensor<3x2xi32>) -> tensor<3x2xi64> {
  %0 = "blu.checked_index"(%x, %y, %z) {from_end = true, operandSegmentSizes = array<i32: 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0>, reported_as = "take", sizes = array<i64: 2, 3, 9>} : (tensor<2xi32>, tensor<i64>, tensor<3x2xi32>) -> tensor<3x2xi64>
  return %0 : tensor<3x2xi64>
}
