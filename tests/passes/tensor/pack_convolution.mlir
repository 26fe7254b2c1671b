// passes: pack_convolution,layout,prepare
"func.func"() ({
^bb0(%x: tensor<1x3x4x4xf32>, %w: tensor<8x3x3x3xf32>):
  %0 = "aten.convolution.default"(%x, %w) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], false, [0, 0], 1], result_strides = [[128, 16, 4, 1]]} : (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x4x4xf32>
  %1 = "arith.constant"() {value = dense<0.0> : tensor<1x8x4x4xf32>} : () -> tensor<1x8x4x4xf32>
  %2 = "arith.maximumf"(%0, %1) : (tensor<1x8x4x4xf32>, tensor<1x8x4x4xf32>) -> tensor<1x8x4x4xf32>
  %3 = "lamina.reduce"(%2) {kind = "add", dims = array<i64: 2, 3>} : (tensor<1x8x4x4xf32>) -> tensor<1x8xf32>
  "func.return"(%2, %3) : (tensor<1x8x4x4xf32>, tensor<1x8xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8xf32>), lamina.arg_kinds = ["input", "parameter"], lamina.arg_strides = [[48, 16, 4, 1], [27, 9, 3, 1]]} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<8x3x3x3xf32>):
    %0 = "mkldnn._reorder_convolution_weight.default"(%arg0) {args = [unit, [1, 1], [1, 1], [1, 1], 1, [1, 3, 4, 4]], opaque = true, result_strides = [[27, 9, 3, 1]]} : (tensor<8x3x3x3xf32>) -> tensor<8x3x3x3xf32>
    "func.return"(%0) : (tensor<8x3x3x3xf32>) -> ()
  }) {function_type = (tensor<8x3x3x3xf32>) -> tensor<8x3x3x3xf32>, lamina.arg_kinds = ["parameter"], lamina.arg_strides = [[27, 9, 3, 1]], lamina.result_strides = [[27, 9, 3, 1]], sym_name = "prepare"} : () -> ()
  "func.func"() ({
  ^bb0(%arg0: tensor<1x3x4x4xf32>, %arg1: tensor<8x3x3x3xf32>, %arg2: tensor<8x3x3x3xf32>):
    %0 = "mkldnn._convolution_pointwise.default"(%arg0, %arg2) {args = [unit, unit, none, [1, 1], [1, 1], [1, 1], 1, "none", [], ""], result_strides = [[128, 1, 32, 8]]} : (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x4x4xf32>
    %1 = "lamina.permute"(%0) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x8x4x4xf32>) -> tensor<1x4x4x8xf32>
    %2 = "arith.constant"() {value = dense<0.0> : tensor<1x8x4x4xf32>} : () -> tensor<1x8x4x4xf32>
    %3 = "arith.constant"() {value = dense<0.0> : tensor<1x4x4x8xf32>} : () -> tensor<1x4x4x8xf32>
    %4 = "arith.maximumf"(%1, %3) : (tensor<1x4x4x8xf32>, tensor<1x4x4x8xf32>) -> tensor<1x4x4x8xf32>
    %5 = "lamina.permute"(%4) {perm = array<i64: 0, 3, 1, 2>} : (tensor<1x4x4x8xf32>) -> tensor<1x8x4x4xf32>
    %6 = "lamina.reduce"(%4) {dims = array<i64: 1, 2>, kind = "add"} : (tensor<1x4x4x8xf32>) -> tensor<1x8xf32>
    "func.return"(%5, %6) : (tensor<1x8x4x4xf32>, tensor<1x8xf32>) -> ()
  }) {function_type = (tensor<1x3x4x4xf32>, tensor<8x3x3x3xf32>, tensor<8x3x3x3xf32>) -> (tensor<1x8x4x4xf32>, tensor<1x8xf32>), lamina.arg_kinds = ["input", "parameter", "prepared"], lamina.arg_strides = [[48, 16, 4, 1], [27, 9, 3, 1], [27, 9, 3, 1]], lamina.opaque_args = [2], lamina.prepare_arguments = [1], sym_name = "main"} : () -> ()
}) : () -> ()
