"""Brings values from outside into the program: guards what is read, copies containers, tracks objects.

constant          -> itself, guarded by type and value
tensor            -> a graph input
list, dict, ...   -> a copy that the program may change; differences are written back after the call
other objects     -> themselves, with a record of the attributes read and written
"""

from __future__ import annotations

import collections
import copyreg
import enum
import functools
import types
from typing import Any

import torch

from lamina.capture.guards import GuardSet
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.signals import MISSING, Value, stop
from lamina.capture.sources import Attribute, Field, Fixed, Item, Source
from lamina.capture.values.attributes import find_in_type
from lamina.capture.values.hashing import check_key
from lamina.capture.values.object_records import ObjectRecords, ObjectState
from lamina.capture.values.opaque import OpaqueValue
from lamina.capture.values.open_containers import OpenContainer, OpenContainers
from lamina.capture.values.subclasses import SubclassValue, bring_subclass
from lamina.capture.values.tensor import TensorValue
from lamina.capture.values.trust import is_trusted_module
from lamina.capture.values.walks import Walks

IMMUTABLE: tuple[type, ...] = (
    int,
    float,
    bool,
    str,
    bytes,
    complex,
    type(None),
    type(Ellipsis),
    type(NotImplemented),
)
BY_EQUALITY: tuple[type, ...] = (torch.device, torch.Size, range)
BY_IDENTITY: tuple[type, ...] = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ModuleType,
    types.CodeType,
    types.GenericAlias,
    types.UnionType,
    torch.dtype,
    torch.layout,
    torch.memory_format,
    enum.Enum,
    property,
    staticmethod,
    classmethod,
    functools._lru_cache_wrapper,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)
BOUND_NATIVE = (types.BuiltinFunctionType, types.MethodWrapperType)
OPAQUE = (torch.Generator, torch.jit.ScriptFunction)
LARGE = 256
"""Dicts with more entries are read key by key instead of being copied."""
REGISTRIES: tuple[dict[Any, Any], ...] = (torch.utils._pytree.SUPPORTED_NODES, copyreg.dispatch_table)
"""Dicts that grow as modules are imported; they are read key by key too."""


def is_by_identity(value: Value) -> bool:
    """Whether an object stands for itself: it is guarded by identity and may leave a capture as it is."""
    # Asked whether an object is one of its own, this class of torch's walks through all its subclasses.
    return isinstance(value, BY_IDENTITY) or torch._ops.HigherOrderOperator in type(value).__mro__


def is_made_per_call(function: types.FunctionType) -> bool:
    """Whether a function comes from a `def` or lambda inside a function of the user's."""
    return "<locals>" in function.__qualname__ and not is_trusted_module(function.__module__)


def is_bound_native(value: Any) -> bool:
    """Whether a native function is a method bound to an object, as `file.__exit__` is."""
    return value.__self__ is not None and not isinstance(value.__self__, (types.ModuleType, type))


class ContainerCopy:
    """A container from outside: the program works on `copy`; `first` is what it held at first."""

    __slots__ = ("copy", "first", "original", "source")

    def __init__(self, original: Any, copy: Any, source: Source) -> None:
        self.original = original
        self.copy = copy
        self.source = source
        self.first: Any = None


class LargeDict:
    """A large dict from outside, read key by key."""

    __slots__ = ("importer", "original", "source")
    __machine_native__ = True

    def __init__(self, importer: Importer, original: dict[Any, Any], source: Source) -> None:
        self.importer = importer
        self.original = original
        self.source = source

    def get(self, key: Any, default: Any = None) -> Any:
        key = find_original_key(self.importer, key)
        if key not in self:
            return default
        return self.importer.bring(self.original[key], Item(self.source, key))

    def __getitem__(self, key: Any) -> Any:
        found = self.get(key, MISSING)
        if found is not MISSING:
            return found
        if isinstance(self.original, collections.defaultdict):
            stop("large-dict", f"a dict of {len(self.original)} entries from outside would make another one")
        raise KeyError(key)

    def __contains__(self, key: Any) -> bool:
        key = find_original_key(self.importer, key)
        present = key in self.original
        if present:
            self.importer.guard_present_key(self.source, key)
        else:
            self.importer.guard_absent_key(self.source, key)
        return present

    def __getattr__(self, name: str) -> Any:
        stop("large-dict", f"a dict of {len(self.original)} entries from outside is used as a whole ({name})")


def find_original_key(importer: Importer, key: Any) -> Any:
    """The tensor for which a traced one stands, guarded to be that one; any other key itself."""
    if type(key) is not TensorValue:
        return key
    if key.source is None:
        stop("large-dict", "a large dict from outside is asked for a tensor that was made inside")
    importer.guards.identity(key.source, key.real)
    return key.real


class Importer(ObjectRecords):
    """All values brought in so far, by identity, so that aliases stay aliases."""

    def __init__(self, world: Any, guards: GuardSet) -> None:
        super().__init__(guards)
        self.world = world
        self.states: dict[int, ObjectState] = {}
        self.copies: dict[int, ContainerCopy] = {}
        self.tensors: dict[int, TensorValue | SubclassValue] = {}
        self.tensor_sources: list[tuple[TensorValue, Source]] = []
        self.function_sources: dict[int, Source] = {}
        """Functions that are new objects in every call, and the paths to them."""
        self.classes: list[type] = []
        """Classes that came from outside by themselves or by a value known by identity."""
        self.opaque: dict[int, OpaqueValue] = {}
        self.open_containers = OpenContainers(self)
        self.numbers: dict[Any, Any] = {}
        self._sources: dict[int, Source] = {}
        self._kept: list[Any] = []
        self.walks = Walks(self)

    def bring(self, value: Value, source: Source, is_trusted: bool = False) -> Value:
        """`value`, read at `source`, as the program sees it."""
        kind = type(value)
        if kind in IMMUTABLE:
            return self._bring_constant(value, kind, source)
        if isinstance(value, torch.Tensor):
            return self._bring_tensor(value, source)
        if kind is types.FunctionType and not source.is_fixed and is_made_per_call(value):
            return self._bring_function(value, source)
        if is_by_identity(value):
            if kind in BOUND_NATIVE and not source.is_fixed and is_bound_native(value):
                return self._bring_bound_native(value, source)
            if not is_trusted:
                self.guards.identity(source, value)
            self.classes.append(value if isinstance(value, type) else kind)
            if isinstance(value, enum.Enum) and not is_trusted_module(kind.__module__):
                # Its value is an attribute, which may be set.
                return self._bring_fixed_object(value, source)
            return value
        if kind in BY_EQUALITY:
            self.guards.on_value(
                source,
                "equal",
                repr(value),
                lambda writer, name: (
                    f"type({name}) is {writer.constant(kind)} and {name} == {writer.constant(value)}"
                ),
            )
            return value
        if isinstance(value, torch.nn.Module):
            return self._bring_fixed_object(value, source)
        if kind in (GeneratorValue, TensorValue, SubclassValue, OpaqueValue):
            return value
        if kind is types.CellType and not source.is_fixed:
            return self._bring_cell(value, source)
        return self._bring_structure(value, kind, source)

    def _bring_constant(self, value: Value, kind: type, source: Source) -> Value:
        history = self.world.history
        if history is not None and (kind is int or kind is float):
            bounds = history.bounds_of_number(value, source)
            if bounds is not None:
                self.guards.kind(source, kind)
                return self._bring_number(value, source, bounds)
        self.guards.constant(source, value)
        return value

    def _bring_structure(self, value: Value, kind: type, source: Source) -> Value:
        known = self.copies.get(id(value))
        if known is not None:
            self._guard_alias(value, source)
            return known.copy
        if id(value) in self.states:
            self._guard_alias(value, source)
            return value
        if id(value) in self.open_containers.known:
            self._guard_alias(value, source)
            return self.open_containers.known[id(value)]
        if isinstance(value, (tuple, frozenset)):
            return self._bring_tuple(value, kind, source)
        if isinstance(value, (list, dict, set, collections.deque)):
            return self._bring_container(value, kind, source)
        if kind is slice:
            return slice(
                *(self.bring(getattr(value, name), Field(source, name)) for name in ("start", "stop", "step"))
            )
        if kind is types.MethodType:
            return types.MethodType(
                self.bring(value.__func__, Field(source, "__func__")),
                self.bring(value.__self__, Field(source, "__self__")),
            )
        if kind is functools.partial:
            self.guards.kind(source, kind)
            parts = [
                self.bring(getattr(value, name), Field(source, name)) for name in ("func", "args", "keywords")
            ]
            return functools.partial(parts[0], *parts[1], **parts[2])
        if kind is types.MappingProxyType:
            self.guards.identity(source, value)
            return value
        return self._bring_object(value, kind, source)

    def _guard_alias(self, value: Value, source: Source) -> None:
        first = self._sources[id(value)]
        if first.key != source.key:
            self.guards.same(first, source)

    def find_source(self, value: Value) -> Source | None:
        """Where a tensor, container or object of the program comes from, if from outside."""
        holder: Any = value
        if type(value) not in (TensorValue, SubclassValue) and not isinstance(value, OpenContainer):
            holder = self.copy_ids.get(id(value)) or self.states.get(id(value))
        source: Source | None = None if holder is None else holder.source
        return source

    def _keep(self, value: Value, source: Source) -> None:
        self._sources[id(value)] = source
        self._kept.append(value)

    def _bring_number(self, value: int | float, source: Source, bounds: Any) -> Value:
        """A number that varies from call to call: one input for each path to it."""
        known = self.numbers.get(source.key)
        if known is None:
            known = self.world.builder.add_number(value, source, name_input(source), bounds)
            self.numbers[source.key] = known
        return known

    # tensors

    def _bring_tensor(self, tensor: torch.Tensor, source: Source) -> TensorValue | SubclassValue:
        known = self.tensors.get(id(tensor))
        if known is not None:
            self._guard_alias(tensor, source)
            return known
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer):
            brought = self.tensors[id(tensor)] = bring_subclass(self, tensor, source)
            self._keep(tensor, source)
            return brought
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_nested:
            stop("tensor-layout", f"a tensor of layout {tensor.layout} cannot be captured")
        if tensor.is_meta:
            stop("tensor-layout", "a meta tensor holds no data")
        history = self.world.history
        dynamic = {} if history is None else history.dimensions(tensor, source)
        value: TensorValue = self.world.builder.add_input(tensor, source, name_input(source), dynamic)
        self.tensors[id(tensor)] = value
        self._keep(tensor, source)
        self.tensor_sources.append((value, source))
        return value

    # containers

    def _bring_tuple(self, value: Any, kind: type, source: Source) -> Value:
        if source.is_fixed and kind is tuple and all(type(item) in IMMUTABLE for item in value):
            history = self.world.history
            if history is None or not history.is_replaced(value, source):
                self.guards.identity(source, value)
                return value
        if kind is not tuple and kind is not frozenset and not is_plain_tuple(value, kind):
            return self._bring_opaque(value, source)
        self.classes.append(kind)
        self.guards.kind(source, kind)
        self.guards.length(source, len(value))
        if kind is frozenset:
            if not all(type(item) in IMMUTABLE or is_by_identity(item) for item in value):
                stop("outside", "a frozenset of objects comes from outside")
            self.guards.on_value(
                source, "equal", repr(value), lambda writer, name: f"{name} == {writer.constant(value)}"
            )
            return value
        items = [self.bring(item, Item(source, index)) for index, item in enumerate(value)]
        # An unchanged tuple stays the object it is, so that identities and named tuples' classes hold.
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return make_tuple(kind, items)

    def _bring_container(self, value: Any, kind: type, source: Source) -> Value:
        if id(value) in self.world.globals_written:
            self.guards.identity(source, value)
            return self.world.read_namespace(value)
        is_large = isinstance(value, dict) and (
            len(value) > LARGE or any(value is each for each in REGISTRIES)
        )
        if not is_large and kind not in BUILTIN_CONTAINERS and walks_in_its_own_way(kind):
            return self._bring_opaque(value, source)
        if source.is_fixed:
            self.guards.identity(source, value)
            source = Fixed(value, source.describe())
        if is_large:
            return LargeDict(self, value, source)
        if not source.is_fixed:
            self.guards.kind(source, kind)
            if kind is collections.deque:
                self.guards.constant(Field(source, "maxlen"), value.maxlen)
        opened = self.open_containers.open(value, kind, source)
        if opened is not None:
            self._keep(value, source)
            return opened
        copy = make_empty(value, kind)
        record = ContainerCopy(value, copy, source)
        self.copies[id(value)] = record
        self.copy_ids[id(copy)] = record
        self._keep(value, source)
        fill_copy(self, record, value, copy, source)
        if kind not in BUILTIN_CONTAINERS:
            fill_attributes(self, value, copy, source)
        return copy

    # objects

    def _bring_fixed_object(self, value: Any, source: Source) -> Value:
        self.guards.identity(source, value)
        if id(value) not in self.states:
            self.states[id(value)] = ObjectState(value, Fixed(value, source.describe()))
            self._keep(value, source)
        return value

    def _bring_object(self, value: Value, kind: type, source: Source) -> Value:
        if isinstance(value, OPAQUE) or type(find_in_type(kind, "__next__")) is types.WrapperDescriptorType:
            return self._bring_opaque(value, source)
        if source.is_fixed:
            return self._bring_fixed_object(value, source)
        if not hasattr(value, "__dict__") and not hasattr(kind, "__slots__"):
            if is_trusted_module(kind.__module__):
                self.guards.identity(source, value)
                return value
            return self._bring_opaque(value, source)
        self.guards.kind(source, kind)
        guard_own_value(self.guards, source, value)
        self.states[id(value)] = ObjectState(value, source)
        self._keep(value, source)
        return value

    def _bring_opaque(self, value: Value, source: Source) -> OpaqueValue:
        known = self.opaque.get(id(value))
        if known is not None:
            self._guard_alias(value, source)
            return known
        if id(value) in self.walks.inside:
            stop("iterator-argument", "an iterator from outside is advanced by another one as well")
        self.guards.kind(source, type(value))
        made = self.opaque[id(value)] = OpaqueValue(value, source, self.walks)
        self._keep(value, source)
        return made

    def _bring_bound_native(self, method: Any, source: Source) -> Value:
        """A native method bound to an object, as `numbers.append` is: of containers and constants only."""
        owner = method.__self__
        if isinstance(owner, torch.Tensor):
            self.guards.kind(source, type(method))
            self.guards.constant(Field(source, "__name__"), method.__name__)
            brought = self.bring(owner, Field(source, "__self__"))
            return self.world.load_attribute(brought, method.__name__)
        if type(owner) not in (*IMMUTABLE, *BUILTIN_CONTAINERS, tuple):
            return self._bring_opaque(method, source)
        self.guards.kind(source, type(method))
        self.guards.constant(Field(source, "__name__"), method.__name__)
        return getattr(self.bring(owner, Field(source, "__self__")), method.__name__)

    def _bring_function(self, function: types.FunctionType, source: Source) -> Value:
        """A function made anew in each call: known by its code; cells and defaults are read by path."""
        if id(function) in self.function_sources:
            self._guard_alias(function, source)
            return function
        self.guards.kind(source, types.FunctionType)
        self.guards.identity(Field(source, "__code__"), function.__code__)
        self.guards.identity(Field(source, "__globals__"), function.__globals__)
        self.function_sources[id(function)] = source
        self._keep(function, source)
        for index, cell in enumerate(function.__closure__ or ()):
            self._bring_cell(cell, Item(Field(source, "__closure__"), index))
        return function

    def _bring_cell(self, cell: types.CellType, source: Source) -> Value:
        if id(cell) in self.world.cell_sources:
            self._guard_alias(cell, source)
            return cell
        self.guards.kind(source, types.CellType)
        self.world.cell_sources[id(cell)] = source
        self._keep(cell, source)
        return cell


OWN_WALKS: dict[type, tuple[str, ...]] = {
    list: ("__len__",),
    set: ("__len__", "__iter__", "__eq__", "__ne__", "update", "clear"),
    collections.deque: ("__len__", "__iter__", "__getitem__", "extend", "clear"),
    tuple: ("__len__", "__iter__", "__getitem__"),
}
"""Methods of containers that capture itself calls."""
BUILTIN_CONTAINERS = (list, dict, set, collections.deque, collections.OrderedDict, collections.defaultdict)


def bring_key(importer: Importer, key: Any) -> Value:
    """A dict's key as the program has it: its dict's guard holds it to be this very object."""
    if is_plain_key(key):
        return key
    if isinstance(key, (tuple, frozenset)):
        stop("outside", "a dict with objects in the tuples that are its keys comes from outside")
    check_key(key, "a dict from outside")
    return importer.bring(key, Fixed(key, "a key of a dict"))


def is_plain_key(key: Any) -> bool:
    """Whether a dict's key is a constant, or a tuple of such: equal ones of one class are the same."""
    if isinstance(key, (tuple, frozenset)):
        return all(is_plain_key(item) for item in key)
    return isinstance(key, (*IMMUTABLE, *BY_EQUALITY)) or (
        is_by_identity(key) and not isinstance(key, enum.Enum)
    )


def is_plain_tuple(value: Any, kind: type) -> bool:
    """Whether an object of a class derived from tuple is read as one, and holds nothing but its items."""
    is_tuple = isinstance(value, tuple) and not getattr(value, "__dict__", None)
    return is_tuple and (hasattr(kind, "_fields") or not walks_in_its_own_way(kind))


def make_tuple(kind: Any, items: list[Value]) -> Value:
    """A tuple of class `kind`, made without running Python code."""
    return kind(items) if hasattr(kind, "n_sequence_fields") else tuple.__new__(kind, items)


def guard_own_value(guards: GuardSet, source: Source, value: Any) -> None:
    """An object of a class derived from a number's or a text's is that number or text."""
    base = next((each for each in (int, float, complex, str, bytes) if isinstance(value, each)), None)
    if base is None:
        return
    show, text = base.__repr__, base.__repr__(value)
    guards.on_value(
        source, "own value", text, lambda writer, name: f"{writer.constant(show)}({name}) == {text!r}"
    )


def walks_in_its_own_way(kind: type) -> bool:
    """Whether reading or refilling a container of a class of the user's would run the class's code."""
    for base, names in OWN_WALKS.items():
        if issubclass(kind, base):
            return any(find_in_type(kind, name) is not find_in_type(base, name) for name in names)
    return False


def dict_base(value: dict[Any, Any]) -> Any:
    """The builtin class whose methods see `value`'s true order."""
    return collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict


def make_empty(value: Any, kind: type) -> Any:
    """An empty container like `value`, made without running Python code."""
    if kind is collections.deque:
        return collections.deque(maxlen=value.maxlen)
    if kind is collections.defaultdict:
        return collections.defaultdict(value.default_factory)
    for base in (collections.OrderedDict, collections.defaultdict, dict, list, set, collections.deque):
        if isinstance(value, base):
            return base.__new__(kind)
    raise AssertionError(kind)


def fill_copy(importer: Importer, record: ContainerCopy, value: Any, copy: Any, source: Source) -> None:
    """Bring the items of a container from outside into its copy."""
    if isinstance(value, dict):
        base = dict_base(value)
        entries = list(base.items(value))
        importer.guards.keys(source, tuple(key for key, _ in entries))
        reader: type | None = (
            dict if find_in_type(type(value), "__getitem__") is not dict.__getitem__ else None
        )
        for key, item in entries:
            base.__setitem__(copy, bring_key(importer, key), importer.bring(item, Item(source, key, reader)))
        record.first = dict(base.items(copy))
    elif isinstance(value, set):
        if not all(type(item) in IMMUTABLE or is_by_identity(item) for item in value):
            stop("outside", "a set of objects comes from outside")
        frozen = frozenset(value)
        importer.guards.on_value(
            source, "equal", repr(value), lambda writer, name: f"{name} == {writer.constant(frozen)}"
        )
        copy.update(value)
        record.first = frozen
    else:
        importer.guards.length(source, len(value))
        reader = list if isinstance(value, list) and type(value) is not list else None
        sequence: Any = list if isinstance(value, list) else collections.deque
        for index, item in enumerate(list(sequence.__iter__(value))):
            sequence.append(copy, importer.bring(item, Item(source, index, reader)))
        record.first = list(sequence.__iter__(copy))


def fill_attributes(importer: Importer, value: Any, copy: Any, source: Source) -> None:
    for name, item in getattr(value, "__dict__", {}).items():
        copy.__dict__[name] = importer.bring(item, Attribute(source, name))


def name_input(source: Source) -> str:
    """A placeholder name that says where the tensor comes from."""
    text = source.describe().replace("argument ", "arg_")
    return "".join(sign if sign.isalnum() else "_" for sign in text).strip("_") or "input"
