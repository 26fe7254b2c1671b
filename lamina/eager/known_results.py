"""What operations on fakes gave, kept by the metadata of what they got.

A model calls few operations on few shapes, many times. torch's own cache of such results walks through its
fake mode's Python for each call; this one does not, serves operations with several results, and is plain
data, which a later process can be given.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from lamina.eager.memory import storage_key

aten = torch.ops.aten
CAPACITY = 20_000
"""Results kept in a process; all are dropped when there are more."""
INDEX: Any = aten.index.Tensor
READS_VALUES = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)
"""Tags of operations whose result's size or value depends on data; of `INDEX`, only where it gets a mask."""
MASKS = (torch.bool, torch.uint8)
UNKEPT = frozenset({"_unsafe_view", "lift", "lift_fresh", "lift_fresh_copy"})
"""Operations that give more than their schema says: an alias, or a constant beside the fake."""
NUMBERS = {int: "int", bool: "bool", str: "str", type(None): "None"}
SYMBOLS = {
    torch.dtype: "dtype",
    torch.device: "device",
    torch.layout: "layout",
    torch.memory_format: "format",
}
Key = tuple[Any, ...]
"""Of strings, numbers, None and tuples of them."""


class Shape(NamedTuple):
    """Metadata of a result. base: position of the argument that it is a view of; -1: of none."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    dtype: str
    device: str
    base: int


class Recipe(NamedTuple):
    """How to make a call's results. kind: "" for a single one, else "tuple" or "list"."""

    kind: str
    shapes: tuple[Shape, ...]


class _Recording(threading.local):
    used: dict[Key, Recipe] | None = None


_KNOWN: dict[Key, Recipe] = {}
_recording = _Recording()


@contextlib.contextmanager
def recording() -> Iterator[dict[Key, Recipe]]:
    """Collects what is found or kept by this thread."""
    before = _recording.used
    used: dict[Key, Recipe] = {}
    _recording.used = used
    try:
        yield used
    finally:
        _recording.used = before


def write(recipes: Mapping[Key, Recipe]) -> bytes:
    """As JSON."""
    return json.dumps(list(recipes.items())).encode()


def read(data: bytes) -> dict[Key, Recipe]:
    """What `write` wrote, known from now on; any error of the data raises."""
    recipes = {
        _freeze(key): Recipe(kind, tuple(Shape(*_freeze(shape)) for shape in shapes))
        for key, (kind, shapes) in json.loads(data)
    }
    _KNOWN.update(recipes)
    return recipes


def key_of(mode: FakeTensorMode, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key | None:
    """What the metadata of a call's result depends on; None where the result is not to be kept."""
    name = name_of(func)
    if not name or mode.shape_env is not None:
        return None
    parts: list[Any] = [
        name,
        _dtype_name(torch.get_default_dtype()),
        str(torch._C._get_default_device()),
        torch.is_inference_mode_enabled(),
        torch.is_grad_enabled(),
        torch._C._get_mkldnn_enabled(),
    ]
    if not _describe(mode, args, parts):
        return None
    for keyword, value in kwargs.items():
        parts.append(keyword)
        if not _describe(mode, (value,), parts):
            return None
    if func is INDEX and holds_mask(args[1]):
        return None
    return tuple(parts)


def find(mode: FakeTensorMode, key: Key, args: Sequence[Any]) -> Any:
    """The result of a call with that key; None where none is known."""
    recipe = _KNOWN.get(key)
    if recipe is None:
        return None
    if _recording.used is not None:
        _recording.used[key] = recipe
    return _make(mode, recipe, args)


def keep(mode: FakeTensorMode, key: Key, func: Any, args: Sequence[Any], result: Any) -> None:
    """Remember the result of a call, if metadata is all that there is to it."""
    # A named tuple of results becomes one again where the dispatcher hands it on.
    kind = "tuple" if isinstance(result, tuple) else "list" if isinstance(result, list) else ""
    results = result if kind else [result]
    base = 0 if func.is_view else -1
    storages = {storage_key(each) for each in _tensors_of(args)}
    shapes = []
    for each in results:
        if type(each) is not FakeTensor or not _is_plain(each):
            return
        storage = storage_key(each)
        is_as_said = storage not in storages if base < 0 else storage == storage_key(args[base])
        if not is_as_said:
            return
        storages.add(storage)  # of fresh results: two of them must not share it
        size, dtype = tuple(each.shape), _dtype_name(each.dtype)
        offset = int(each.storage_offset())
        shapes.append(Shape(size, each.stride(), offset, dtype, str(each.fake_device), base))
    recipe = Recipe(kind, tuple(shapes))
    made = _make(mode, recipe, args)
    if not all(map(_is_alike, made if kind else [made], results)):
        return
    if len(_KNOWN) >= CAPACITY:
        _KNOWN.clear()
    _KNOWN[key] = recipe
    if _recording.used is not None:
        _recording.used[key] = recipe


def holds_mask(indices: Any) -> bool:
    """Whether a mask is among the indices of `INDEX`: its result's size depends on data."""
    return any(each is not None and each.dtype in MASKS for each in indices)


def is_composite(func: Any) -> bool:
    """Whether torch computes `func` by calling other ops, whatever the device."""
    implicit: bool = torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd")
    return implicit


@functools.cache
def name_of(func: Any) -> str:
    """The name of an operation whose results follow from its arguments' metadata; "" for any other."""
    if not isinstance(func, torch._ops.OpOverload) or func.namespace != "aten":
        return ""
    schema, name = func._schema, str(func)
    if schema.is_mutable or func.__name__.partition(".")[0] in UNKEPT:
        return ""
    if func is not INDEX and any(tag in func.tags for tag in READS_VALUES):
        return ""
    if not schema.returns or not all(str(each.type) in ("Tensor", "List[Tensor]") for each in schema.returns):
        return ""
    tensors = [each for each in schema.arguments if "Tensor" in str(each.type)]
    if func.is_view and (len(tensors) != 1 or str(schema.arguments[0].type) != "Tensor"):
        return ""
    # Composite views may be copies.
    return "" if func.is_view and is_composite(func) else name


def _describe(mode: FakeTensorMode, values: Sequence[Any], parts: list[Any]) -> bool:
    """Append what a result may depend on of `values`; False where there is more to one of them."""
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            if value.fake_mode is not mode or value.constant is not None or value.layout != torch.strided:
                return False
            parts += (
                "Tensor",
                _dtype_name(value.dtype),
                value.shape,
                value.stride(),
                value.storage_offset(),
                value.untyped_storage().nbytes(),
                str(value.fake_device),
                value.requires_grad,
                value.is_inference(),
                value.is_conj(),
                value.is_neg(),
            )
        elif kind in NUMBERS:
            parts += (NUMBERS[kind], value)
        elif kind is float:
            parts += ("float", value.hex())
        elif kind in SYMBOLS:
            parts += (SYMBOLS[kind], str(value))
        elif kind is tuple or kind is list:
            parts += (kind.__name__, len(value))
            if not _describe(mode, value, parts):
                return False
        else:
            return False
    return True


def _make(mode: FakeTensorMode, recipe: Recipe, args: Sequence[Any]) -> Any:
    made = [_make_tensor(mode, shape, args) for shape in recipe.shapes]
    if not recipe.kind:
        return made[0]
    return made if recipe.kind == "list" else tuple(made)


def _make_tensor(mode: FakeTensorMode, shape: Shape, args: Sequence[Any]) -> FakeTensor:
    dtype, device = getattr(torch, shape.dtype), _device(shape.device)
    if shape.base < 0:
        shell = torch.empty_strided(shape.size, shape.stride, dtype=dtype, device="meta")
    else:
        shell = torch.empty(0, dtype=dtype, device="meta")
        storage = args[shape.base].untyped_storage()
        shell.set_(storage, shape.offset, shape.size, shape.stride)
    return FakeTensor(mode, shell, device)


def _is_plain(tensor: FakeTensor) -> bool:
    return tensor.constant is None and tensor.layout == torch.strided and not tensor.requires_grad


def _is_alike(ours: FakeTensor, theirs: FakeTensor) -> bool:
    """Dispatch keys tell conjugated, negated and inference tensors apart; the size of memory, padded ones."""
    same_kind = torch._C._dispatch_key_set(ours) == torch._C._dispatch_key_set(theirs)
    return same_kind and ours.untyped_storage().nbytes() == theirs.untyped_storage().nbytes()


def _tensors_of(values: Sequence[Any]) -> Iterator[FakeTensor]:
    for value in values:
        if isinstance(value, FakeTensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_of(value)


@functools.cache
def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@functools.cache
def _device(name: str) -> torch.device:
    return torch.device(name)


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if type(value) is list else value
