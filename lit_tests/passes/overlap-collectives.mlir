// Collectives begin right after what they read is made, and are waited for right before their memory is needed.
// RUN: %blu-opt %s --split-input-file --blu-overlap-collectives | %filecheck %s

// CHECK-LABEL: func.func @begins_early_and_is_awaited_late
// CHECK: call @make(%arg0, %[[MINE:[0-9]+]])
// CHECK-NEXT: %[[TOKEN:[0-9]+]] = "plan.start"(%[[MINE]], %[[ALL:[0-9]+]])
// CHECK-NEXT: "plan.buffer"
// CHECK-NEXT: call @make(%arg0, %{{.*}})
// CHECK-NEXT: "plan.wait"(%[[TOKEN]], %[[MINE]], %[[ALL]])
// CHECK-NEXT: call @make(%[[ALL]], %{{.*}})
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func @begins_early_and_is_awaited_late(%x: memref<4xf32>) {
  %mine = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %all = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %other = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<4xf32>
  call @make(%x, %mine) : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%x, %other) : (memref<4xf32>, memref<4xf32>) -> ()
  %token = "plan.start"(%mine, %all) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%token, %mine, %all) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  call @make(%all, %other) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// A view is a part of what is seen through it; what is written may not be written before the collective has read it.
// CHECK-LABEL: func.func @memory_that_is_read_is_not_written
// CHECK: "plan.start"
// CHECK: "plan.wait"
// CHECK-NEXT: call @make
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func @memory_that_is_read_is_not_written(%x: memref<4xf32>, %mine: memref<8xf32>) {
  %all = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<8xf32>
  %token = "plan.start"(%mine, %all) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<8xf32>, memref<8xf32>) -> !async.token
  "plan.wait"(%token, %mine, %all) : (!async.token, memref<8xf32>, memref<8xf32>) -> ()
  %half = memref.reinterpret_cast %mine to offset: [0], sizes: [4], strides: [1] : memref<8xf32> to memref<4xf32>
  call @make(%x, %half) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// What begins later never begins before what began earlier: ranks do these in one order.
// CHECK-LABEL: func.func @the_order_stays
// CHECK: "plan.start"{{.*}}kind = "broadcast"
// CHECK: "plan.start"{{.*}}kind = "permute"
// CHECK-NEXT: "plan.wait"
// CHECK-NEXT: "plan.wait"
// CHECK-NEXT: return
func.func @the_order_stays(%x: memref<4xf32>, %y: memref<4xf32>) {
  %0 = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %1 = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %first = "plan.start"(%x, %0) {kind = "broadcast", axis = "dp", ranks = 2 : i64, reduction = "", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%first, %x, %0) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  %second = "plan.start"(%y, %1) {kind = "permute", axis = "dp", ranks = 2 : i64, reduction = "", amount = 1 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%second, %y, %1) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// Calls of a batch run together: nothing begins or is awaited between them.
// CHECK-LABEL: func.func @batches_stay_together
// CHECK: call @make{{.*}}blu.batch
// CHECK-NEXT: call @make{{.*}}blu.batch
// CHECK-NEXT: "plan.start"
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func @batches_stay_together(%x: memref<4xf32>) {
  %mine = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %all = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %other = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<4xf32>
  call @make(%x, %mine) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%x, %other) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  %token = "plan.start"(%mine, %all) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%token, %mine, %all) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// Memory that is only named right before a collective holds nothing back: its name goes with the start.
// CHECK-LABEL: func.func @names_go_with_the_start
// CHECK: call @make(%arg0, %[[MINE:[0-9]+]])
// CHECK-NEXT: %[[ALL:[0-9]+]] = "plan.buffer"() {index = 1
// CHECK-NEXT: %[[VIEW:.+]] = memref.reinterpret_cast %[[ALL]]
// CHECK-NEXT: "plan.start"(%[[MINE]], %[[VIEW]])
// CHECK-NEXT: "plan.buffer"
// CHECK-NEXT: call @make(%arg0
// CHECK-NEXT: "plan.wait"
// CHECK-NEXT: call @make(%[[VIEW]]
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func @names_go_with_the_start(%x: memref<4xf32>) {
  %mine = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<4xf32>
  call @make(%x, %mine) : (memref<4xf32>, memref<4xf32>) -> ()
  %other = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<4xf32>
  call @make(%x, %other) : (memref<4xf32>, memref<4xf32>) -> ()
  %all = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<2x2xf32>
  %view = memref.reinterpret_cast %all to offset: [0], sizes: [4], strides: [1] : memref<2x2xf32> to memref<4xf32>
  %token = "plan.start"(%mine, %view) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%token, %mine, %view) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  call @make(%view, %other) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// What a collective needs nothing of comes behind its start, although what it needs was written later (a product for
// the gradient of weights, say); batches stay together.
// CHECK-LABEL: func.func @others_follow
// CHECK: call @make(%arg0, %[[MADE:[0-9]+]])
// CHECK: call @make(%[[MADE]], %[[MINE:[0-9]+]]) {blu.batch
// CHECK-NEXT: call @make(%arg0, %{{[0-9]+}}) {blu.batch
// CHECK: "plan.start"(%[[MINE]]
// CHECK: call @make(%arg1, %{{[0-9]+}}) :
// CHECK-NEXT: "plan.wait"
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func @others_follow(%x: memref<4xf32>, %y: memref<4xf32>) {
  %made = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %mine = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %all = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %other = "plan.buffer"() {space = "arena", index = 3 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %third = "plan.buffer"() {space = "arena", index = 4 : i64, offset = -1 : i64} : () -> memref<4xf32>
  call @make(%x, %made) : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%y, %other) : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%made, %mine) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%x, %third) {blu.batch = 0 : i64} : (memref<4xf32>, memref<4xf32>) -> ()
  %token = "plan.start"(%mine, %all) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%token, %mine, %all) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  call @make(%all, %x) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// Where much runs before the result is needed, what it needs nothing of stays where its operands can be forgotten.
// CHECK-LABEL: func.func @others_stay_where_enough_runs_beside
// CHECK: call @make(%arg1, %[[OTHER:[0-9]+]])
// CHECK: call @make(%{{.*}}, %[[MINE:[0-9]+]])
// CHECK-NEXT: "plan.start"(%[[MINE]]
// CHECK: call @large
// CHECK-NEXT: "plan.wait"
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func private @large(memref<64xf32>, memref<64xf32>) attributes {blu.kernel = "rows"}
func.func @others_stay_where_enough_runs_beside(%x: memref<4xf32>, %y: memref<4xf32>, %z: memref<64xf32>) {
  %made = "plan.buffer"() {space = "arena", index = 0 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %mine = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %all = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %other = "plan.buffer"() {space = "arena", index = 3 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %fourth = "plan.buffer"() {space = "arena", index = 5 : i64, offset = -1 : i64} : () -> memref<64xf32>
  call @make(%x, %made) : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%y, %other) : (memref<4xf32>, memref<4xf32>) -> ()
  call @make(%made, %mine) : (memref<4xf32>, memref<4xf32>) -> ()
  %token = "plan.start"(%mine, %all) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%token, %mine, %all) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  call @large(%z, %fourth) : (memref<64xf32>, memref<64xf32>) -> ()
  call @make(%all, %x) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}

// -----

// Only the last of what needs not be before a start follows it, as much as runs while data travels.
// CHECK-LABEL: func.func @the_last_follow
// CHECK: call @large(%arg2
// CHECK: "plan.start"
// CHECK: call @large(%arg3
// CHECK-NEXT: "plan.wait"
func.func private @make(memref<4xf32>, memref<4xf32>) attributes {blu.kernel = "rows"}
func.func private @large(memref<64xf32>, memref<64xf32>) attributes {blu.kernel = "rows"}
func.func @the_last_follow(%x: memref<4xf32>, %y: memref<4xf32>, %v: memref<64xf32>, %w: memref<64xf32>) {
  %mine = "plan.buffer"() {space = "arena", index = 1 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %all = "plan.buffer"() {space = "arena", index = 2 : i64, offset = -1 : i64} : () -> memref<4xf32>
  %third = "plan.buffer"() {space = "arena", index = 3 : i64, offset = -1 : i64} : () -> memref<64xf32>
  %fourth = "plan.buffer"() {space = "arena", index = 4 : i64, offset = -1 : i64} : () -> memref<64xf32>
  call @large(%v, %third) : (memref<64xf32>, memref<64xf32>) -> ()
  call @large(%w, %fourth) : (memref<64xf32>, memref<64xf32>) -> ()
  call @make(%x, %mine) : (memref<4xf32>, memref<4xf32>) -> ()
  %token = "plan.start"(%mine, %all) {kind = "all_reduce", axis = "dp", ranks = 2 : i64, reduction = "sum", amount = 0 : i64, dtype = "f32"} : (memref<4xf32>, memref<4xf32>) -> !async.token
  "plan.wait"(%token, %mine, %all) : (!async.token, memref<4xf32>, memref<4xf32>) -> ()
  call @make(%all, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  return
}
