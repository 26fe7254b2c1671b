"""`object.__reduce_ex__`, by which `copy` takes an object apart: attributes are read through the world."""

from __future__ import annotations

import copyreg
from typing import Any

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.attributes import find_in_type, is_python_method
from lamina.capture.values.conversions import Arguments, Keywords, Model

OVERRIDES = ("__getnewargs_ex__", "__getnewargs__", "__getstate__")


def model_reduce(owner: Value) -> Model | None:
    """A model of `owner.__reduce_ex__`, None for objects that are values in themselves."""
    kind = type(owner)
    if isinstance(owner, type) or not hasattr(owner, "__dict__"):
        return None

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        reducer = find_in_type(kind, "__reduce__")
        if is_python_method(reducer):
            return world.call(reducer, (owner,), {})
        check_plain_object(kind)
        state = dict(world.load_attribute(owner, "__dict__"))
        return copyreg.__newobj__, (kind,), state or None, None, None  # type: ignore[attr-defined]

    return model


def check_plain_object(kind: type) -> None:
    """Stop unless all that an instance holds is its own dictionary."""
    base = next(entry for entry in kind.__mro__ if entry.__module__ == "builtins")
    has_slots = any(entry.__dict__.get("__slots__") for entry in kind.__mro__)
    is_custom = any(is_python_method(find_in_type(kind, name)) for name in OVERRIDES)
    if base is not object or has_slots or is_custom:
        stop("copy", f"an object of class {kind.__qualname__} is taken apart to be copied")
