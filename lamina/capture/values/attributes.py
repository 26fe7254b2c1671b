"""Attribute access by the rules of the data model, so that Python-level descriptors run in the machine.

C-level descriptors are asked natively; what an instance's or a class's dictionary holds comes through the
world, which records guards for objects from outside.
"""

from __future__ import annotations

import collections
import functools
import sys
import types
from typing import Any

from lamina.capture.machine.origins import call_natively
from lamina.capture.machine.signals import MISSING, Value

IMMUTABLE_TYPE = 1 << 8
"""CPython's flag of the classes written in C whose attributes cannot be set, those on the heap among them."""

PURE_DESCRIPTORS = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.BuiltinFunctionType,
    functools._lru_cache_wrapper,
    type(collections.namedtuple("_", "field").__dict__["field"]),
)
"""C-level descriptors whose binding only makes a bound method, or takes an item of a named tuple."""
BASES: tuple[Any, ...] = (
    object, tuple, list, dict, set, frozenset, int, float, complex, str, bytes, bytearray, BaseException,
    collections.deque, collections.OrderedDict, collections.defaultdict,
)  # fmt: skip
GENERIC_GETTERS = tuple(kind.__getattribute__ for kind in BASES)
"""Each of these is `PyObject_GenericGetAttr`, which classes derived from these inherit."""

BINDS_TWICE = sys.version_info < (3, 13)
"""Until 3.12 a classmethod binds the descriptor that it wraps."""

_find_cache: dict[type, bool] = {}


def is_native_type(kind: type) -> bool:
    """Whether attributes and operators of `kind`'s instances never run Python code of the user's."""
    found = _find_cache.get(kind)
    if found is None:
        found = bool(kind.__flags__ & IMMUTABLE_TYPE) or "__machine_native__" in kind.__dict__
        _find_cache[kind] = found
    return found


def find_in_type(kind: type, name: str) -> Value:
    """The raw entry of `name` along the method resolution order, or MISSING."""
    for base in type.__dict__["__mro__"].__get__(kind):
        entries = base.__dict__
        if name in entries:
            return entries[name]
    return MISSING


NATIVE_METHODS: tuple[type, ...] = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
OWN_CODE = "lamina.capture."
"""Methods of the machine's own values are native to the program."""


def is_python_method(method: Value) -> bool:
    """Whether calling `method`, a raw entry of a class, would run Python code of the program's."""
    kind = type(method)
    if kind is types.FunctionType:
        return not str(method.__globals__.get("__name__", "")).startswith(OWN_CODE)
    if kind in NATIVE_METHODS or method is MISSING or method is None:
        return False
    if kind in (staticmethod, classmethod, types.MethodType):
        return is_python_method(method.__func__)
    if isinstance(method, functools.partial):
        return is_python_method(method.func) or isinstance(method.func, type)
    if kind is property:
        return True
    if kind.__flags__ & IMMUTABLE_TYPE:
        return False
    names = ("__get__", "__call__")
    return any(type(find_in_type(kind, name)) is types.FunctionType for name in names)


def call_method(world: Any, method: Value, owner: Value, *arguments: Value) -> Value:
    """Call a special method found in the class of `owner`."""
    if type(method) is types.FunctionType:
        if is_python_method(method):
            return world.call(method, (owner, *arguments), {})
        return call_natively(method, owner, *arguments)
    if method is None:
        raise TypeError("'NoneType' object is not callable")
    if is_python_method(method):
        kind = type(owner)
        bound = world.bind_descriptor(method, kind, getattr(method, "__name__", ""), owner, kind)
        return world.call(bound, arguments, {})
    if owner is None:
        return world.call(method, (owner, *arguments), {})
    bound = method.__get__(owner, type(owner)) if hasattr(type(method), "__get__") else method
    return world.call(bound, arguments, {})


def load_special(world: Any, owner: Value, name: str) -> Value:
    """A special method of `owner` bound to it: found in its class, or MISSING."""
    kind = type(owner)
    raw, holder = find_with_owner(kind, name)
    return MISSING if raw is MISSING else world.bind_descriptor(raw, holder, name, owner, kind)


def find_with_owner(kind: type, name: str) -> tuple[Value, type]:
    """Like `find_in_type`, with the class that holds the entry."""
    for base in type.__dict__["__mro__"].__get__(kind):
        entries = base.__dict__
        if name in entries:
            return entries[name], base
    return MISSING, kind


def find_native(kind: type, name: str) -> Value:
    """The first entry of `name` along the resolution order that is not a Python function."""
    for base in kind.__mro__:
        if name in base.__dict__ and type(base.__dict__[name]) is not types.FunctionType:
            return base.__dict__[name]
    return MISSING


def is_data_descriptor(raw: Value) -> bool:
    """Whether `raw` in a class takes precedence over the instance's dictionary."""
    kind = type(raw)
    return hasattr(kind, "__set__") or hasattr(kind, "__delete__")


def load_attribute(world: Any, owner: Value, name: str) -> Value:
    """`owner.name`. Raises AttributeError as CPython does."""
    kind = type(owner)
    if is_native_type(kind) and not issubclass(kind, type) and kind is not super:
        return world.load_native_attribute(owner, name)
    getter = find_in_type(kind, "__getattribute__")
    fallback = find_in_type(kind, "__getattr__")
    try:
        if is_python_method(getter):
            return call_method(world, getter, owner, name)
        return load_by_default(world, owner, name, getter)
    except AttributeError as error:
        if not is_python_method(fallback):
            raise
        world.check_origin(error)
    return call_method(world, fallback, owner, name)


def load_by_default(world: Any, owner: Value, name: str, getter: Value) -> Value:
    """What the C-level `__getattribute__` of the owner's class gives."""
    if any(getter is generic for generic in GENERIC_GETTERS):
        return load_instance_attribute(world, owner, name)
    if getter is type.__getattribute__:
        return load_class_attribute(world, owner, name)
    if getter is super.__getattribute__:
        return load_super_attribute(world, owner, name)
    return world.load_native_attribute(owner, name)


def load_instance_attribute(world: Any, owner: Value, name: str) -> Value:
    """`object.__getattribute__(owner, name)`."""
    kind = type(owner)
    raw, holder = find_with_owner(kind, name)
    binds = raw is not MISSING and find_in_type(type(raw), "__get__") is not MISSING
    if binds and type(raw) is not types.FunctionType and is_data_descriptor(raw):
        return world.bind_descriptor(raw, holder, name, owner, kind)
    value = world.read_instance(owner, name)
    if value is not MISSING:
        if raw is not MISSING:
            world.note_shadowed(holder, name, raw)
        return value
    if raw is MISSING:
        return raise_missing(owner, name)
    return world.bind_descriptor(raw, holder, name, owner, kind)


def raise_missing(owner: Value, name: str) -> Value:
    """Raise CPython's AttributeError for a name that is not there."""
    kind = type(owner)
    if isinstance(owner, types.ModuleType):
        raise AttributeError(f"module {owner.__name__!r} has no attribute {name!r}", name=name, obj=owner)
    raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}", name=name, obj=owner)


def bind_descriptor(world: Any, raw: Value, holder: type, name: str, owner: Value, kind: type) -> Value:
    """What `raw`, found as `name` in class `holder`, gives for `owner` (None: read from the class itself)."""
    raw_kind = type(raw)
    if raw_kind is types.FunctionType:
        return raw if owner is None else types.MethodType(raw, owner)
    if raw_kind is classmethod:
        function = raw.__func__
        if BINDS_TWICE and type(function) is not types.FunctionType and hasattr(type(function), "__get__"):
            return world.bind_descriptor(function, holder, name, kind, kind)
        return types.MethodType(function, kind)
    if raw_kind is staticmethod:
        return raw.__func__
    getter = find_in_type(raw_kind, "__get__")
    if getter is MISSING:
        return world.read_class_value(holder, name, raw)
    if isinstance(raw, property) and getter is property.__get__:
        if owner is None:
            return raw
        if raw.fget is None:
            return call_natively(raw.__get__, owner, kind)
        return world.call(raw.fget, (owner,), {})
    if is_python_method(getter):
        return call_method(world, getter, raw, owner, kind)
    if raw_kind in PURE_DESCRIPTORS:
        return call_natively(raw.__get__, owner, kind)
    return world.call_native(getter, (raw, owner, kind), {})


def load_class_attribute(world: Any, owner: type, name: str) -> Value:
    """`type.__getattribute__(owner, name)`."""
    meta = type(owner)
    meta_raw, meta_holder = find_with_owner(meta, name)
    if meta_raw is not MISSING and is_data_descriptor(meta_raw) and hasattr(type(meta_raw), "__get__"):
        return world.bind_descriptor(meta_raw, meta_holder, name, owner, meta)
    raw, holder = find_with_owner(owner, name)
    if raw is not MISSING:
        return world.bind_descriptor(raw, holder, name, None, owner)
    if meta_raw is not MISSING:
        return world.bind_descriptor(meta_raw, meta_holder, name, owner, meta)
    raise AttributeError(f"type object {owner.__name__!r} has no attribute {name!r}", name=name, obj=owner)


def load_super_attribute(world: Any, owner: Any, name: str) -> Value:
    """`super(...).name`: the search goes on behind the class that super names."""
    instance, start, kind = owner.__self__, owner.__thisclass__, owner.__self_class__
    if kind is None or name == "__class__":
        return call_natively(getattr, owner, name)
    order = kind.__mro__
    for base in order[order.index(start) + 1 :]:
        if name in base.__dict__:
            raw = base.__dict__[name]
            # super() of a class method holds the class itself: entries are read as from a class.
            target = None if instance is kind else instance
            return world.bind_descriptor(raw, base, name, target, kind)
    return call_natively(getattr, owner, name)


def store_attribute(world: Any, owner: Value, name: str, value: Value) -> None:
    """`owner.name = value`."""
    setter = find_in_type(type(owner), "__setattr__")
    if is_python_method(setter):
        call_method(world, setter, owner, name, value)
        return
    store_instance_attribute(world, owner, name, value)


def store_instance_attribute(world: Any, owner: Value, name: str, value: Value) -> None:
    """`object.__setattr__(owner, name, value)`, or what the C-level slot of the owner's class does."""
    raw = find_in_type(type(owner), name)
    if raw is not MISSING and type(raw) is not types.FunctionType:
        setter = find_in_type(type(raw), "__set__")
        if is_python_method(setter):
            call_method(world, setter, raw, owner, value)
            return
        if isinstance(raw, property) and raw.fset is not None:
            world.call(raw.fset, (owner, value), {})
            return
    world.write_instance(owner, name, value)


def delete_attribute(world: Any, owner: Value, name: str) -> None:
    """`del owner.name`."""
    deleter = find_in_type(type(owner), "__delattr__")
    if is_python_method(deleter):
        call_method(world, deleter, owner, name)
        return
    delete_instance_attribute(world, owner, name)


def delete_instance_attribute(world: Any, owner: Value, name: str) -> None:
    """`object.__delattr__(owner, name)`, or what the C-level slot of the owner's class does."""
    raw = find_in_type(type(owner), name)
    if raw is not MISSING and type(raw) is not types.FunctionType:
        remover = find_in_type(type(raw), "__delete__")
        if is_python_method(remover):
            call_method(world, remover, raw, owner)
            return
        if isinstance(raw, property) and raw.fdel is not None:
            world.call(raw.fdel, (owner,), {})
            return
    world.erase_instance(owner, name)
