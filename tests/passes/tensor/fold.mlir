// passes: fold,dce
"func.func"() ({
^bb0():
  %0 = "arith.constant"() {value = dense<1.0> : tensor<4xbf16>} : () -> tensor<4xbf16>
  %1 = "arith.constant"() {value = dense<0.001> : tensor<4xbf16>} : () -> tensor<4xbf16>
  %2 = "arith.addf"(%0, %1) : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  %3 = "arith.constant"() {value = dense<[1, 2, 3]> : tensor<3xi8>} : () -> tensor<3xi8>
  %4 = "arith.constant"() {value = dense<100> : tensor<3xi8>} : () -> tensor<3xi8>
  %5 = "arith.muli"(%3, %4) : (tensor<3xi8>, tensor<3xi8>) -> tensor<3xi8>
  %6 = "lamina.reverse"(%5) {dims = array<i64: 0>} : (tensor<3xi8>) -> tensor<3xi8>
  %7 = "arith.constant"() {value = dense<1> : tensor<4096xi64>} : () -> tensor<4096xi64>
  %8 = "lamina.reduce"(%7) {kind = "add", dims = array<i64: 0>} : (tensor<4096xi64>) -> tensor<i64>
  "func.return"(%2, %6, %8) : (tensor<4xbf16>, tensor<3xi8>, tensor<i64>) -> ()
}) {sym_name = "main", function_type = () -> (tensor<4xbf16>, tensor<3xi8>, tensor<i64>)} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
    %0 = "arith.constant"() {value = dense<1.0> : tensor<4xbf16>} : () -> tensor<4xbf16>
    %1 = "arith.constant"() {value = dense<[44, -56, 100]> : tensor<3xi8>} : () -> tensor<3xi8>
    %2 = "arith.constant"() {value = dense<4096> : tensor<i64>} : () -> tensor<i64>
    "func.return"(%0, %1, %2) : (tensor<4xbf16>, tensor<3xi8>, tensor<i64>) -> ()
  }) {function_type = () -> (tensor<4xbf16>, tensor<3xi8>, tensor<i64>), sym_name = "main"} : () -> ()
}) : () -> ()
