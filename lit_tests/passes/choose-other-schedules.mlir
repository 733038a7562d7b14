// Scans, sorts and additions at indices get a schedule by their sizes, and what others wish is done.
// RUN: %blu-opt %s --pass-pipeline='lower-to-linalg,canonicalize,blu-fuse,blu-choose-schedules' | %filecheck %s

// CHECK: func.func private @argsort_0({{.*}}blu.schedule = {by = "bytes", kind = "merge", runs = 8 : i64, short = 256 : i64, short_runs = 32 : i64, threads = 256 : i64, tile = 1024 : i64, tile_threads = 256 : i64}
// CHECK: func.func private @scan_0({{.*}}blu.schedule = {kind = "scan_rows", length = 1000 : i64, team = 256 : i64}
// CHECK: func.func private @scan_1({{.*}}blu.schedule = {kind = "scan_columns", length = 50 : i64}
// CHECK: func.func private @scatter_add_0({{.*}}blu.schedule = {kind = "in_order"}
module attributes {blu.target = {name = "sm_90a"}, blu.schedules = {argsort_0 = {kind = "merge", by = "bytes", tile = 1024 : i64, tile_threads = 256 : i64}, scan_0 = {team = 256 : i64}}} {
  func.func @main(%keys: tensor<3x5000xi8>, %x: tensor<4x1000xf32>, %y: tensor<2x50x7xf32>, %rows: tensor<5xi32>, %updates: tensor<5x7xf32>, %zeros: tensor<9x7xf32>) -> (tensor<3x5000xi64>, tensor<4x1000xf32>, tensor<2x50x7xf32>, tensor<9x7xf32>) {
    %0 = "blu.argsort"(%keys) {axis = 1 : i64, descending = false} : (tensor<3x5000xi8>) -> tensor<3x5000xi64>
    %1 = "blu.cumsum"(%x) {axis = 1 : i64, reverse = false} : (tensor<4x1000xf32>) -> tensor<4x1000xf32>
    %2 = "blu.cumsum"(%y) {axis = 1 : i64, reverse = false} : (tensor<2x50x7xf32>) -> tensor<2x50x7xf32>
    %3 = "blu.scatter_add"(%zeros, %rows, %updates) {axis = 0 : i64} : (tensor<9x7xf32>, tensor<5xi32>, tensor<5x7xf32>) -> tensor<9x7xf32>
    return %0, %1, %2, %3 : tensor<3x5000xi64>, tensor<4x1000xf32>, tensor<2x50x7xf32>, tensor<9x7xf32>
  }
}
