"""Let images lie with their channels innermost, from the first convolution to the last user.

    %1 = convolution(%x, ..)          %1 = convolution(%x', ..) {channels last}
    %2 = arith.maximumf %1, 0         %2 = lamina.permute %1 {0, 2, 3, 1}
    %3 = convolution(%2, ..)    =>    %3 = arith.maximumf %2, 0
                                      %4 = lamina.permute %3 {0, 3, 1, 2}
                                      %5 = convolution(%4, ..) {channels last}

Convolutions with packed weights write channels last whatever they read. Tensors have no order in memory, so
the order is spelled: operations on such an image work on its permuted twin, which kernels write row-major,
and the permutes are views. An input that lies otherwise is reordered by the library. Results of the function
have eager's strides all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lamina.ir.attributes import attribute, integers, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.passes import Context
from lamina.ir.types import TensorType
from lamina.passes.tensor.fold import make_splat, splat_constant
from lamina.passes.tensor.library import channels_last_strides
from lamina.passes.tensor.reshape import static_shape
from lamina.passes.tensor.weights import main_function

NAME = "layout"
INNERMOST = (0, 2, 3, 1)
"""Channels go last: dimension k of the twin is dimension INNERMOST[k] of the tensor."""
BACK = (0, 3, 1, 2)
CONVOLUTIONS = frozenset({"mkldnn._convolution_pointwise.default"})
FOLLOWERS = frozenset(
    {
        "aten.max_pool2d.default", "aten.max_pool2d_with_indices.default", "aten.avg_pool2d.default",
        "aten.adaptive_avg_pool2d.default", "aten._adaptive_avg_pool2d.default",
        "aten.upsample_nearest2d.default", "aten.upsample_nearest2d.vec",
        "aten.upsample_bilinear2d.default", "aten.upsample_bilinear2d.vec",
    }
)  # fmt: skip
"""Library operations that write their results in the memory order of their first operand."""


def run(module: Operation, context: Context) -> None:
    """Give the convolutions of @main, and what lies between them, channels-last tensors."""
    function = main_function(module)
    if function is None or not any(operation.name in CONVOLUTIONS for operation in function.body):
        return
    layout = _Layout()
    for operation in function.body:
        layout.visit(operation)
    text = f"{layout.followed} operations on channels-last images"
    context.remarks.add(NAME, function.location, text, "applied", operations=layout.followed)


class _Layout:
    """`twins` maps an image to its channels-last form: image = permute(twin, BACK)."""

    def __init__(self) -> None:
        self.twins: dict[Value, Value] = {}
        self.followed = 0

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation if it touches channels-last images."""
        if operation.name in CONVOLUTIONS or (
            operation.name in FOLLOWERS and operation.operand() in self.twins
        ):
            self._call(operation)
        elif operation.name == "lamina.permute" and tuple(plain(operation.attributes["perm"])) == BACK:
            self.twins[operation.result] = operation.operand()
        elif operation.name in REWRITES and operation.operand() in self.twins:
            self._replace(operation, REWRITES[operation.name](self, operation, Builder.before_op(operation)))
        elif is_elementwise(operation) and self._is_mostly_known(operation):
            self._replace(operation, self._elementwise(operation, Builder.before_op(operation)))

    def _call(self, operation: Operation) -> None:
        """A library call that gives channels-last images."""
        builder = Builder.after_op(operation)
        builder.location = operation.location
        strides = plain(operation.attributes["result_strides"])
        for position, result in enumerate(operation.results):
            if len(static_shape(result)) == 4:
                strides[position] = channels_last_strides(static_shape(result))
                self.twins[result] = _known_twin(result) or permute(builder, result, INNERMOST)
        operation.attributes["result_strides"] = attribute([list(entry) for entry in strides])
        self.followed += 1

    def _replace(self, operation: Operation, twin: Value | None) -> None:
        """`twin` is the result with its channels last."""
        if twin is None:
            return
        builder = Builder.before_op(operation)
        image = permute(builder, twin, BACK)
        self.twins[image] = twin
        operation.replace_with([image])
        self.followed += 1

    def _is_mostly_known(self, operation: Operation) -> bool:
        """Whether most of the whole images that an elementwise operation reads lie channels last."""
        if len(operation.results) != 1 or not isinstance(operation.result.type, TensorType):
            return False
        known = sum(value in self.twins for value in operation.operands)
        return operation.result.type.rank == 4 and known > 0 and 2 * known >= self._images(operation)

    def _images(self, operation: Operation) -> int:
        images = [value for value in operation.operands if splat_constant(value) is None]
        makers = [value.defining_op for value in images]
        return sum(maker is None or maker.name != "lamina.broadcast" for maker in makers)

    def _elementwise(self, operation: Operation, builder: Builder) -> Value:
        operands = [self.twin_of(value, builder) for value in operation.operands]
        type_ = _turned(operation.result.type, INNERMOST)
        return builder.value(operation.name, operands, type_, operation.attributes)

    def twin_of(self, value: Value, builder: Builder) -> Value:
        """The channels-last form of a tensor; a scalar condition stays as it is."""
        found = self.twins.get(value)
        if found is not None or not isinstance(value.type, TensorType):
            return found or value
        number = splat_constant(value)
        if number is not None:
            return make_splat(builder, number, _turned(value.type, INNERMOST))
        maker = value.defining_op
        if maker is not None and maker.name == "lamina.broadcast":
            dims = [INNERMOST.index(dim) for dim in plain(maker.attributes["dims"])]
            order = sorted(range(len(dims)), key=dims.__getitem__)
            small = permute(builder, maker.operand(), order)
            type_ = _turned(value.type, INNERMOST)
            return builder.value("lamina.broadcast", [small], type_, {"dims": integers(*sorted(dims))})
        return permute(builder, value, INNERMOST)

    def _concat(self, operation: Operation, builder: Builder) -> Value | None:
        if 2 * sum(value in self.twins for value in operation.operands) < len(operation.operands):
            return None
        parts = [self.twin_of(value, builder) for value in operation.operands]
        dim = INNERMOST.index(plain(operation.attributes["dim"]))
        return builder.value(operation.name, parts, _turned(operation.result.type, INNERMOST), {"dim": dim})

    def _placed(self, operation: Operation, builder: Builder) -> Value:
        """Slices, pads: attributes with one number for each dimension."""
        names = ("static_offsets", "static_sizes", "static_strides", "low", "high")
        attributes = {
            key: integers(*(plain(value)[k] for k in INNERMOST)) if key in names else value
            for key, value in operation.attributes.items()
        }
        operands = [self.twins[operation.operand()], *operation.operands[1:]]
        return builder.value(operation.name, operands, _turned(operation.result.type, INNERMOST), attributes)

    def _reduce(self, operation: Operation, builder: Builder) -> None:
        """Reduce the twin; what is left may have to change places."""
        gone = plain(operation.attributes["dims"])
        dims = sorted(INNERMOST.index(dim) for dim in gone)
        left = [dim for dim in INNERMOST if dim not in gone]
        source, result = self.twins[operation.operand()], operation.result.type
        assert isinstance(result, TensorType)
        shape = tuple(static_shape(operation.operand())[dim] for dim in left)
        attributes = {**operation.attributes, "dims": integers(*dims)}
        type_ = TensorType.get(shape, result.element)
        value = builder.value("lamina.reduce", [source], type_, attributes)
        operation.replace_with([permute(builder, value, [left.index(dim) for dim in sorted(left)])])
        self.followed += 1


def _known_twin(image: Value) -> Value | None:
    """The channels-last form of an image, where the program has it already."""
    for user in image.users:
        if user.name == "lamina.permute" and tuple(plain(user.attributes["perm"])) == INNERMOST:
            return user.result
    return None


Rewrite = Callable[[_Layout, Operation, Builder], Value | None]

REWRITES: dict[str, Rewrite] = {
    "tensor.concat": _Layout._concat,
    "tensor.extract_slice": _Layout._placed,
    "lamina.pad": _Layout._placed,
    "lamina.reduce": _Layout._reduce,
}
"""How structural operations are done on the twin; None where the operation stays or is replaced already."""


def permute(builder: Builder, value: Value, order: Sequence[int]) -> Value:
    """Dimension k of the result is dimension order[k] of `value`; nothing is built for the same order."""
    if list(order) == list(range(len(order))):
        return value
    type_ = _turned(value.type, order)
    return builder.value("lamina.permute", [value], type_, {"perm": integers(*order)})


def _turned(type_: Any, order: Sequence[int]) -> TensorType:
    assert isinstance(type_, TensorType)
    return TensorType.get(tuple(type_.shape[k] for k in order), type_.element)
