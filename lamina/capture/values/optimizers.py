"""What torch's optimizers do differently where they are compiled, nearer to what they do in eager.

They keep the number of steps in a tensor of float32. Eager reads it and computes in Python's floats; for a
compiler they compute in tensors instead, where `1 - 0.999 ** step` loses half of its digits. Here these are
tensors of float64, without a dimension, which mean to each operation what a float does.

Some branch on such values. Those are called as for a device that cannot read them (`capturable`), where the
branch is a choice between tensors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.optim import asgd, optimizer, radam, rprop

from lamina.capture.machine.signals import Value
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.tensor import TensorValue


def widen(value: Value) -> Value:
    """A float that a tensor holds, as a tensor of float64."""
    is_float = type(value) is TensorValue and value.fake.dtype.is_floating_point
    return value.builder.call_method("double", (value,), {}) if is_float else value


def model_get_value(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return widen(arguments[0])


def model_stack(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """Numbers for a list of tensors stay a list, as in eager."""
    return arguments[0]


def model_branching(function: Callable[..., Any], *lists: int) -> Model:
    """An optimizer's function that branches on values. lists: which arguments are lists of those.

    Where the program itself asks for `capturable`, eager computes in float32 as well.
    """

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if keywords.get("capturable", True):
            return world.call_python(function, arguments, keywords)
        given = list(arguments)
        for place in lists:
            given[place] = [widen(each) for each in given[place]]
        world.call_python(function, tuple(given), {**keywords, "capturable": True})
        for place in lists:
            for narrow, wide in zip(arguments[place], given[place], strict=True):
                if wide is not narrow:
                    world.builder.call_method("copy_", (narrow, wide), {})
        return None

    return model


def model_zero_grad(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`optimizer.zero_grad()`, which torch marks to be left out by its own compiler."""
    return world.call(ZERO_GRAD.__wrapped__, arguments, keywords)


ZERO_GRAD: Any = optimizer.Optimizer.zero_grad
OPTIMIZER_MODELS: dict[Any, Model] = {
    optimizer._get_value: model_get_value,
    optimizer._stack_if_compiling: model_stack,
    ZERO_GRAD: model_zero_grad,
    asgd.asgd: model_branching(asgd.asgd, 3, 4, 5),
    radam.radam: model_branching(radam.radam, 4),
    rprop.rprop: model_branching(rprop.rprop),
}
