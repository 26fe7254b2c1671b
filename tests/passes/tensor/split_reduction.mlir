// passes: split_reduction
"func.func"() ({
^bb0(%x: tensor<1048576xf32>, %y: tensor<1x64x64x8x4xf32>, %z: tensor<512x1024xf32>):
  %0 = "lamina.reduce"(%x) {kind = "add", dims = array<i64: 0>} : (tensor<1048576xf32>) -> tensor<f32>
  %1 = "lamina.reduce"(%y) {kind = "add", dims = array<i64: 1, 2, 4>} : (tensor<1x64x64x8x4xf32>) -> tensor<1x8xf32>
  %2 = "lamina.reduce"(%z) {kind = "max", dims = array<i64: 1>} : (tensor<512x1024xf32>) -> tensor<512xf32>
  %3 = "lamina.reduce"(%z) {kind = "max", dims = array<i64: 0, 1>} : (tensor<512x1024xf32>) -> tensor<f32>
  "func.return"(%0, %1, %2, %3) : (tensor<f32>, tensor<1x8xf32>, tensor<512xf32>, tensor<f32>) -> ()
}) {sym_name = "main", function_type = (tensor<1048576xf32>, tensor<1x64x64x8x4xf32>, tensor<512x1024xf32>) -> (tensor<f32>, tensor<1x8xf32>, tensor<512xf32>, tensor<f32>)} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<1048576xf32>, %arg1: tensor<1x64x64x8x4xf32>, %arg2: tensor<512x1024xf32>):
    %0 = "tensor.expand_shape"(%arg0) {reassociation = [[0, 1]], static_output_shape = array<i64: 64, 16384>} : (tensor<1048576xf32>) -> tensor<64x16384xf32>
    %1 = "lamina.reduce"(%0) {dims = array<i64: 1>, kind = "add"} : (tensor<64x16384xf32>) -> tensor<64xf32>
    %2 = "lamina.reduce"(%1) {dims = array<i64: 0>, kind = "add"} : (tensor<64xf32>) -> tensor<f32>
    %3 = "lamina.reduce"(%arg1) {dims = array<i64: 1, 2>, kind = "add"} : (tensor<1x64x64x8x4xf32>) -> tensor<1x8x4xf32>
    %4 = "lamina.reduce"(%3) {dims = array<i64: 2>, kind = "add"} : (tensor<1x8x4xf32>) -> tensor<1x8xf32>
    %5 = "lamina.reduce"(%arg2) {dims = array<i64: 1>, kind = "max"} : (tensor<512x1024xf32>) -> tensor<512xf32>
    %6 = "tensor.expand_shape"(%arg2) {reassociation = [[0, 1], [2]], static_output_shape = array<i64: 64, 8, 1024>} : (tensor<512x1024xf32>) -> tensor<64x8x1024xf32>
    %7 = "lamina.reduce"(%6) {dims = array<i64: 1, 2>, kind = "max"} : (tensor<64x8x1024xf32>) -> tensor<64xf32>
    %8 = "lamina.reduce"(%7) {dims = array<i64: 0>, kind = "max"} : (tensor<64xf32>) -> tensor<f32>
    "func.return"(%2, %4, %5, %8) : (tensor<f32>, tensor<1x8xf32>, tensor<512xf32>, tensor<f32>) -> ()
  }) {function_type = (tensor<1048576xf32>, tensor<1x64x64x8x4xf32>, tensor<512x1024xf32>) -> (tensor<f32>, tensor<1x8xf32>, tensor<512xf32>, tensor<f32>), sym_name = "main"} : () -> ()
}) : () -> ()
