"""Tensors of classes of the user's: what intercepts torch functions in Python is entered like any method.

    class Metric(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None): ...

    m + 1    the machine calls Metric.__torch_function__(Tensor.add, (Metric,), (m, 1)), whose own calls, with
             interception off, become the nodes of the graph on the plain tensor that lies under `m`

Under which name and with which arguments torch announces an operation is found out by making it once on a
probe. Objects that are no tensors but intercept torch functions are treated alike. A class that intercepts
operators below torch functions (`__torch_dispatch__`) is not entered.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import torch

from lamina.capture.generated import Writer
from lamina.capture.graph_builder import to_fake
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.sources import Attribute, ClassEntry, Field, Source
from lamina.capture.values.attributes import find_in_type, find_with_owner, is_python_method
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.operators import BINARY, COMPARE
from lamina.capture.values.probes import (
    INTERCEPTOR,
    OFF,
    Announced,
    is_silent,
    make_probe,
    order_classes,
    probe_classes,
)
from lamina.capture.values.tensor import ARITHMETIC, TensorValue, refuse_value

NATIVE_CLASSES = frozenset((*torch.Tensor.__mro__, torch.nn.Parameter))
METACLASSES = (type(torch.Tensor), type(torch.nn.Parameter))
OVERRIDES: Any = torch.overrides
OWN_PLACE = ("grad", "is_leaf")
"""Attributes that say where in autograd's graph a tensor stands."""
PLAIN_INTERCEPTOR: Any = torch.Tensor.__dict__[INTERCEPTOR].__func__
"""What a subclass does that says nothing: the operation, its results in the subclass."""


def as_plain(tensor: torch.Tensor) -> torch.Tensor:
    """The plain tensor that lies under one of a subclass: the same memory and gradient, without the class."""
    with OFF(), torch.enable_grad():
        return tensor.as_subclass(torch.Tensor)


def as_kind(tensor: torch.Tensor, kind: type[torch.Tensor], own: dict[str, Any]) -> torch.Tensor:
    """A tensor of class `kind` over `tensor`, with these attributes."""
    made: torch.Tensor = torch.Tensor.as_subclass(tensor, kind)
    made.__dict__.update(own)
    return made


@dataclass(frozen=True, slots=True)
class Plain(Source):
    """The plain tensor that lies under the one at `base`."""

    base: Source

    @property
    def is_fixed(self) -> bool:
        return self.base.is_fixed

    def expression(self, writer: Writer) -> str:
        return writer.read(f"{writer.constant(as_plain)}({self.base.expression(writer)})")

    def describe(self) -> str:
        return f"the tensor under {self.base.describe()}"

    @property
    def key(self) -> Any:
        return ("plain", self.base.key)


class SubclassValue:
    """A traced tensor of class `kind`: `plain` lies under it, `own` are its attributes.

    source and real are set for tensors from outside.
    """

    __slots__ = ("__weakref__", "kind", "own", "plain", "real", "source", "world")
    __machine_native__ = True
    __array_ufunc__ = None

    def __init__(
        self, world: Any, plain: TensorValue, kind: type, source: Source | None = None, real: Any = None
    ) -> None:
        self.world = world
        self.plain = plain
        self.kind = kind
        self.source = source
        self.real = real
        self.own: dict[str, Value] = {}

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        return refuse_value("a branch on a tensor")

    def __iter__(self) -> Iterator[Any]:
        return refuse_subclass(self.kind, "is iterated over")

    def __len__(self) -> int:
        return int(announce(self.world, len, (self,)))

    def __repr__(self) -> str:
        return refuse_value("printing a tensor")

    __int__ = __float__ = __complex__ = __index__ = __bool__
    __str__ = __repr__

    def __format__(self, specification: str) -> str:
        return refuse_value("formatting a tensor")

    def __contains__(self, item: Any) -> bool:
        return refuse_value("`in` on a tensor")

    def __getitem__(self, index: Any) -> Any:
        return apply(self.world, operator.getitem, "__getitem__", (self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        apply(self.world, operator.setitem, "__setitem__", (self, index, value))


class SubclassMethod:
    """A method of torch.Tensor bound to a tensor of a subclass."""

    __slots__ = ("__weakref__", "function", "owner")
    __machine_native__ = True

    def __init__(self, owner: SubclassValue, function: Any) -> None:
        self.owner = owner
        self.function = function

    @property
    def __name__(self) -> str:
        return str(self.function.__name__)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return announce(self.owner.world, self.function, (self.owner, *arguments), keywords)


def refuse_subclass(kind: type, what: str) -> NoReturn:
    stop("tensor-subclass", f"a tensor of class {kind.__qualname__} {what}")


def guard_interception(world: Any) -> None:
    """Guard whether the trace starts where classes may intercept torch functions."""
    world.guard_query("interception of torch functions", torch._C._is_torch_function_enabled)


# from outside


def bring_subclass(importer: Any, tensor: torch.Tensor, source: Source) -> SubclassValue:
    """A tensor of a class of the user's, read at `source`."""
    kind = type(tensor)
    if torch.nn.parameter.is_lazy(tensor):
        stop("uninitialized", "a tensor of a lazy module has no sizes before the module's first call")
    check_class(kind)
    guard_interception(importer.world)
    importer.guards.kind(source, kind)
    importer.classes.append(kind)
    plain = importer.bring(as_plain(tensor), Plain(source))
    return SubclassValue(importer.world, plain, kind, source, tensor)


def check_class(kind: type) -> None:
    """Stop at classes that cannot be entered."""
    if getattr(kind, "__torch_dispatch__", None) is not torch.Tensor.__torch_dispatch__:
        stop(
            "torch-dispatch",
            f"a tensor of class {kind.__qualname__} intercepts operators (__torch_dispatch__)",
            "take it apart outside the compiled function, or intercept torch functions (__torch_function__)",
        )
    if type(kind) not in METACLASSES:
        refuse_subclass(kind, "has a metaclass of its own")
    if not is_silent(kind) and type(find_in_type(kind, INTERCEPTOR)) is not classmethod:
        refuse_subclass(kind, "does not intercept torch functions by a class method")
    for name in ("__getattr__", "__getattribute__", "__setattr__"):
        if is_python_method(find_in_type(kind, name)):
            refuse_subclass(kind, f"has a {name} of its own")


# what torch announces


def is_interceptor(value: Value) -> bool:
    """Whether torch would ask the class of `value` before it runs a function on it."""
    kind = type(value)
    if kind is SubclassValue:
        return not is_silent(value.kind)
    raw = find_in_type(kind, INTERCEPTOR)
    return raw is not MISSING and is_python_method(raw) and not isinstance(value, (type, torch.Tensor))


def list_special(value: Value) -> list[Value]:
    """What intercepts among some arguments, and tensors of classes of the user's, in containers as well."""
    kind = type(value)
    if kind is SubclassValue or is_interceptor(value):
        return [value]
    if kind is tuple or kind is list:
        return [each for item in value for each in list_special(item)]
    return [each for item in value.values() for each in list_special(item)] if kind is dict else []


def intercept(world: Any, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`function(...)`, a torch function, where an argument may intercept it; MISSING where none does.

    Where interception is off, tensors of subclasses are the plain ones.
    """
    if not list_special((arguments, keywords)):
        return MISSING
    guard_interception(world)
    return announce(world, function, arguments, keywords)


def announce(world: Any, function: Any, arguments: Arguments, keywords: Keywords | None = None) -> Value:
    """Ask the classes of arguments, as torch does, under the name and with the arguments torch has for it."""
    keywords = keywords or {}
    found = [] if world.interception_off else filter(is_interceptor, list_special((arguments, keywords)))
    probes_of = probe_classes(map(world.type_of, found))
    if not probes_of:
        return run_plainly(world, function, arguments, keywords)
    stands: dict[int, Value] = {}
    kept: list[Any] = []

    def stand_for(value: Value) -> Any:
        kind = type(value)
        if kind is tuple or kind is list:
            return kind(map(stand_for, value))
        if kind is dict:
            return {key: stand_for(item) for key, item in value.items()}
        if is_interceptor(value):
            made: Any = make_probe(probes_of[world.type_of(value)])
        else:
            made = stand_in(value.plain if kind is SubclassValue else value, world.type_of(value))
        if made is not value:
            stands[id(made)] = value
            kept.append(made)
        return made

    def restore(value: Any) -> Value:
        kind = type(value)
        if id(value) in stands:
            return stands[id(value)]
        if kind is tuple or kind is list:
            return kind(map(restore, value))
        return {key: restore(item) for key, item in value.items()} if kind is dict else value

    probes, named = stand_for(arguments), stand_for(keywords)
    try:
        function(*probes, **named)
    except Announced as announced:
        told, asked, args, kwargs = announced.args
    except Exception as error:
        stop("op-error", f"{name_of(function)} fails on these arguments: {type(error).__name__}: {error}")
    else:
        stop("torch-function", f"{name_of(function)} does not ask the class of its arguments")
    if type(function) is types.FunctionType and getattr(told, "__name__", "") != function.__name__:
        # It begins with other functions: it is the program's to run.
        return world.machine.call_function(function, arguments, keywords)
    real = {probe: kind for kind, probe in probes_of.items()}
    kinds = [real.get(kind, torch.Tensor) for kind in asked]
    return ask(world, told, restore(args), restore(kwargs), kinds)


def stand_in(value: Value, kind: type) -> Any:
    """What an argument that does not intercept is while classes are asked: a tensor of the same class."""
    fake = to_fake(value)
    if not isinstance(fake, torch.Tensor):
        return fake
    sizes = [size if isinstance(size, int) else 2 for size in fake.shape]
    with OFF():
        plain = torch.empty(sizes, dtype=fake.dtype, device="meta")
    return torch.nn.Parameter(plain, False) if is_silent(kind) else plain


def ask(world: Any, function: Any, args: Arguments, kwargs: Keywords, kinds: list[type]) -> Value:
    """The first answer of `kind.__torch_function__(function, kinds, args, kwargs)` that is one."""
    for kind in kinds:
        raw, holder = find_with_owner(kind, INTERCEPTOR)
        world.guards.identity(ClassEntry(holder, INTERCEPTOR), raw) if holder is not torch.Tensor else None
        result = world.call(raw.__func__, (kind, function, tuple(kinds), args, kwargs), {})
        if result is not NotImplemented:
            return result
    return stop("raises", f"no class implements {name_of(function)}")


def name_of(function: Any) -> str:
    return getattr(function, "__name__", str(function))


# with interception off


def run_plainly(world: Any, function: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`function(...)` on the plain tensors; a result that is one of them is the tensor that lies over it."""
    over = {id(each.plain): each for each in list_special((arguments, keywords)) if is_tensor(each)}
    if function is torch.Tensor.as_subclass:
        return change_class(world, *arguments)
    if is_tensor_getter(function) and function.__self__.__name__ in OWN_PLACE:
        owner = arguments[0]
        if type(owner) is SubclassValue and owner.real is not None:
            return read_place(world, owner, function.__self__.__name__)
    result = world.call(function, take_plain(arguments), take_plain(keywords))
    return over.get(id(result), result)


def read_place(world: Any, owner: SubclassValue, name: str) -> Value:
    """An attribute of a tensor from outside that the plain one under it has otherwise."""
    assert owner.source is not None
    if name == "grad":
        return world.importer.bring(owner.real.grad, Field(owner.source, name))
    world.guards.on_value(
        owner.source, name, f"{name} {owner.real.is_leaf}", partial(write_leaf, owner.real.is_leaf)
    )
    return owner.real.is_leaf


def write_leaf(is_leaf: bool, writer: Writer, text: str) -> str:
    return f"{text}.is_leaf is {is_leaf}"


def take_plain(value: Value) -> Any:
    kind = type(value)
    if kind is SubclassValue:
        return value.plain
    if kind is tuple or kind is list:
        return kind(map(take_plain, value))
    return {key: take_plain(item) for key, item in value.items()} if kind is dict else value


def is_tensor(value: Value) -> bool:
    return type(value) is SubclassValue


def change_class(world: Any, tensor: Value, kind: type) -> Value:
    """`tensor.as_subclass(kind)` with interception off."""
    plain = take_plain(tensor)
    if kind is torch.Tensor:
        return world.builder.call(torch.ops.aten.alias.default, (plain,), {})
    check_class(kind)
    world.importer.classes.append(kind)
    return SubclassValue(world, plain, kind)


def convert(world: Any, result: Value, kind: type) -> Value:
    """A result of a function in the class that intercepted it, as torch's own interceptor gives it."""
    if kind is torch.Tensor:
        return result
    if type(result) is TensorValue:
        return SubclassValue(world, result, kind)
    if type(result) is SubclassValue and not issubclass(result.kind, kind):
        return SubclassValue(world, result.plain, kind)
    if isinstance(result, (tuple, list)):
        return type(result)(convert(world, each, kind) for each in result)
    return result


def model_plain_interceptor(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`torch.Tensor.__torch_function__`, mostly called as that of super()."""
    names = ("cls", "func", "types", "args", "kwargs")
    given = {"args": (), "kwargs": None, **dict(zip(names, arguments, strict=False)), **keywords}
    kind, function = given["cls"], given["func"]
    if not all(issubclass(kind, each) for each in given["types"]):
        return NotImplemented
    world.interception_off += 1
    try:
        result = run_plainly(world, function, tuple(given["args"]), given["kwargs"] or {})
    finally:
        world.interception_off -= 1
    return result if function in OVERRIDES.get_default_nowrap_functions() else convert(world, result, kind)


class Off:
    """`torch._C.DisableTorchFunctionSubclass()` of a traced program."""

    __slots__ = ("__weakref__", "world")
    __machine_native__ = True

    def __init__(self, world: Any) -> None:
        self.world = world

    def __enter__(self) -> None:
        self.world.interception_off += 1

    def __exit__(self, *_: Any) -> None:
        self.world.interception_off -= 1


def model_off(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return Off(world)


def model_has(query: Callable[..., bool], is_listed: bool) -> Model:
    """torch's questions whether an argument intercepts; is_listed: they come as one collection."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        values = tuple(arguments[0]) if is_listed else arguments
        return not world.interception_off and any(map(is_interceptor, values))

    return model


def model_handle(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """`handle_torch_function(function, relevant, *args, **kwargs)`."""
    function, relevant, *args = arguments
    kinds = order_classes([world.type_of(each) for each in relevant])
    return ask(world, function, tuple(args), keywords, kinds)


INTERCEPTION_MODELS: dict[Any, Model] = {
    PLAIN_INTERCEPTOR: model_plain_interceptor,
    OFF: model_off,
    torch.overrides.handle_torch_function: model_handle,
    **{
        getattr(home, name): model_has(getattr(home, name), is_listed)
        for home, name, is_listed in (
            (OVERRIDES, "has_torch_function", True),
            (OVERRIDES, "has_torch_function_unary", False),
            (OVERRIDES, "has_torch_function_variadic", False),
            (torch._C, "_has_torch_function", True),
            (torch._C, "_has_torch_function_unary", False),
            (torch._C, "_has_torch_function_variadic", False),
        )
    },
}


# attributes and operators


def load_subclass_attribute(world: Any, owner: SubclassValue, name: str) -> Value:
    """`owner.name`: the class's own entries before what the tensor itself has."""
    raw, holder = find_with_owner(owner.kind, name)
    if name == "__class__":
        return owner.kind
    if name == "__dict__":
        refuse_subclass(owner.kind, "is asked for its __dict__")
    if raw is not MISSING and holder not in NATIVE_CLASSES and is_python_method(raw):
        return world.bind_descriptor(raw, holder, name, owner, owner.kind)
    if name in owner.own:
        return owner.own[name]
    if owner.real is not None and owner.source is not None and name in owner.real.__dict__:
        value = world.importer.bring(owner.real.__dict__[name], Attribute(owner.source, name))
        owner.own[name] = value
        return value
    if raw is MISSING:
        if owner.source is not None:
            world.guards.on_value(owner.source, f"no {name}", "unset", partial(write_unset, name))
        raise AttributeError(
            f"{owner.kind.__name__!r} object has no attribute {name!r}", name=name, obj=owner
        )
    if holder not in NATIVE_CLASSES:
        return world.bind_descriptor(raw, holder, name, owner, owner.kind)
    if isinstance(raw, (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)):
        return SubclassMethod(owner, raw)
    if isinstance(raw, (types.GetSetDescriptorType, property)):
        return announce(world, raw.__get__, (owner,))
    return refuse_subclass(owner.kind, f"is asked for {name}")


def write_unset(name: str, writer: Writer, text: str) -> str:
    return f"{name!r} not in {text}.__dict__"


def store_subclass_attribute(owner: SubclassValue, name: str, value: Value) -> None:
    """`owner.name = value` of a tensor made in the program."""
    raw = find_in_type(owner.kind, name)
    if owner.source is not None or (raw is not MISSING and hasattr(type(raw), "__set__")):
        stop("tensor-attribute", f"the attribute {name} of a tensor is set")
    owner.own[name] = value


def is_tensor_getter(callee: Value) -> bool:
    """Whether a native callable reads an attribute of a tensor: `Tensor.shape.__get__`."""
    descriptor = getattr(callee, "__self__", None)
    return (
        type(callee) is types.MethodWrapperType
        and callee.__name__ == "__get__"
        and type(descriptor) is types.GetSetDescriptorType
        and issubclass(descriptor.__objclass__, torch._C.TensorBase)
    )


def apply(world: Any, native: Callable[..., Any], name: str, operands: Arguments) -> Value:
    """An operator of which a tensor of a subclass is an operand; methods of the classes' own come first."""
    for operand in operands:
        if type(operand) is not SubclassValue:
            continue
        raw, holder = find_with_owner(operand.kind, name)
        if holder in NATIVE_CLASSES:
            continue
        if operand is not operands[0]:
            refuse_subclass(operand.kind, f"is an operand and has a {name} of its own")
        return world.call(raw, operands, {})
    return announce(world, native, operands)


REFLECTED = {native: name for native, _, name in (*BINARY.values(), *COMPARE.values())}


def apply_to_plain(world: Any, native: Callable[..., Any], *operands: Value) -> Value:
    """An operator of a plain tensor of which another operand is of a subclass."""
    for operand in operands[1:]:
        _, holder = find_with_owner(world.type_of(operand), REFLECTED.get(native, "__hash__"))
        if type(operand) is SubclassValue and holder not in NATIVE_CLASSES:
            refuse_subclass(operand.kind, f"has a {REFLECTED[native]} of its own")
    return announce(world, native, operands)


def is_instance(value: SubclassValue, kind: type) -> bool:
    """`isinstance(value, kind)`."""
    if kind is torch.nn.Parameter and not issubclass(value.kind, kind):
        try:
            return bool(load_subclass_attribute(value.world, value, "_is_param"))
        except AttributeError:
            return False
    if type(kind) is type or type(kind) in METACLASSES:
        return issubclass(value.kind, kind)
    return refuse_subclass(value.kind, f"is asked whether it is a {kind.__qualname__}")


def _binary(native: Callable[[Any, Any], Any], name: str) -> Callable[[SubclassValue, Any], Any]:
    def method(self: SubclassValue, other: Any) -> Any:
        return apply(self.world, native, name, (self, other))

    return method


def _reflected(native: Callable[[Any, Any], Any], name: str) -> Callable[[SubclassValue, Any], Any]:
    def method(self: SubclassValue, other: Any) -> Any:
        raw, holder = find_with_owner(self.kind, name)
        if holder not in NATIVE_CLASSES:
            return self.world.call(raw, (self, other), {})
        return announce(self.world, native, (other, self))

    return method


def _unary(native: Callable[[Any], Any], name: str) -> Callable[[SubclassValue], Any]:
    def method(self: SubclassValue) -> Any:
        return apply(self.world, native, name, (self,))

    return method


for _name in ARITHMETIC:
    _native = getattr(operator, f"__{_name}__")
    setattr(SubclassValue, f"__{_name}__", _binary(_native, f"__{_name}__"))
    setattr(SubclassValue, f"__r{_name}__", _reflected(_native, f"__r{_name}__"))
    setattr(SubclassValue, f"__i{_name}__", _binary(getattr(operator, f"__i{_name}__"), f"__i{_name}__"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SubclassValue, f"__{_name}__", _binary(getattr(operator, f"__{_name}__"), f"__{_name}__"))
for _name in ("neg", "pos", "invert", "abs"):
    setattr(SubclassValue, f"__{_name}__", _unary(getattr(operator, f"__{_name}__"), f"__{_name}__"))
