"""Fusion: tensor-level operations of @main become `lamina.kernel` regions, one generated kernel each.

The form of a kernel, which later levels rely on:

    %1 = "lamina.kernel"(%x, %b) ({
    ^bb0(%x0: tensor<512x768xf32>, %b0: tensor<768xf32>):
      %2 = "lamina.broadcast"(%b0) {dims = array<i64: 1>} : ... -> tensor<512x768xf32>
      %3 = "arith.addf"(%x0, %2) : tensor<512x768xf32>
      %4 = "lamina.reduce"(%3) {kind = "add", dims = array<i64: 1>} : ... -> tensor<512xf32>
      %5 = "lamina.broadcast"(%4) {dims = array<i64: 0>} : ... -> tensor<512x768xf32>
      %6 = "arith.divf"(%3, %5) : tensor<512x768xf32>
      "lamina.yield"(%6)
    }) {kind = "normalization", domain = array<i64: 512, 768>, reduced = array<i64: 1>, stages = 2, nests = 1,
        arg_strides = [[768, 1], [1]], result_strides = [[768, 1]]}

- `domain` are the sizes of the iteration space, `reduced` its dimensions that are reduced (empty: a pointwise
  kernel). The others are parallel. Dimensions that every access walks as one are merged; none has size 1; a
  domain may be empty (scalars) or hold a 0.
- What depends on a reduction has the domain's shape or the parallel shape (the domain without `reduced`).
  Other values may have any part of the domain's dimensions, in its order.
- `lamina.reduce` has an operand of the domain's shape and `dims = reduced`. `stages` counts the passes over a
  row that this takes: a sum 1, x / sum(x) 2, softmax 3; 0 for a pointwise kernel.
- An argument is a view of a buffer: a part of the domain's dimensions in the domain's order, at any strides
  (`arg_strides`, elements); `lamina.broadcast` brings it to the shape that is needed. Permutes, slices
  and reshapes are views in @main, never inside. A kernel may get the same buffer several times as
  different views.
- Three exceptions for arguments: `lamina.pad` or `lamina.reverse` directly on an argument, and
  `lamina.index %argument, %i0, %i1, ...` with `dims` naming all of the argument's dimensions, and indices
  (i64, within bounds) of the result's shape.
- Constants are splats.
- Results have the domain's or the parallel shape and the strides in `result_strides`; in @main views bring
  them to their logical shape.
- `nests` counts iteration spaces: where it is not 1, further ones (small: checks of bounds) follow, each of
  the same form with a domain of its own. `domain`, `reduced` and `stages` are the first's.
- `tensor.concat {lamina.placed}` stays in @main, of views of kernel results that go nowhere else: the pieces'
  `result_strides` are those of their place in the concatenation's buffer.
"""
