"""A traced tensor: a graph node and its fake. Not a torch.Tensor: untreated code fails, never guesses."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import torch
import torch.fx

from lamina.capture.machine.signals import stop
from lamina.capture.values.reducing import copy_deeply, take_apart

REFUSED_METHODS = frozenset(
    {
        "backward",
        "data_ptr",
        "numpy",
        "register_hook",
        "retain_grad",
        "storage",
        "untyped_storage",
        "share_memory_",
        "set_",
        "resize_",
        "resize_as_",
        "__array__",
        "__dlpack__",
        "pin_memory",
        "register_post_accumulate_grad_hook",
        "_typed_storage",
        "__reduce_ex__",
        "__deepcopy__",
        "module_load",
        "t_",
        "unsqueeze_",
        "squeeze_",
        "transpose_",
        "swapaxes_",
        "swapdims_",
        "as_strided_",
    }
)
"""Tensor methods about memory, hooks or layout in place, which a graph cannot hold."""
REFUSED_ATTRIBUTES = frozenset({"_version", "_cdata", "_backward_hooks", "grad_fn", "_grad_fn", "_base"})
CHANGES_INPUT = frozenset({"requires_grad_", "detach_"})
"""Methods that are fine on a tensor made inside, but change the caller's tensor in more than its values."""
COPIERS: dict[str, Callable[..., Any]] = {"__deepcopy__": copy_deeply, "__reduce_ex__": take_apart}
"""How `copy` copies tensors."""
READ_VALUES = frozenset({"item", "tolist", "__bool__", "__int__", "__float__", "__index__"})


def refuse_value(what: str) -> NoReturn:
    stop(
        "data-dependent",
        f"{what} needs the values of a tensor",
        "keep the decision in the graph (torch.where, masks), or take it outside the compiled function",
    )


class TensorMethod:
    """A bound method of a traced tensor."""

    __slots__ = ("__weakref__", "name", "owner")
    __machine_native__ = True

    def __init__(self, owner: TensorValue, name: str) -> None:
        self.owner = owner
        self.name = name

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        copier = COPIERS.get(self.name)
        if copier is not None and len(arguments) == 1 and not keywords:
            return copier(self.owner.builder.world, self.owner, *arguments)
        if self.name in REFUSED_METHODS:
            stop("tensor-method", f"Tensor.{self.name} cannot be captured")
        if self.name in READ_VALUES:
            return self.owner.read_values(self.name, arguments)
        if self.name == "requires_grad_" and self.owner.fake.requires_grad is bool(*(arguments or (True,))):
            return self.owner
        if self.name in CHANGES_INPUT and self.owner.source is not None:
            stop("tensor-method", f"Tensor.{self.name} changes an input as an object", "do it outside")
        if self.name == "storage_offset":
            self.owner.builder.guard_offsets()
        return self.owner.builder.call_method(self.name, (self.owner, *arguments), keywords)


class TensorValue:
    """The tensor that `node` gives. `kind` is its Python class, `source` and `real` are set for inputs."""

    __slots__ = ("__weakref__", "_version", "builder", "fake", "kind", "node", "real", "source")
    __machine_native__ = True
    # NumPy's scalars leave operators to the tensor, as they do with torch.Tensor.
    __array_ufunc__ = None

    def __init__(
        self, builder: Any, fake: torch.Tensor, node: torch.fx.Node, kind: type, source: Any, real: Any
    ) -> None:
        self.builder = builder
        self.fake = fake
        self.node = node
        self.kind = kind
        self.source = source
        self.real = real
        self._version = 0 if fake.is_inference() else fake._version

    def is_mutated(self) -> bool:
        """Whether an operation wrote to this tensor or to a view of it."""
        return not self.fake.is_inference() and self.fake._version != self._version

    def read_values(self, method: str, arguments: tuple[Any, ...]) -> Any:
        """`tensor.item()` and the like: numbers that only the running graph knows, or a stop."""
        if method == "item" and not arguments:
            return self.builder.reads.read_number(self, "Tensor.item")
        return self.builder.reads.read_list(self) if method == "tolist" else refuse_value(f"Tensor.{method}")

    def read_attribute(self, name: str) -> Any:
        """`tensor.name`: metadata as constants, methods bound, tensor-valued attributes recorded."""
        if name == "__class__":
            return self.kind
        if name in REFUSED_ATTRIBUTES:
            return self._read_refused(name)
        if name == "data":
            return self.builder.call_method("detach", (self,), {})
        try:
            value = getattr(self.fake, name)
        except AttributeError:
            raise AttributeError(
                f"{self.kind.__name__!r} object has no attribute {name!r}", name=name, obj=self
            ) from None
        if name == "shape":
            return self.builder.read_shape(self)
        if isinstance(value, (torch.Tensor, torch.SymInt)):
            return self.builder.call(getattr, (self, name), {})
        if callable(value) and not isinstance(value, (torch.dtype, torch.layout, type)):
            return TensorMethod(self, name)
        return value

    def _read_refused(self, name: str) -> Any:
        subject = self.fake if self.real is None else self.real
        if name in ("grad_fn", "_grad_fn", "_base", "_backward_hooks") and getattr(subject, name) is None:
            return None
        stop("tensor-attribute", f"Tensor.{name} cannot be captured")

    def __iter__(self) -> Iterator[Any]:
        if self.fake.dim() == 0:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.builder.call_method("unbind", (self, 0), {}))

    def __len__(self) -> int:
        if self.fake.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self.builder.read_size(self, 0))

    def __reversed__(self) -> Any:
        return self.builder.call_method("__reversed__", (self,), {})

    def __getitem__(self, index: Any) -> Any:
        if self.builder.indexing_modes:
            places = index if type(index) in (tuple, list) else (index,)
            if all(type(each) in (TensorValue, int) for each in places):
                return self._look_up(places)
        if is_unknown_int(index):
            index = (index,)
        parts = split_unknown(index, self.fake.dim()) if type(index) is tuple else None
        if parts is None:
            return self.builder.call(operator.getitem, (self, index), {})
        known, selected = parts
        found = self
        if any(each != slice(None) for each in known):
            found = self.builder.call(operator.getitem, (self, known), {})
        for dimension, number in reversed(selected):
            self.builder.reads.note_index(number)
            found = self.builder.call_method("select", (found, dimension, number), {})
        return found

    def _look_up(self, places: Sequence[Any]) -> Any:
        """`self[places]` by an operation that takes tensors without dimensions for what they are."""
        make = self.builder.call
        tensors = [make(torch.tensor, (each,), {}) if type(each) is int else each for each in places]
        return make(torch.ops.aten.index.Tensor, (self, tensors), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        if type(index) is tuple and split_unknown(index, self.fake.dim()) is not None:
            self.builder.call(operator.setitem, (self[index], Ellipsis, value), {})
            return
        self.builder.call(operator.setitem, (self, index, value), {})

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return refuse_value("a branch on a tensor")

    def __int__(self) -> int:
        return refuse_value("int() of a tensor")

    def __float__(self) -> float:
        return refuse_value("float() of a tensor")

    def __complex__(self) -> complex:
        return refuse_value("complex() of a tensor")

    def __index__(self) -> int:
        return refuse_value("a tensor used as an index of a Python object")

    def __repr__(self) -> str:
        return refuse_value("printing a tensor")

    def __str__(self) -> str:
        return refuse_value("printing a tensor")

    def __format__(self, specification: str) -> str:
        return refuse_value("formatting a tensor")

    def __contains__(self, item: Any) -> bool:
        return refuse_value("`in` on a tensor")


def is_unknown_int(index: Any) -> bool:
    """Whether an index is an int that only the running graph knows."""
    return getattr(index, "is_unknown", False) is True and index.kind is int


def split_unknown(index: tuple[Any, ...], rank: int) -> tuple[tuple[Any, ...], list[tuple[int, Any]]] | None:
    """An index with unknown ints as one without, and the dimensions of its result to select them from.

    Fakes take a symbol only in this form. None where no int is unknown, and where tensors, lists or
    conditions among the others decide where the dimensions lie.
    """
    known: list[Any] = []
    selected = []
    dimension = 0
    taken = sum(each is not None and each is not Ellipsis for each in index)
    for each in index:
        if is_unknown_int(each):
            selected.append((dimension, each))
            known.append(slice(None))
            dimension += 1
            continue
        known.append(each)
        if each is Ellipsis:
            dimension += rank - taken
        elif each is None or type(each) is slice:
            dimension += 1
        elif getattr(each, "kind", type(each)) is not int:
            return None
    return (tuple(known), selected) if selected and taken <= rank else None


def _binary(native: Callable[[Any, Any], Any]) -> Callable[[TensorValue, Any], Any]:
    def method(self: TensorValue, other: Any) -> Any:
        return self.builder.call(native, (self, other), {})

    return method


def _reflected(native: Callable[[Any, Any], Any]) -> Callable[[TensorValue, Any], Any]:
    def method(self: TensorValue, other: Any) -> Any:
        return self.builder.call(native, (other, self), {})

    return method


def _unary(native: Callable[[Any], Any]) -> Callable[[TensorValue], Any]:
    def method(self: TensorValue) -> Any:
        return self.builder.call(native, (self,), {})

    return method


ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)
for _name in ARITHMETIC:
    _native = getattr(operator, f"__{_name}__")
    setattr(TensorValue, f"__{_name}__", _binary(_native))
    setattr(TensorValue, f"__r{_name}__", _reflected(_native))
    setattr(TensorValue, f"__i{_name}__", _binary(getattr(operator, f"__i{_name}__")))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(TensorValue, f"__{_name}__", _binary(getattr(operator, f"__{_name}__")))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(TensorValue, f"__{_name}__", _unary(getattr(operator, f"__{_name}__")))
