"""Compute products of one input with several weights as one product.

    %q = aten.linear(%x, %wq, %bq)           %w = tensor.concat %wq, %wk, %wv
    %k = aten.linear(%x, %wk, %bk)     =>    %y = aten.linear(%x, %w, %b)
    %v = aten.linear(%x, %wv, %bv)           %q, %k, %v = slices of %y

Queries, keys and values, gates and values of a gated layer: the input is read once, and one larger product
runs nearer to the peak. The weights are joined once, by `prepare`. The slices are views.
"""

from __future__ import annotations

from lamina.ir.attributes import integers
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.passes import Context
from lamina.ir.sizes import hint
from lamina.ir.types import TensorType
from lamina.passes.tensor.library import call
from lamina.passes.tensor.pack_linear import FEWEST_ROWS, Product, find_product
from lamina.passes.tensor.reshape import extract_slice, static_shape
from lamina.passes.tensor.weights import main_to_fold, weight_values

NAME = "merge_linears"
MOST_ROWS = 64
"""Above, each product is near the peak by itself and the slices cost more than is gained: joined against not,
one thread, 128 rows BERT-base 166.2 and 168.0 ms, Llama-style 62.6 and 61.3 ms, 1024 rows 536 and 520 ms."""
WIDEST = 4096
"""Output features of one product above which joining gains nothing: it is near the peak by itself."""


def run(module: Operation, context: Context) -> None:
    """Join in @main the products of constant weights that have their input in common."""
    function = main_to_fold(module, context)
    if function is None:
        return
    weights = weight_values(function)
    siblings: dict[tuple[Value, bool, bool], list[Operation]] = {}
    for operation in function.body:
        product = find_product(operation, weights)
        if product is None or not FEWEST_ROWS <= hint(product.rows) <= MOST_ROWS:
            continue
        if product.width > WIDEST:
            continue
        key = (product.x, product.bias is None, product.is_transposed)
        siblings.setdefault(key, []).append(operation)
    for operations in siblings.values():
        # Asked again: their input may be a product that was joined meanwhile.
        products = [(operation, find_product(operation, weights)) for operation in operations]
        group = [(operation, product) for operation, product in products if product is not None]
        if len(group) > 1:
            _merge(group)
            text = f"{len(group)} products of one input made one"
            widths = [product.width for _, product in group]
            context.remarks.add(NAME, group[0][0].location, text, "applied", widths=widths)


def _merge(group: list[tuple[Operation, Product]]) -> None:
    first, product = group[0]
    builder = _after_weights(group)
    weight = _concat(builder, [each.weight for _, each in group], 1 if product.is_transposed else 0)
    if product.is_transposed:
        inputs, outputs = static_shape(weight)
        type_ = _retyped(weight, (outputs, inputs))
        weight = builder.value("lamina.permute", [weight], type_, {"perm": integers(1, 0)})
    biases = [each.bias for _, each in group if each.bias is not None]
    bias = _concat(builder, biases, 0) if biases else None
    widths = [each.width for _, each in group]
    shape = (*static_shape(first.result)[:-1], sum(widths))
    whole = call(builder, "aten.linear.default", [product.x, weight, bias], _retyped(product.x, shape))
    starts = [sum(widths[:k]) for k in range(len(widths))]
    parts = [_slice(builder, whole, start, width) for start, width in zip(starts, widths, strict=True)]
    for (operation, _), part in zip(group, parts, strict=True):
        operation.replace_with([part])


def _after_weights(group: list[tuple[Operation, Product]]) -> Builder:
    """A place before all of the group's results are used, where all of its operands are made.

    That is the first product's: operands that come later are weights' work, which moves in front of it.
    """
    place = group[0][0]
    for operation, _ in group[1:]:
        for value in operation.operands:
            _hoist(value, place)
    return Builder.before_op(place)


def _hoist(value: Value, place: Operation) -> None:
    """Move what makes a value in front of an operation of the same block."""
    maker = value.defining_op
    if maker is None or maker.parent is not place.parent or maker.is_before(place):
        return
    for operand in maker.operands:
        _hoist(operand, place)
    maker.detach()
    assert place.parent is not None
    place.parent.insert(maker, place)


def _concat(builder: Builder, values: list[Value], dim: int) -> Value:
    shape = list(static_shape(values[0]))
    shape[dim] = sum(static_shape(value)[dim] for value in values)
    return builder.value("tensor.concat", values, _retyped(values[0], tuple(shape)), {"dim": dim})


def _slice(builder: Builder, whole: Value, start: int, width: int) -> Value:
    shape = (*static_shape(whole)[:-1], width)
    return extract_slice(builder, whole, [*[0] * (len(shape) - 1), start], shape)


def _retyped(value: Value, shape: tuple[int, ...]) -> TensorType:
    assert isinstance(value.type, TensorType)
    return TensorType.get(shape, value.type.element)
