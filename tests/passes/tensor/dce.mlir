// passes: dce
"func.func"() ({
^bb0(%x: tensor<4xf32>):
  %0 = "math.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "math.log"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "aten.bernoulli.p"(%x) {args = [unit, 0.5], result_strides = [[1]], effects = "random"} : (tensor<4xf32>) -> tensor<4xf32>
  "func.return"(%x) : (tensor<4xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<4xf32>) -> (tensor<4xf32>)} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4xf32>):
    %0 = "aten.bernoulli.p"(%arg0) {args = [unit, 0.5], effects = "random", result_strides = [[1]]} : (tensor<4xf32>) -> tensor<4xf32>
    "func.return"(%arg0) : (tensor<4xf32>) -> ()
  }) {function_type = (tensor<4xf32>) -> tensor<4xf32>, sym_name = "main"} : () -> ()
}) : () -> ()
