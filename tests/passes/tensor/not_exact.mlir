// passes: canonicalize,fold,cse,dce
// What is wrong for -0, infinities or nan stays.
"func.func"() ({
^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
  %zero = "arith.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
  %0 = "arith.addf"(%x, %zero) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = "arith.mulf"(%x, %zero) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "arith.subf"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %3 = "arith.addf"(%x, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = "arith.subf"(%3, %y) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = "arith.truncf"(%x) : (tensor<4xf32>) -> tensor<4xbf16>
  %6 = "arith.extf"(%5) : (tensor<4xbf16>) -> tensor<4xf32>
  "func.return"(%0, %1, %2, %4, %6) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<4xf32>):
    %0 = "arith.constant"() {value = dense<0.0> : tensor<4xf32>} : () -> tensor<4xf32>
    %1 = "arith.addf"(%arg0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %2 = "arith.mulf"(%arg0, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3 = "arith.subf"(%arg0, %arg0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %4 = "arith.addf"(%arg0, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %5 = "arith.subf"(%4, %arg1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %6 = "arith.truncf"(%arg0) : (tensor<4xf32>) -> tensor<4xbf16>
    %7 = "arith.extf"(%6) : (tensor<4xbf16>) -> tensor<4xf32>
    "func.return"(%1, %2, %3, %5, %7) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) {function_type = (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>), sym_name = "main"} : () -> ()
}) : () -> ()
