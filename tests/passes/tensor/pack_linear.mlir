// passes: pack_linear,cse,prepare
"func.func"() ({
^bb0(%x: tensor<4x8xf32>, %w: tensor<6x8xf32>, %b: tensor<6xf32>):
  %0 = "aten.linear.default"(%x, %w, %b) {args = [unit, unit, unit], result_strides = [[6, 1]]} : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  %1 = "aten.linear.default"(%x, %w, %b) {args = [unit, unit, unit], result_strides = [[6, 1]]} : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<4x6xf32>
  "func.return"(%0, %1) : (tensor<4x6xf32>, tensor<4x6xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>), lamina.arg_kinds = ["input", "parameter", "parameter"], lamina.arg_strides = [[8, 1], [8, 1], [1]]} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<6x8xf32>):
    %0 = "mkl._mkl_reorder_linear_weight.default"(%arg0) {args = [unit, 4], opaque = true, result_strides = [[8, 1]]} : (tensor<6x8xf32>) -> tensor<6x8xf32>
    %1 = "aten.empty_strided.default"() {args = [[6, 8], [0, 0]], kwargs = {dtype = f32}, result_strides = [[0, 0]]} : () -> tensor<6x8xf32>
    "func.return"(%0, %1) : (tensor<6x8xf32>, tensor<6x8xf32>) -> ()
  }) {function_type = (tensor<6x8xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>), lamina.arg_kinds = ["parameter"], lamina.arg_strides = [[8, 1]], lamina.result_strides = [[8, 1], [0, 0]], sym_name = "prepare"} : () -> ()
  "func.func"() ({
  ^bb0(%arg0: tensor<4x8xf32>, %arg1: tensor<6x8xf32>, %arg2: tensor<6xf32>, %arg3: tensor<6x8xf32>, %arg4: tensor<6x8xf32>):
    %0 = "mkl._mkl_linear.default"(%arg0, %arg3, %arg4, %arg2) {args = [unit, unit, unit, unit, 4], result_strides = [[6, 1]]} : (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6x8xf32>, tensor<6xf32>) -> tensor<4x6xf32>
    "func.return"(%0, %0) : (tensor<4x6xf32>, tensor<4x6xf32>) -> ()
  }) {function_type = (tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>, tensor<6x8xf32>, tensor<6x8xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>), lamina.arg_kinds = ["input", "parameter", "parameter", "prepared", "prepared"], lamina.arg_strides = [[8, 1], [8, 1], [1], [8, 1], [0, 0]], lamina.opaque_args = [3], lamina.prepare_arguments = [1], sym_name = "main"} : () -> ()
}) : () -> ()
