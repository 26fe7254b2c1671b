"""Give matrix products with constant weights to a library routine that reads packed weights.

    %1 = aten.linear(%x, %w, %b)    =>    %0 = mkl._mkl_reorder_linear_weight(%w, 128)
                                          %1 = mkl._mkl_linear(%x, %0, %like_w, %b, 128)

Packing is weights-only work: `prepare` moves it out. `aten.addmm` and `aten.mm` are taken as well.
The choice among the routines is a rule made from measurements: see the note at the foot.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from lamina.ir.attributes import integers, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops.aten import arguments
from lamina.ir.passes import Context
from lamina.ir.sizes import hint, is_static
from lamina.ir.types import TensorType, f32
from lamina.passes.tensor.library import MKL, MKLDNN, call, libraries
from lamina.passes.tensor.reshape import static_shape
from lamina.passes.tensor.weights import main_to_fold, weight_values

NAME = "pack_linear"
FEWEST_ROWS = 2
"""One row reads each weight once: memory decides, and packed weights are no smaller."""
FEWEST_WEIGHTS = 8192
"""Below, the call costs more than the product: 8 rows x 64 x 64 took 8.2 us packed and 5.5 us plain,
8 x 128 x 128 took 7.2 and 9.3."""


@dataclass(frozen=True, slots=True)
class Product:
    """x @ weight.T + bias. `weight` is out x in; `is_transposed`: given as in x out."""

    x: Value
    weight: Value
    bias: Value | None
    is_transposed: bool

    @property
    def rows(self) -> int:
        count = 1
        for size in static_shape(self.x)[:-1]:
            count *= size
        return count

    @property
    def width(self) -> int:
        """Output features."""
        return static_shape(self.weight)[1 if self.is_transposed else 0]


def run(module: Operation, context: Context) -> None:
    """Pack in @main, every product whose weight is a weight and for which packing pays."""
    function = main_to_fold(module, context)
    if function is None:
        return
    weights = weight_values(function)
    known = libraries(context)
    for operation in function.body:
        product = find_product(operation, weights)
        if product is None:
            continue
        reason = _refusal(product, known)
        if reason is not None:
            context.remarks.add(NAME, operation.location, reason, "refused", rows=hint(product.rows))
            continue
        routine = MKL if MKL in known else MKLDNN
        result = _pack(operation, product, routine)
        text = f"product of {product.rows} rows with packed weights ({routine})"
        context.remarks.add(NAME, operation.location, text, "applied", rows=product.rows, routine=routine)
        operation.replace_with([result])


def find_product(operation: Operation, weights: set[Value]) -> Product | None:
    """The product with constant weights that a library call computes, if it is one."""
    if operation.name not in ("aten.linear.default", "aten.addmm.default", "aten.mm.default"):
        return None
    args, keywords = arguments(operation)
    if operation.name == "aten.addmm.default":
        bias, x, weight = args[:3]
        factors = (*args[3:], *keywords.values())
        if any(isinstance(each, Value) or float(each) != 1.0 for each in factors):
            return None
    else:
        x, weight, bias = args[0], args[1], args[2] if len(args) > 2 else None
    if weight not in weights or (bias is not None and bias not in weights):
        return None
    type_ = operation.result.type
    if not isinstance(type_, TensorType) or type_.element is not f32:
        return None
    if bias is not None and static_shape(bias) != static_shape(operation.result)[-1:]:
        return None
    return Product(x, weight, bias, operation.name != "aten.linear.default")


def _refusal(product: Product, known: frozenset[str]) -> str | None:
    """Why a product stays as it is."""
    if not known & {MKL, MKLDNN}:
        return "no library with packed weights"
    if math.prod(static_shape(product.weight)) < FEWEST_WEIGHTS:
        return "a small weight: the call costs more than the product"
    if not is_static((product.rows,)):
        return "the number of rows varies: weights are packed for one number of rows"
    if product.rows < FEWEST_ROWS:
        return "one row: bound by reading the weights"
    if 0 in static_shape(product.x) or 0 in static_shape(product.weight):
        return "empty"
    return None


def _pack(operation: Operation, product: Product, routine: str) -> Value:
    builder = Builder.before_op(operation)
    weight = product.weight
    if product.is_transposed:
        inputs, outputs = static_shape(weight)
        turned = TensorType.get((outputs, inputs), f32)
        weight = builder.value("lamina.permute", [weight], turned, {"perm": integers(1, 0)})
    type_, strides = operation.result.type, plain(operation.attributes["result_strides"])[0]
    assert isinstance(type_, TensorType) and isinstance(weight.type, TensorType)
    if routine == MKL:
        packing = "mkl._mkl_reorder_linear_weight.default"
        packed = call(builder, packing, [weight, product.rows], weight.type, opaque=True)
        # Read only where the rows are not as packed for, which never happens: a shape without memory.
        shape = list(static_shape(weight))
        shaped = call(
            builder, "aten.empty_strided.default", [shape, [0, 0]], weight.type, [0, 0], kwargs={"dtype": f32}
        )
        args = [product.x, packed, shaped, product.bias, product.rows]
        return call(builder, "mkl._mkl_linear.default", args, type_, strides)
    packing = "mkldnn._reorder_linear_weight.default"
    packed = call(builder, packing, [weight, product.rows], weight.type, opaque=True)
    pointwise: list[Any] = [product.x, packed, product.bias, "none", [], ""]
    return call(builder, "mkldnn._linear_pointwise.default", pointwise, type_, strides)


"""Measured with two threads of a Xeon (AVX-512, 2 MB of L2 a core), torch 2.11, f32, weights not in L2,
medians in microseconds: aten.linear / addmm of a row-major in x out weight / oneDNN packed / MKL packed.

    rows x in x out
      1 x  768 x  768      71 /   59 /   92 /   69         1 x 768 x 3072    209 /  195 /  250 /  212
      4 x  768 x  768      95 /  111 /  124 /   83         8 x 512 x 1376    111 /   82 /  120 /   72
      8 x  768 x  768      97 /  110 /  113 /   78        16 x 512 x  512    171 /   92 /  138 /   90
     32 x  768 x  768     246 /  210 /  222 /  199        64 x 784 x 2048   1229 / 1152 / 1041 / 1034
    128 x  768 x  768     657 /  618 /  613 /  551       256 x 512 x  256    358 /  322 /  338 /  316
    128 x  768 x 3072    2434 / 2283 / 2117 / 1999       256 x 479 x 1024   1154 / 1118 / 1033 /  981
    197 x  384 x 1536    1116 /    - /  840 /  821       256 x  13 x  512     72 /   64 /   66 /   59
    128 x  768 x 50257  49691 / 45139 / 44544 / 39945

oneDNN's order would serve all numbers of rows. It is not used where they vary: sums over 2048 inputs had
2.3 times the error of eager's, which are MKL's (1.2e-6 and 5.2e-7 of the largest result, 100 rows x 2048 x
2048), at 0.67 (16 rows) to 0.90 (128 rows) of the time of a 768-3072-768 MLP.
"""
