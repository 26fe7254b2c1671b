// passes: canonicalize
"func.func"() ({
^bb0(%x: tensor<4x4xf32>, %v: tensor<4xf32>):
  %0 = "arith.constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "lamina.broadcast"(%0) {dims = array<i64>} : (tensor<f32>) -> tensor<4x4xf32>
  %2 = "arith.divf"(%x, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "lamina.permute"(%2) {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "lamina.permute"(%3) {perm = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "tensor.expand_shape"(%v) {reassociation = [[0, 1]], static_output_shape = array<i64: 1, 4>} : (tensor<4xf32>) -> tensor<1x4xf32>
  %6 = "lamina.broadcast"(%5) {dims = array<i64: 0, 1>} : (tensor<1x4xf32>) -> tensor<4x4xf32>
  %7 = "math.exp"(%6) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %8 = "arith.addf"(%4, %7) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %9 = "tensor.extract_slice"(%8) {static_offsets = array<i64: 1, 0>, static_sizes = array<i64: 3, 4>, static_strides = array<i64: 1, 1>} : (tensor<4x4xf32>) -> tensor<3x4xf32>
  %10 = "tensor.extract_slice"(%9) {static_offsets = array<i64: 1, 0>, static_sizes = array<i64: 2, 4>, static_strides = array<i64: 1, 1>} : (tensor<3x4xf32>) -> tensor<2x4xf32>
  %11 = "tensor.concat"(%10) {dim = 0} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = "lamina.reduce"(%5) {kind = "max", dims = array<i64: 0>} : (tensor<1x4xf32>) -> tensor<4xf32>
  "func.return"(%11, %12) : (tensor<2x4xf32>, tensor<4xf32>) -> ()
}) {sym_name = "main", function_type = (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>)} : () -> ()
// =>
"builtin.module"() ({
  "func.func"() ({
  ^bb0(%arg0: tensor<4x4xf32>, %arg1: tensor<4xf32>):
    %0 = "arith.constant"() {value = dense<0.5> : tensor<4x4xf32>} : () -> tensor<4x4xf32>
    %1 = "arith.mulf"(%arg0, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %2 = "math.exp"(%arg1) : (tensor<4xf32>) -> tensor<4xf32>
    %3 = "lamina.broadcast"(%2) {dims = array<i64: 1>} : (tensor<4xf32>) -> tensor<4x4xf32>
    %4 = "arith.addf"(%1, %3) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    %5 = "tensor.extract_slice"(%4) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 2, 0>, static_sizes = array<i64: 2, 4>, static_strides = array<i64: 1, 1>} : (tensor<4x4xf32>) -> tensor<2x4xf32>
    "func.return"(%5, %arg1) : (tensor<2x4xf32>, tensor<4xf32>) -> ()
  }) {function_type = (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>), sym_name = "main"} : () -> ()
}) : () -> ()
