// passes: fold_batch_norm
"func.func"() ({
^bb0(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x3x3xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>):
  %0 = "aten.convolution.default"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], result_strides = [[128, 16, 4, 1]]} : (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x4x4xf32>
  %1 = "lamina.broadcast"(%a) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<1x8x4x4xf32>
  %2 = "arith.mulf"(%0, %1) : (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %3 = "lamina.broadcast"(%b) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<1x8x4x4xf32>
  %4 = "arith.addf"(%2, %3) : (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  "func.return"(%4) : (tensor<1x8x4x4xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<1x8x4x4xf32>), lamina.arg_kinds = ["input", "parameter", "parameter", "buffer"]} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<1x3x4x4xf32>, %arg1: tensor<8x3x3x3xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>):
    %0 = "lamina.broadcast"(%arg2) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<1x8x4x4xf32>
    %1 = "lamina.broadcast"(%arg3) {dims = array<i64: 1>} : (tensor<8xf32>) -> tensor<1x8x4x4xf32>
    %2 = "lamina.broadcast"(%arg2) {dims = array<i64: 0>} : (tensor<8xf32>) -> tensor<8x3x3x3xf32>
    %3 = "arith.mulf"(%arg1, %2) : (tensor<8x3x3x3xf32>, tensor<8x3x3x3xf32>) -> tensor<8x3x3x3xf32>
    %4 = "aten.convolution.default"(%arg0, %3, %arg3) {args = [unit, unit, unit, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], result_strides = [[128, 16, 4, 1]]} : (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>
    "func.return"(%4) : (tensor<1x8x4x4xf32>) -> ()
  }) {function_type = (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<1x8x4x4xf32>, lamina.arg_kinds = ["input", "parameter", "parameter", "buffer"], sym_name = "main"} : () -> ()
}) : () -> ()
