"""`__reduce_ex__` and `__deepcopy__`, by which `copy` takes an object apart or asks it for a copy.

Attributes are read through the world. A deep copy of a tensor is a clone that starts a graph of its own; a
shallow one is another tensor on the same memory.
"""

from __future__ import annotations

import collections
import copy
import copyreg
from typing import Any

import torch

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.attributes import find_in_type, is_python_method
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.eager.memory import storage_key

OVERRIDES = ("__getnewargs_ex__", "__getnewargs__")


def model_reduce(owner: Value) -> Model | None:
    """A model of `owner.__reduce_ex__`, None for objects that are values in themselves."""
    kind = type(owner)
    if isinstance(owner, type) or not hasattr(owner, "__dict__"):
        return None

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        reducer = find_in_type(kind, "__reduce__")
        if is_python_method(reducer):
            return world.call(reducer, (owner,), {})
        if kind is collections.OrderedDict:
            return kind, (), None, None, iter(list(owner.items()))
        check_plain_object(kind)
        giver = find_in_type(kind, "__getstate__")
        if is_python_method(giver):
            state = world.call(giver, (owner,), {})
        else:
            state = dict(world.load_attribute(owner, "__dict__")) or None
        return copyreg.__newobj__, (kind,), state, None, None  # type: ignore[attr-defined]

    return model


def check_plain_object(kind: type) -> None:
    """Stop unless all that an instance holds is its own dictionary."""
    base = next(entry for entry in kind.__mro__ if entry.__module__ == "builtins")
    has_slots = any(entry.__dict__.get("__slots__") for entry in kind.__mro__)
    is_custom = any(is_python_method(find_in_type(kind, name)) for name in OVERRIDES)
    if base is not object or has_slots or is_custom:
        stop("copy", f"an object of class {kind.__qualname__} is taken apart to be copied")


def copy_deeply(world: Any, owner: Any, memo: Value) -> Value:
    """`tensor.__deepcopy__(memo)`; `copy` itself knows which tensors it has met."""
    fake, builder = owner.fake, world.builder
    if owner.kind is torch.nn.Parameter:
        made = builder.call_method("clone", (owner.read_attribute("data"),), {})
        return builder.call(torch.nn.Parameter, (made, fake.requires_grad), {})
    is_whole = fake.storage_offset() == 0 and fake.untyped_storage().nbytes() == fake.numel() * fake.itemsize
    if not is_whole or not fake.is_leaf or not is_called_by_copy(world) or owner.kind is not torch.Tensor:
        stop(
            "copy",
            "a view, a result that needs a gradient or a tensor of another class is copied deeply",
        )
    memory = memo.setdefault("torch", {})
    if storage_key(fake) in memory:
        stop("copy", "tensors that share memory are copied deeply")
    memory[storage_key(fake)] = owner
    check_bare(world, owner)
    made = builder.call_method("clone", (builder.call_method("detach", (owner,), {}),), {})
    return builder.call_method("requires_grad_", (made,), {}) if fake.requires_grad else made


def take_apart(world: Any, owner: Any, protocol: Value) -> Value:
    """`tensor.__reduce_ex__(4)` as `copy` uses it: how to make another tensor on the same memory."""
    if owner.kind is not torch.Tensor or owner.fake.requires_grad or not is_called_by_copy(world):
        stop("copy", "a parameter or a tensor that needs a gradient is taken apart")
    check_bare(world, owner)
    return torch.Tensor.detach, (owner,)


def check_bare(world: Any, owner: Any) -> None:
    """Stop if a tensor has attributes of its own, which a copy would have too."""
    if owner.source is None:
        return
    if owner.real.__dict__ or world.load_attribute(owner, "grad") is not None:
        stop("copy", "a tensor with attributes or a gradient is copied")
    world.guards.on_value(owner.source, "own attributes", "none", lambda writer, name: f"not {name}.__dict__")


def is_called_by_copy(world: Any) -> bool:
    return world.machine.frame.global_names is vars(copy)
