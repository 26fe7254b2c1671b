// passes: cse
// Random operations are never merged; a region sees what is outside, unless it is isolated.
"func.func"() ({
^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
  %0 = "arith.addf"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "arith.addf"(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "arith.mulf"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "aten.bernoulli.p"(%2) {args = [unit, 0.5], result_strides = [[1]], effects = "random"} : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "aten.bernoulli.p"(%2) {args = [unit, 0.5], result_strides = [[1]], effects = "random"} : (tensor<4xf32>) -> tensor<4xf32>
  %5 = "aten.cumsum.default"(%2) {args = [unit, 0], result_strides = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
  %6 = "aten.cumsum.default"(%2) {args = [unit, 0], result_strides = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
  "func.return"(%3, %4, %5, %6) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>):
    %0 = "arith.addf"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %1 = "arith.mulf"(%0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "aten.bernoulli.p"(%1) {args = [unit, 0.5], effects = "random", result_strides = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "aten.bernoulli.p"(%1) {args = [unit, 0.5], effects = "random", result_strides = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
    %4 = "aten.cumsum.default"(%1) {args = [unit, 0], result_strides = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%2, %3, %4, %4) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>), sym_name = "main"} : () -> ()
}) : () -> ()
