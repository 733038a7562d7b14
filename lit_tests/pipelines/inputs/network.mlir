// An embedding, a layer with its activation, a softmax, and a running total that is updated in place: four kernels.
func.func @main(%tokens: tensor<1024xi32> {blu.name = "tokens"}, %table: tensor<100x64xbf16> {blu.name = "embed.weight"}, %w: tensor<1536x64xbf16> {blu.name = "up.weight"}, %b: tensor<1536xbf16> {blu.name = "up.bias"}, %total: tensor<1024x1536xf32> {blu.name = "total", blu.donated}) -> tensor<1024x1536xf32> {
  %x = "blu.take"(%table, %tokens) {axis = 0 : i64} : (tensor<100x64xbf16>, tensor<1024xi32>) -> tensor<1024x64xbf16> loc("embed"("model.py":4:1))
  %wt = "blu.transpose"(%w) {permutation = array<i64: 1, 0>} : (tensor<1536x64xbf16>) -> tensor<64x1536xbf16> loc("up"("model.py":5:1))
  %0 = "blu.matmul"(%x, %wt) {precision = "highest"} : (tensor<1024x64xbf16>, tensor<64x1536xbf16>) -> tensor<1024x1536xbf16> loc("up"("model.py":5:1))
  %1 = "blu.add"(%0, %b) : (tensor<1024x1536xbf16>, tensor<1536xbf16>) -> tensor<1024x1536xbf16> loc("up"("model.py":5:1))
  %2 = "blu.gelu"(%1) {approximate = "tanh"} : (tensor<1024x1536xbf16>) -> tensor<1024x1536xbf16> loc("model.py":6:1)
  %3 = "blu.softmax"(%2) {axis = 1 : i64} : (tensor<1024x1536xbf16>) -> tensor<1024x1536xbf16> loc("model.py":7:1)
  %4 = "blu.convert"(%3) {dtype = f32} : (tensor<1024x1536xbf16>) -> tensor<1024x1536xf32> loc("model.py":8:1)
  %5 = "blu.add"(%total, %4) : (tensor<1024x1536xf32>, tensor<1024x1536xf32>) -> tensor<1024x1536xf32> loc("model.py":8:1)
  return %5 : tensor<1024x1536xf32>
}
