"""Values of a traced program as expressions that make or fetch them again at call time."""

from __future__ import annotations

import collections
import functools
import random
import types
from typing import Any

import torch
import torch.fx

from lamina.capture.generated import Writer
from lamina.capture.machine.generators import GeneratorValue
from lamina.capture.machine.signals import Value, stop
from lamina.capture.side_effects import is_changed
from lamina.capture.values.attribute_view import AttributeView
from lamina.capture.values.attributes import IMMUTABLE_TYPE
from lamina.capture.values.iteration import MachineCallable, MachineIterable
from lamina.capture.values.iterator_states import KNOWN
from lamina.capture.values.namespaces import Namespace
from lamina.capture.values.opaque import OpaqueValue
from lamina.capture.values.open_containers import OpenContainer
from lamina.capture.values.outside import (
    BOUND_NATIVE,
    BY_EQUALITY,
    IMMUTABLE,
    LargeDict,
    is_bound_native,
    is_by_identity,
)
from lamina.capture.values.sizes import NumberValue, SizeTuple
from lamina.capture.values.subclasses import SubclassMethod, SubclassValue, as_kind
from lamina.capture.values.tensor import TensorMethod, TensorValue
from lamina.capture.values.walks import (
    APPLYING,
    DICT_ITERATORS,
    JOINING,
    SEQUENCE_ITERATORS,
    Waiting,
    describe_iterator,
    find_dict,
)

NATIVE_ITERATORS: tuple[type, ...] = (*SEQUENCE_ITERATORS, *JOINING, *APPLYING, *KNOWN, reversed)
"""Iterators that tell exactly where they stand."""
ORDERS_TRIED = 64
"""Ways to fill a set, until one gives a wanted order."""
NATIVE_MAKER = types.BuiltinFunctionType
REBUILT_BASES: tuple[type, ...] = (collections.OrderedDict, dict, list, set, tuple, object)


class ValueRebuilder:
    """Turns values of the program into expressions of `finish`; collects which nodes are graph outputs."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.writer = Writer("finish", "outputs, args, kwargs")
        self.outputs: list[torch.fx.Node] = []
        self._output_index: dict[torch.fx.Node, int] = {}
        self._names: dict[int, str] = {}
        self.late: list[str] = []
        """Lines for when all writes are done."""
        self._open: set[int] = set()
        self._kept: list[Any] = []
        self.unbuilt: Any = None
        """What the last stop was about, where it is something that cannot leave a trace."""

    def express(self, value: Value) -> str:
        """An expression that makes or fetches `value` at call time."""
        kind = type(value)
        if kind in IMMUTABLE:
            return self.writer.constant(value)
        if kind is TensorValue:
            return self._express_tensor(value)
        if kind is NumberValue and value.is_unknown:
            return self._express_output(value.node)
        if kind is NumberValue:
            return self.writer.read(value.write(self.writer))
        known = self._names.get(id(value))
        if known is not None:
            return known
        name = self._express_new(value, kind)
        self._names[id(value)] = name
        self._kept.append(value)
        return name

    def _express_new(self, value: Value, kind: type) -> str:
        importer = self.world.importer
        copied = importer.copy_ids.get(id(value))
        if copied is not None:
            return str(copied.source.expression(self.writer))
        state = importer.states.get(id(value))
        if state is not None:
            return str(state.source.expression(self.writer))
        if kind is SubclassValue and value.source is not None:
            return str(value.source.expression(self.writer))
        if kind is LargeDict or kind is OpaqueValue or issubclass(kind, OpenContainer):
            return str(value.source.expression(self.writer))
        if kind is types.CellType:
            return self._express_cell(value)
        if kind is types.FunctionType:
            if id(value) in self.world.functions:
                return self._express_function(value)
            if id(value) in importer.function_sources:
                return str(importer.function_sources[id(value)].expression(self.writer))
        if isinstance(value, type) and id(value) in self.world.classes:
            self.unbuilt = value
            stop("local-class", f"the class {value.__qualname__}, made inside, leaves the compiled function")
        if kind in BOUND_NATIVE and is_bound_native(value):
            return self.writer.fresh(f"({self.express(value.__self__)}).{value.__name__}")
        if is_by_identity(value) or kind in BY_EQUALITY or is_native_enum(kind):
            return self.writer.constant(value)
        if kind is Namespace:
            return self.writer.constant(value.entries)
        if kind is AttributeView:
            return self.writer.read(f"{value.state.source.expression(self.writer)}.__dict__")
        if kind is MachineCallable:
            return self.express(value.function)
        if kind is MachineIterable:
            return self.express(value.iterable)
        if kind in NATIVE_ITERATORS:
            return self._express_iterator(value, kind)
        if kind in DICT_ITERATORS:
            return self._express_dict_iterator(value, kind)
        if kind is GeneratorValue or hasattr(kind, "__next__"):
            self.unbuilt = value
            stop(
                "iterator-result", "an iterator or a generator leaves the compiled function", "return a list"
            )
        if id(value) in self._open:
            stop("cyclic-result", "the result contains itself")
        self._open.add(id(value))
        try:
            return self._express_made(value, kind)
        finally:
            self._open.discard(id(value))

    def _express_tensor(self, value: TensorValue) -> str:
        if value.source is not None:
            return str(value.source.expression(self.writer))
        output = self._express_output(value.node)
        is_parameter, needs_gradient = value.kind is torch.nn.Parameter, value.fake.requires_grad
        if not is_parameter and not (needs_gradient and value.fake.is_leaf):
            return output
        if id(value) not in self._names:
            made = f"{self._name(make_leaf)}({output}, {is_parameter}, {needs_gradient})"
            self._names[id(value)] = self.writer.fresh(made)
        return self._names[id(value)]

    def _express_output(self, node: torch.fx.Node) -> str:
        index = self._output_index.get(node)
        if index is None:
            index = self._output_index[node] = len(self.outputs)
            self.outputs.append(node)
        return f"outputs[{index}]"

    def _express_made(self, value: Value, kind: type) -> str:
        if kind is SizeTuple:
            return self.writer.fresh(f"{self._name(torch.Size)}({self.express(tuple(value))})")
        if kind is tuple:
            items = [self.express(item) for item in value]
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if kind is list:
            return self._fill_list(value, "[]", "{}.append({})")
        if kind is collections.deque:
            return self._fill_list(value, f"{self._name(kind)}(maxlen={value.maxlen!r})", "{}.append({})")
        if kind in (set, frozenset):
            order, is_copied = order_to_add(value)
            listed = f"[{', '.join([self.express(item) for item in order])}]"
            return self.writer.fresh(f"{kind.__name__}({f'set({listed})' if is_copied else listed})")
        if kind is dict:
            return self._fill_dict(value, "{}", dict)
        if kind is collections.OrderedDict:
            return self._fill_dict(value, f"{self._name(kind)}()", kind)
        if kind is collections.defaultdict:
            return self._fill_dict(value, f"{self._name(kind)}({self.express(value.default_factory)})", dict)
        if kind is slice:
            parts = (self.express(part) for part in (value.start, value.stop, value.step))
            return self.writer.fresh(f"slice({', '.join(parts)})")
        if kind is types.MethodType and isinstance(value.__self__, OpenContainer):
            return self.writer.fresh(f"{self.express(value.__self__)}.{value.__name__}")
        if kind is types.MethodType:
            pair = f"{self.express(value.__func__)}, {self.express(value.__self__)}"
            return self.writer.fresh(f"{self._name(types.MethodType)}({pair})")
        if kind is functools.partial:
            keywords = self.express(dict(value.keywords))
            return self.writer.fresh(
                f"{self._name(kind)}({self.express(value.func)}, *{self.express(value.args)}, **{keywords})"
            )
        if kind is SubclassValue:
            given = f"{self.express(value.plain)}, {self._name(value.kind)}, {self.express(value.own)}"
            return self.writer.fresh(f"{self._name(as_kind)}({given})")
        if kind is SubclassMethod:
            return self.writer.fresh(f"{self.express(value.owner)}.{value.__name__}")
        if kind is TensorMethod:
            return self.writer.fresh(f"{self.express(value.owner)}.{value.name}")
        if issubclass(kind, BaseException):
            return self._express_exception(value, kind)
        return self._express_object(value, kind)

    def _name(self, value: Any) -> str:
        return self.writer.constant(value)

    def _fill_list(self, value: Any, empty: str, append: str) -> str:
        items = [self.express(item) for item in value]
        if empty == "[]":
            return self.writer.fresh(f"[{', '.join(items)}]")
        name = self.writer.fresh(empty)
        for item in items:
            self.writer.add(append.format(name, item))
        return name

    def _fill_dict(self, value: Any, empty: str, base: type) -> str:
        name = self.writer.fresh(empty)
        self._fill_entries(name, value, base)
        return name

    def _fill_entries(self, name: str, value: Any, base: Any) -> None:
        setter = self._name(base.__setitem__)
        for key, item in base.items(value):
            self.writer.add(f"{setter}({name}, {self.express(key)}, {self.express(item)})")

    def _express_object(self, value: Value, kind: type) -> str:
        """An instance made in the program: made anew without running its class's code."""
        base = next(entry for entry in kind.__mro__ if entry.__flags__ & IMMUTABLE_TYPE)
        if kind is torch.Size or hasattr(kind, "n_sequence_fields"):
            return self.writer.fresh(f"{self._name(kind)}({self.express(tuple(value))})")
        if base not in REBUILT_BASES or not is_made_by_class_statement(kind):
            stop("result", f"an object of class {kind.__qualname__} leaves the compiled function")
        if id(kind) in self.world.classes:
            self.unbuilt = kind
            stop(
                "local-class",
                f"an object of the class {kind.__qualname__}, made inside, leaves the compiled function",
            )
        maker = self._name(base.__new__)
        if base is tuple:
            items = self.express(tuple(tuple.__iter__(value)))
            name = self.writer.fresh(f"{maker}({self._name(kind)}, {items})")
        else:
            name = self.writer.fresh(f"{maker}({self._name(kind)})")
        if issubclass(kind, dict):
            self._fill_entries(name, value, base)
        elif issubclass(kind, list):
            for item in list.__iter__(value):
                self.writer.add(f"{self._name(list.append)}({name}, {self.express(item)})")
        elif issubclass(kind, set):
            self.writer.add(f"{self._name(set.update)}({name}, {self.express(tuple(value))})")
        self._fill_instance(name, value, kind)
        return name

    def _fill_instance(self, name: str, value: Value, kind: type) -> None:
        entries = getattr(value, "__dict__", None)
        if entries:
            self._names[id(value)] = name
            place = self.writer.fresh(f"{name}.__dict__")
            for key, item in entries.items():
                self.writer.add(f"{place}[{key!r}] = {self.express(item)}")
        for base in kind.__mro__:
            for key, raw in base.__dict__.items():
                if (
                    type(raw) is types.MemberDescriptorType
                    and not base.__flags__ & IMMUTABLE_TYPE
                    and hasattr(value, key)
                ):
                    setter = self._name(object.__setattr__)
                    self.writer.add(f"{setter}({name}, {key!r}, {self.express(getattr(value, key))})")

    def _express_function(self, value: types.FunctionType) -> str:
        cells = [self._express_cell(cell) for cell in value.__closure__ or ()]
        known = self._names.get(id(value))
        if known is not None:  # one of its own cells holds the function
            return known
        closure = f"({', '.join(cells)},)" if cells else "None"
        name = self.writer.fresh(
            f"{self._name(types.FunctionType)}({self._name(value.__code__)}, "
            f"{self._name(value.__globals__)}, {value.__name__!r}, "
            f"{self.express(value.__defaults__)}, {closure})"
        )
        self._names[id(value)] = name
        if value.__kwdefaults__:
            self.writer.add(f"{name}.__kwdefaults__ = {self.express(value.__kwdefaults__)}")
        if value.__qualname__ != value.__name__:
            self.writer.add(f"{name}.__qualname__ = {value.__qualname__!r}")
        for key, item in value.__dict__.items():
            self.writer.add(f"{name}.__dict__[{key!r}] = {self.express(item)}")
        return name

    def _express_cell(self, cell: types.CellType) -> str:
        if id(cell) in self.world.cell_sources:
            return str(self.world.cell_sources[id(cell)].expression(self.writer))
        if id(cell) not in self.world.cells:
            return self.writer.constant(cell)
        known = self._names.get(id(cell))
        if known is not None:
            return known
        name = self._names[id(cell)] = self.writer.fresh(f"{self._name(types.CellType)}()")
        try:
            contents = cell.cell_contents
        except ValueError:
            return name
        self.writer.add(f"{name}.cell_contents = {self.express(contents)}")
        return name

    def _express_iterator(self, value: Any, kind: type) -> str:
        """A native iterator in progress, from what it says of itself."""
        maker, arguments, state = describe_iterator(value)
        if any(type(argument) is Waiting for argument in arguments):
            self.unbuilt = value
            stop(
                "iterator-result",
                "an iterator that does not tell its state leaves the compiled function",
            )
        made = ", ".join(self.express(argument) for argument in arguments)
        name = self.writer.fresh(f"{self._name(maker)}({made})")
        if state is not None:
            # A position must lie within the list, which may get longer by what is written to it.
            self.late.append(f"{name}.__setstate__({self.express(state)})")
        return name

    def _express_dict_iterator(self, value: Any, kind: type) -> str:
        """An iterator over a dict: made anew and advanced as far."""
        walked = find_dict(value)
        copied = self.world.importer.copy_ids.get(id(walked))
        if copied is not None and is_changed(copied):
            stop("iterator-result", "a dict that is iterated over has been changed")
        done = len(walked) - value.__length_hint__()
        name = self.writer.fresh(f"iter({self.express(walked)}.{DICT_ITERATORS[kind]}())")
        if done:
            self.writer.add(f"for _ in range({done}): next({name})")
        return name

    def _express_exception(self, value: BaseException, kind: type) -> str:
        """An exception that the program made."""
        arguments = "".join(f"{self.express(argument)}, " for argument in value.args)
        if not kind.__flags__ & IMMUTABLE_TYPE:
            name = self.writer.fresh(f"{self._name(kind.__new__)}({self._name(kind)}, {arguments})")
        else:
            name = self.writer.fresh(f"{self._name(kind)}({arguments})")
        self._names[id(value)] = name
        for key, item in value.__dict__.items():
            self.writer.add(f"{name}.__dict__[{key!r}] = {self.express(item)}")
        if value.__traceback__ is not None:
            self.writer.add(f"{name}.__traceback__ = {self._name(value.__traceback__)}")
        for field in ("__cause__", "__context__", "__suppress_context__"):
            item = getattr(value, field)
            if item:
                self.writer.add(f"{name}.{field} = {self.express(item)}")
        return name


def order_to_add(items: set[Value] | frozenset[Value], may_copy: bool = True) -> tuple[list[Value], bool]:
    """In which order a new set takes these constants, to give them in the order in which this one does.

    Also whether the new set is to be a copy of one that is filled so: a copy has other room.
    """
    given, kind = list(items), frozenset if isinstance(items, frozenset) else set
    if not all(type(item) in IMMUTABLE for item in given):
        return given, False
    order, state = list(given), random.Random(0)
    for _ in range(ORDERS_TRIED):
        for is_copied in (False, True) if may_copy else (False,):
            made = kind(set(order)) if is_copied else kind(order)
            if all(new is old for new, old in zip(made, given, strict=True)):
                return order, is_copied
        state.shuffle(order)
    return stop("result", "a set leaves the compiled function whose order comes from how it was changed")


def is_native_enum(kind: type) -> bool:
    """Whether a class is an enumeration made by pybind11: its members are there once."""
    return type(kind).__name__ == "pybind11_type" and hasattr(kind, "__members__")


def is_made_by_class_statement(kind: type) -> bool:
    """Whether no class in C, except a builtin container or object, lies under the instances of `kind`."""
    heap = [entry for entry in kind.__mro__ if not entry.__flags__ & IMMUTABLE_TYPE]
    return kind in heap and not any(isinstance(entry.__dict__.get("__new__"), NATIVE_MAKER) for entry in heap)


def make_leaf(tensor: torch.Tensor, is_parameter: bool, needs_gradient: bool) -> torch.Tensor:
    """A graph's output as the leaf of autograd's graphs that the program made."""
    if is_parameter and not isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(tensor, needs_gradient)
    return tensor if tensor.requires_grad == needs_gradient else tensor.requires_grad_(needs_gradient)
