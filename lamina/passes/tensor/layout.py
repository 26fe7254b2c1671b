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

from lamina.ir.attributes import attribute, plain
from lamina.ir.core import Builder, Operation, Value
from lamina.ir.ops import is_elementwise
from lamina.ir.passes import Context
from lamina.ir.types import TensorType
from lamina.passes.tensor.fold import splat_constant
from lamina.passes.tensor.library import channels_last_strides
from lamina.passes.tensor.reshape import static_shape
from lamina.passes.tensor.twins import REWRITES, Twin, elementwise_twin, inverse, permute
from lamina.passes.tensor.weights import main_function

NAME = "layout"
INNERMOST = (0, 2, 3, 1)
"""Channels go last: dimension k of the twin is dimension INNERMOST[k] of the image."""
BACK = inverse(INNERMOST)
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
    """`twins`: for each image that lies otherwise than row-major, the tensor that is row-major there."""

    def __init__(self) -> None:
        self.twins: dict[Value, Twin] = {}
        self.followed = 0

    def visit(self, operation: Operation) -> None:
        """Rewrite one operation if it touches channels-last images."""
        name = operation.name
        known = self.twins.get(operation.operand()) if operation.operands else None
        if name in CONVOLUTIONS or (name in FOLLOWERS and known is not None):
            self._call(operation)
        elif name == "lamina.permute" and tuple(plain(operation.attributes["perm"])) == BACK:
            self.twins[operation.result] = Twin(operation.operand(), INNERMOST)
        elif name in REWRITES and known is not None:
            made = REWRITES[name](operation, known, self.twins, Builder.before_op(operation))
            self._replace(operation, made)
        elif is_elementwise(operation):
            first = self._first_known(operation)
            if first is not None:
                builder = Builder.before_op(operation)
                self._replace(operation, elementwise_twin(operation, first.order, self.twins, builder))

    def _call(self, operation: Operation) -> None:
        """A library call that gives channels-last images."""
        builder = Builder.after_op(operation)
        builder.location = operation.location
        strides = plain(operation.attributes["result_strides"])
        for position, result in enumerate(operation.results):
            if len(static_shape(result)) == 4:
                strides[position] = channels_last_strides(static_shape(result))
                twin = _known_twin(result) or permute(builder, result, INNERMOST)
                self.twins[result] = Twin(twin, INNERMOST)
        operation.attributes["result_strides"] = attribute([list(entry) for entry in strides])
        self.followed += 1

    def _replace(self, operation: Operation, twin: Twin | None) -> None:
        """`twin` is the result in its own order in memory."""
        if twin is None:
            return
        builder = Builder.before_op(operation)
        image = permute(builder, twin.value, inverse(twin.order))
        if image is not twin.value:
            self.twins[image] = twin
        operation.replace_with([image])
        self.followed += 1

    def _first_known(self, operation: Operation) -> Twin | None:
        """The first operand's twin, where most of the whole images that the operation reads have one."""
        if len(operation.results) != 1 or not isinstance(operation.result.type, TensorType):
            return None
        known = [self.twins[value] for value in operation.operands if value in self.twins]
        images = [value for value in operation.operands if splat_constant(value) is None]
        makers = [value.defining_op for value in images]
        whole = sum(maker is None or maker.name != "lamina.broadcast" for maker in makers)
        return known[0] if known and 2 * len(known) >= whole else None


def _known_twin(image: Value) -> Value | None:
    """The channels-last form of an image, where the program has it already."""
    for user in image.users:
        if user.name == "lamina.permute" and tuple(plain(user.attributes["perm"])) == INNERMOST:
            return user.result
    return None
