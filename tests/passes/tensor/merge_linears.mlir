// passes: merge_linears
"func.func"() ({
^bb0(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %b: tensor<6xf32>, %u: tensor<2x8xf32>, %c: tensor<2xf32>):
  %0 = "aten.linear.default"(%x, %w, %b) {args = [unit, unit, unit], result_strides = [[6, 1]]} : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "aten.linear.default"(%x, %u, %c) {args = [unit, unit, unit], result_strides = [[2, 1]]} : (tensor<4x8xf32>, tensor<2x8xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  "func.return"(%0, %1) : (tensor<4x6xf32>, tensor<4x2xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>, tensor<2x8xf32>, tensor<2xf32>) -> (tensor<4x6xf32>, tensor<4x2xf32>), lamina.arg_kinds = ["input", "parameter", "parameter", "parameter", "parameter"]} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4x8xf32>, %arg1: tensor<6x8xf32>, %arg2: tensor<6xf32>, %arg3: tensor<2x8xf32>, %arg4: tensor<2xf32>):
    %0 = "tensor.concat"(%arg1, %arg3) {dim = 0} : (tensor<6x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %1 = "tensor.concat"(%arg2, %arg4) {dim = 0} : (tensor<6xf32>, tensor<2xf32>) -> tensor<8xf32>
    %2 = "aten.linear.default"(%arg0, %0, %1) {args = [unit, unit, unit], result_strides = [[8, 1]]} : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %3 = "tensor.extract_slice"(%2) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 0>, static_sizes = array<i64: 4, 6>, static_strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x6xf32>
    %4 = "tensor.extract_slice"(%2) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0, 6>, static_sizes = array<i64: 4, 2>, static_strides = array<i64: 1, 1>} : (tensor<4x8xf32>) -> tensor<4x2xf32>
    "func.return"(%3, %4) : (tensor<4x6xf32>, tensor<4x2xf32>) -> ()
  }) {function_type = (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>, tensor<2x8xf32>, tensor<2xf32>) -> (tensor<4x6xf32>, tensor<4x2xf32>), lamina.arg_kinds = ["input", "parameter", "parameter", "parameter", "parameter"], sym_name = "main"} : () -> ()
}) : () -> ()
