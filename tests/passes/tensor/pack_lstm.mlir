// passes: pack_lstm,cse,prepare
"func.func"() ({
^bb0(%x: tensor<3x2x6xf32>, %h: tensor<1x2x8xf32>, %c: tensor<1x2x8xf32>, %wi: tensor<32x6xf32>, %wh: tensor<32x8xf32>, %bi: tensor<32xf32>, %bh: tensor<32xf32>):
  %0:3 = "aten.lstm.input"(%x, %h, %c, %wi, %wh, %bi, %bh) {args = [unit, [unit, unit], [unit, unit, unit, unit], true, 1, 0.0, false, false, false], result_strides = [[16, 8, 1], [16, 8, 1], [16, 8, 1]]} : (tensor<3x2x6xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<32x6xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<3x2x8xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>)
  "func.return"(%0#0, %0#1) : (tensor<3x2x8xf32>, tensor<1x2x8xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<3x2x6xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<32x6xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<32xf32>) -> (tensor<3x2x8xf32>, tensor<1x2x8xf32>), lamina.arg_kinds = ["input", "input", "input", "parameter", "parameter", "parameter", "parameter"], lamina.arg_strides = [[12, 6, 1], [16, 8, 1], [16, 8, 1], [6, 1], [8, 1], [1], [1]]} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<32x6xf32>, %arg1: tensor<32x8xf32>):
    %0 = "aten.clone.default"(%arg0) {args = [unit], kwargs = {memory_format = "torch.contiguous_format"}, result_strides = [[6, 1]]} : (tensor<32x6xf32>) -> tensor<32x6xf32>
    %1 = "aten.clone.default"(%arg1) {args = [unit], kwargs = {memory_format = "torch.contiguous_format"}, result_strides = [[8, 1]]} : (tensor<32x8xf32>) -> tensor<32x8xf32>
    %2:2 = "mkldnn._reorder_mkldnn_rnn_layer_weight.default"(%0, %1) {args = [unit, unit, 8, false, true, false, [3, 2, 6]], opaque = true, result_strides = [[6, 1], [8, 1]]} : (tensor<32x6xf32>, tensor<32x8xf32>) -> (tensor<32x6xf32>, tensor<32x8xf32>)
    "func.return"(%2#0, %2#1) : (tensor<32x6xf32>, tensor<32x8xf32>) -> ()
  }) {function_type = (tensor<32x6xf32>, tensor<32x8xf32>) -> (tensor<32x6xf32>, tensor<32x8xf32>), lamina.arg_kinds = ["parameter", "parameter"], lamina.arg_strides = [[6, 1], [8, 1]], lamina.result_strides = [[6, 1], [8, 1]], sym_name = "prepare"} : () -> ()
  "func.func"() ({
  ^bb0(%arg0: tensor<3x2x6xf32>, %arg1: tensor<1x2x8xf32>, %arg2: tensor<1x2x8xf32>, %arg3: tensor<32x6xf32>, %arg4: tensor<32x8xf32>, %arg5: tensor<32xf32>, %arg6: tensor<32xf32>, %arg7: tensor<32x6xf32>, %arg8: tensor<32x8xf32>):
    %0 = "aten.clone.default"(%arg0) {args = [unit], kwargs = {memory_format = "torch.contiguous_format"}, result_strides = [[12, 6, 1]]} : (tensor<3x2x6xf32>) -> tensor<3x2x6xf32>
    %1 = "tensor.extract_slice"(%arg1) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 0, 0>, static_sizes = array<i64: 1, 2, 8>, static_strides = array<i64: 1, 1, 1>} : (tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
    %2 = "tensor.collapse_shape"(%1) {reassociation = [[0, 1], [2]]} : (tensor<1x2x8xf32>) -> tensor<2x8xf32>
    %3 = "aten.clone.default"(%2) {args = [unit], kwargs = {memory_format = "torch.contiguous_format"}, result_strides = [[8, 1]]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %4 = "tensor.extract_slice"(%arg2) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 0, 0>, static_sizes = array<i64: 1, 2, 8>, static_strides = array<i64: 1, 1, 1>} : (tensor<1x2x8xf32>) -> tensor<1x2x8xf32>
    %5 = "tensor.collapse_shape"(%4) {reassociation = [[0, 1], [2]]} : (tensor<1x2x8xf32>) -> tensor<2x8xf32>
    %6 = "aten.clone.default"(%5) {args = [unit], kwargs = {memory_format = "torch.contiguous_format"}, result_strides = [[8, 1]]} : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %7:3 = "aten.mkldnn_rnn_layer.default"(%0, %arg7, %arg8, %arg5, %arg6, %3, %6) {args = [unit, unit, unit, unit, unit, unit, unit, false, [], 2, 8, 1, true, false, false, false], result_strides = [[16, 8, 1], [8, 1], [8, 1]], returned = [true, true, true, false]} : (tensor<3x2x6xf32>, tensor<32x6xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<32xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<3x2x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>)
    %8 = "aten.stack.default"(%7#1) {args = [[unit], 0], result_strides = [[16, 8, 1]]} : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    "func.return"(%7#0, %8) : (tensor<3x2x8xf32>, tensor<1x2x8xf32>) -> ()
  }) {function_type = (tensor<3x2x6xf32>, tensor<1x2x8xf32>, tensor<1x2x8xf32>, tensor<32x6xf32>, tensor<32x8xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32x6xf32>, tensor<32x8xf32>) -> (tensor<3x2x8xf32>, tensor<1x2x8xf32>), lamina.arg_kinds = ["input", "input", "input", "parameter", "parameter", "parameter", "parameter", "prepared", "prepared"], lamina.arg_strides = [[12, 6, 1], [16, 8, 1], [16, 8, 1], [6, 1], [8, 1], [1], [1], [6, 1], [8, 1]], lamina.opaque_args = [7, 8], lamina.prepare_arguments = [3, 4], sym_name = "main"} : () -> ()
}) : () -> ()
