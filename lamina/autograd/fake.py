"""The one file that touches torch's private fake-tensor machinery, which moves between torch versions.

A fake tensor has eager's shape, strides, dtype, device and storage identity but no data. Running an ATen
op on fakes is how tracing learns the metadata of results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
)

from lamina.eager.memory import storage_key
from lamina.eager.mode import EagerFakeMode, dispatch, fills_its_storage, make_fake_directly
from lamina.errors import Unsupported

Tensor = torch.Tensor

DEVICE_QUERY = torch.ops.prim.device.default


def is_fake(value: object) -> bool:
    """Whether `value` is a fake tensor."""
    return isinstance(value, FakeTensor)


def fake_mode_of(tensors: Iterable[object]) -> FakeTensorMode:
    """The mode the given fakes belong to, or a new one when all tensors are real."""
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    return EagerFakeMode()


def to_fake(mode: FakeTensorMode, tensor: Tensor, *, is_alone: bool = False) -> Tensor:
    """A fake of `tensor` with the same sizes, strides and offset; a fake is returned as it is.

    is_alone: no other tensor of the program shares its memory.
    """
    if isinstance(tensor, FakeTensor):
        return tensor
    is_plain = type(tensor) in (Tensor, torch.nn.Parameter)
    if is_alone and is_plain and fills_its_storage(tensor):
        return make_fake_directly(mode, tensor)
    fake: Tensor = mode.from_tensor(tensor, static_shapes=True)
    return fake


def to_fakes(mode: FakeTensorMode, values: Sequence[Any]) -> list[Any]:
    """The values with fakes in place of tensors; those that share memory have fakes that do."""
    counts = Counter(storage_key(value) for value in values if isinstance(value, Tensor))
    return [
        to_fake(mode, value, is_alone=counts[storage_key(value)] == 1) if isinstance(value, Tensor) else value
        for value in values
    ]


def below_autograd() -> AbstractContextManager[None]:
    """Within it the dispatcher skips autograd, so that a dispatch mode sees composite ops whole."""
    guard: AbstractContextManager[None] = torch._C._AutoDispatchBelowAutograd()
    return guard


def run_fake(
    mode: FakeTensorMode, func: Any, types: Sequence[type], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Any:
    """Run one ATen op on fakes. Raises Unsupported where the result depends on data."""
    if func is DEVICE_QUERY and isinstance(args[0], FakeTensor):
        return args[0].fake_device
    try:
        if isinstance(mode, EagerFakeMode):
            return mode.dispatch(func, types, args, kwargs)
        return dispatch(mode.dispatch, func, types, args, kwargs)
    except DataDependentOutputException as error:
        raise Unsupported(
            "data-dependent-scalar",
            f"{func} turns tensor data into a Python value",
            hint="keep the value a tensor, for example with torch.where",
        ) from error
    except DynamicOutputShapeException as error:
        raise Unsupported(
            "data-dependent-shape",
            f"the shape of {func}'s result depends on tensor data",
            hint="use a form with a fixed shape, for example torch.where with three arguments",
        ) from error
    except (UnsupportedFakeTensorException, NotImplementedError) as error:
        raise Unsupported("no-shape-rule", f"torch has no shape rule for {func}: {error}") from error


def functional_overload(func: Any) -> Any | None:
    """The overload that computes what an in-place or `out=` overload computes, but returns it fresh."""
    packet = func.overloadpacket
    schema = func._schema
    name = schema.name.partition("::")[2]
    if any(argument.is_out for argument in schema.arguments):
        return _overload_without_out(packet, schema)
    namespace = getattr(torch.ops, schema.name.partition("::")[0])
    functional = getattr(namespace, _functional_name(name), None) if name.endswith("_") else None
    if functional is None:
        return None
    overload = func._overloadname
    if overload in functional.overloads():
        candidate = getattr(functional, overload)
        # pow_.Scalar has a tensor to the power of a number, pow.Scalar the other way round.
        if str(candidate._schema.arguments[0].type) == str(schema.arguments[0].type):
            return candidate
    return _overload_without_out(functional, schema)


def _functional_name(name: str) -> str:
    # Python's own in-place operators are not spelled as the other ops: __ilshift__ -> __lshift__.
    if name.startswith("__i") and name.endswith("__"):
        return "__" + name[3:]
    return name[:-1]


def _overload_without_out(packet: Any, schema: Any) -> Any | None:
    wanted = [(a.name, str(a.type)) for a in schema.arguments if not a.is_out]
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        arguments = [(a.name, str(a.type)) for a in candidate._schema.arguments]
        if arguments == wanted and not candidate._schema.is_mutable:
            return candidate
    # A factory's functional form takes dtype, layout, device besides: torch.ones(2, out=y).
    for overload in packet.overloads():
        candidate = getattr(packet, overload)
        arguments = [(a.name, str(a.type)) for a in candidate._schema.arguments]
        if arguments[: len(wanted)] == wanted and not candidate._schema.is_mutable:
            return candidate
    return None
