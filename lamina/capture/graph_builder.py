"""Builds the torch-level graph: each torch call becomes a node and runs on fake tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.fx

from lamina.capture.control_flow import CONTROL
from lamina.capture.fake import (
    DATA_DEPENDENT,
    FakeTensor,
    can_follow,
    is_undecided,
    make_fake,
    make_fake_mode,
    symbolic_dispatch,
)
from lamina.capture.generated import Writer
from lamina.capture.layouts import Leaf
from lamina.capture.machine.signals import MISSING, TracingStopped, stop
from lamina.capture.nested_graphs import NestedGraphs
from lamina.capture.noting_mode import NotingMode
from lamina.capture.number_arguments import fix_floats, follows_floats, stand_in
from lamina.capture.packed_sequences import find_rule
from lamina.capture.reads import Reads
from lamina.capture.sources import Source
from lamina.capture.symbols import Symbols
from lamina.capture.tensor_factors import record_scaled
from lamina.capture.values.computed import Computed
from lamina.capture.values.open_containers import OpenContainer
from lamina.capture.values.sizes import NumberValue, PendingCall, SizeTuple, make_size
from lamina.capture.values.tensor import TensorValue
from lamina.capture.values.unknown import Unknown
from lamina.eager.recurrent import recurrent_results

LITERALS: tuple[type, ...] = (
    int,
    float,
    bool,
    str,
    complex,
    type(None),
    type(Ellipsis),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
"""What a graph node may hold besides nodes and containers of these."""
PYTHON_DTYPES: dict[Any, torch.dtype] = {
    int: torch.int64,
    float: torch.float64,
    bool: torch.bool,
    complex: torch.complex128,
    torch.FloatTensor: torch.float32,
    torch.DoubleTensor: torch.float64,
    torch.HalfTensor: torch.float16,
    torch.LongTensor: torch.int64,
    torch.IntTensor: torch.int32,
    torch.ByteTensor: torch.uint8,
    torch.BoolTensor: torch.bool,
}
"""What torch takes Python's number classes and its own old tensor classes for, where it wants a dtype."""
CLASSES_OF_DTYPES = (type, type(torch.FloatTensor))
NUMPY_NUMBERS = frozenset({"float64", "float32", "int64", "int32", "int16", "int8", "uint8"})
PYTHON_KINDS: dict[Any, type] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
SYMBOLIC: tuple[Any, ...] = tuple(PYTHON_KINDS)


class GraphBuilder(NestedGraphs):
    """One graph under construction. `world` tells the user's current line."""

    def __init__(self, world: Any) -> None:
        self.world = world
        super().__init__()
        self.mode: NotingMode = make_fake_mode(NotingMode)
        self.symbols = Symbols(self.mode)
        self.reads = Reads(self)
        self._computed: dict[Any, NumberValue] = {}

    def add_input(
        self, tensor: torch.Tensor, source: Source, name: str, dynamic: dict[int, tuple[int, int | None]]
    ) -> TensorValue:
        """A placeholder for a tensor from outside. dynamic: dimensions of any size between two bounds."""
        # An ordinary tensor stays one under inference mode.
        with torch.inference_mode(tensor.is_inference()):
            fake: Any = (
                self.symbols.make_fake(tensor, source, dynamic) if dynamic else make_fake(self.mode, tensor)
            )
        node = self.add_placeholder(name, fake)
        value = TensorValue(self, fake, node, type(tensor), source, tensor)
        self.inputs.append(value)
        self._by_fake[id(fake)] = value
        return value

    def add_number(
        self, number: int | float, source: Source, name: str, bounds: tuple[int, int | None]
    ) -> NumberValue:
        """A placeholder for an int (within bounds) or float from outside that varies from call to call."""
        leaf: Source | Leaf = source
        symbolic = None
        if type(number) is int:
            leaf, symbolic = self.symbols.make(number, source, None, *bounds)
        node = self.add_placeholder(name, number)
        value = node.meta["stands_for"] = NumberValue(self, number, symbolic, None, leaf, node)
        self.inputs.append(value)
        return value

    def add_computed(self, number: int, source: Computed, bounds: tuple[int, int | None]) -> NumberValue:
        """A placeholder for an int that is computed before the call; one for each computation."""
        known = self._computed.get(source.key)
        if known is None:
            known = self._computed[source.key] = self.add_number(number, source, "computed", bounds)
        return known

    def add_parameter(self, fake: torch.Tensor | None) -> TensorValue | NumberValue:
        """A placeholder of the inner graph that is being built: a tensor, or an int that nobody knows."""
        node = self.graph.placeholder(f"own_{len(self.graph.nodes)}")
        if fake is None:
            node.meta["number"] = int
            number = node.meta["stands_for"] = NumberValue(self, Unknown(int), None, None, None, node)
            return number
        node.meta["example_value"] = fake
        value = TensorValue(self, fake, node, torch.Tensor, None, None)
        self._by_fake[id(fake)] = value
        return value

    def record_regions(
        self, target: Callable[..., Any], args: tuple[Any, ...], run: Callable[[], Any]
    ) -> tuple[Any, ...]:
        """A node that calls graphs which `holder` has; `run` gives its result on fakes, None for an int."""
        self.mode.reads_values = self.mode.has_effect = False
        result = self._run_fake(target, run, (), {})
        node = self.create_node("call_function", target, args, {})
        node.meta["example_value"] = result
        taken = [each.meta.get("example_value") for each in node.all_input_nodes]
        node.meta["has_history"] = torch.is_grad_enabled() and any(map(needs_gradient, taken))
        self.mode.reads_values |= target in CONTROL
        self.reads.note_result(node, self.mode)
        return tuple(
            self._read_number(node, index) if item is None else wrapped
            for index, (item, wrapped) in enumerate(zip(result, self._wrap(result, node), strict=True))
        )

    def _read_number(self, node: torch.fx.Node, index: int) -> NumberValue:
        """An int among the results of a node that only the running graph knows."""
        call = PendingCall(self, "call_function", operator.getitem, (node, index), {})
        return NumberValue(self, Unknown(int), None, call)

    def call(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record `target(*args, **kwargs)` and give its result."""
        if kwargs:
            scaled = record_scaled(self, getattr(target, "__name__", ""), args, kwargs)
            if scaled is not MISSING:
                return scaled
        return self._record("call_function", target, target, args, kwargs)

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the method `name` of the tensor `args[0]`."""
        owner = args[0]
        if name == "new" and len(args) == 2 and type(args[1]) in (torch.Size, SizeTuple):
            # In a graph a torch.Size is a tuple, and `new` takes that for the numbers of the new tensor.
            name = "new_empty"
        if kwargs:
            scaled = record_scaled(self, name, args, kwargs)
            if scaled is not MISSING:
                return scaled

        def run(*fake_args: Any, **fake_kwargs: Any) -> Any:
            return getattr(fake_args[0], name)(*fake_args[1:], **fake_kwargs)

        assert isinstance(owner, TensorValue)
        return self._record("call_method", name, run, args, kwargs)

    def _record(
        self, kind: str, target: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if follows_floats(target, args, kwargs):
            fake_args = tuple(to_fake(stand_in(value)) for value in args)
        else:
            args = tuple(fix_floats(value) for value in args)
            kwargs = {key: fix_floats(value) for key, value in kwargs.items()} if kwargs else kwargs
            fake_args = tuple(to_fake(value) for value in args)
        fake_kwargs = {key: to_fake(value) for key, value in kwargs.items()} if kwargs else {}
        self.mode.reads_values = self.mode.has_effect = False
        try:
            result = self._run_fake(target, run, fake_args, fake_kwargs)
        except TracingStopped as stopped:
            if stopped.error.code == "op-error" and self.reads.has_unknown((*args, *kwargs.values())):
                self.reads.give_up((*args, *kwargs.values()), stopped.error.message)
            raise
        if not holds_tensor(result) and result is not None:
            if self.mode.reads_values:
                name = getattr(target, "__name__", target)
                self.reads.give_up(args, f"{name} needs the values of a tensor")
            return self._wrap_numbers(result, kind, target, args, kwargs)
        node = self.create_node(kind, target, args, kwargs)
        node.meta["example_value"] = result
        if torch.is_grad_enabled() and holds_history(result):
            node.meta["has_history"] = True
        self.reads.note_result(node, self.mode)
        wrapped = self._wrap(result, node)
        if self.mode.reads_values:
            self.reads.check_layout(wrapped, target, args)
        return wrapped

    def create_node(
        self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> torch.fx.Node:
        """A node at the end of the graph, placed at the user's line."""
        if target is operator.pow and isinstance(args[0], (int, float)) and args[0] < 0:
            # torch.fx writes an operator's constant without parentheses: -2.0 ** x would be -(2.0 ** x).
            target = pow
        node = self.graph.create_node(
            kind,
            target,
            tuple(to_node(value) for value in args),
            {key: to_node(value) for key, value in kwargs.items()},
        )
        if not all(map(self.is_open, node.all_input_nodes)):
            stop("control-flow", "a value made in a function that is a graph of its own is used elsewhere")
        node.meta["location"] = self.world.machine.location()
        return node

    def guard_offsets(self) -> None:
        """The program asks where in its memory a tensor starts, be it an input or a view of one."""
        for value in self.inputs:
            if type(value) is not TensorValue:
                continue
            offset = value.real.storage_offset()
            if offset and value.source.key in self.symbols.layouts:
                stop(
                    "tensor-method",
                    "Tensor.storage_offset of a tensor of varying size that starts at an offset",
                )
            self.world.guards.on_value(
                value.source,
                "offset",
                f"storage offset {offset}",
                partial(write_offset, offset),
            )

    def read_size(self, owner: TensorValue, dimension: int) -> Any:
        """`owner.shape[dimension]`: an int where it is static."""
        size = owner.fake.shape[dimension]
        return self.wrap_number(size, PendingCall(self, "call_method", "size", (owner, dimension), {}))

    def read_shape(self, owner: TensorValue) -> Any:
        """`owner.shape`."""
        shape = owner.fake.shape
        if self.symbols.environment is None:
            return shape
        return make_size(tuple(self.read_size(owner, dimension) for dimension in range(len(shape))))

    def wrap_number(self, result: Any, call: PendingCall) -> Any:
        if not isinstance(result, SYMBOLIC):
            return result
        if self.symbols.is_unknown(result):
            return NumberValue(self, Unknown(PYTHON_KINDS[type(result)]), result, call)
        if isinstance(result, torch.SymBool):
            return bool(result)
        expression = result.node.expr
        if expression.is_number:
            return float(expression) if isinstance(result, torch.SymFloat) else int(expression)
        return NumberValue(self, self.symbols.hint_of(result), result, call)

    def _wrap_numbers(
        self, result: Any, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A result without tensors; sizes in it that are dynamic become NumberValues."""
        if isinstance(result, SYMBOLIC):
            return self.wrap_number(result, PendingCall(self, kind, target, args, kwargs))
        if not isinstance(result, (tuple, list)) or not any(isinstance(item, SYMBOLIC) for item in result):
            return result
        call = PendingCall(self, kind, target, args, kwargs)
        items = [
            self.wrap_number(item, PendingCall(self, "call_function", operator.getitem, (call, index), {}))
            for index, item in enumerate(result)
        ]
        return make_size(tuple(items)) if isinstance(result, torch.Size) else type(result)(items)

    def _run_fake(
        self, target: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = getattr(target, "__name__", str(target))
        rule = find_rule(target, args, kwargs)
        if rule is not None:
            self.symbols.prepare()
            self.mode.reads_values = True
            run = partial(rule, self.mode)
        try:
            with self.mode:
                if self.symbols.environment is None:
                    known = recurrent_results(self.mode, target, args, kwargs)
                    return run(*args, **kwargs) if known is None else known
                with symbolic_dispatch():
                    return run(*args, **kwargs)
        except TracingStopped:
            raise
        except DATA_DEPENDENT as error:
            if self.symbols.environment is None and can_follow(error):
                self.symbols.prepare()
                return self._run_fake(target, run, args, kwargs)
            stop(
                "data-dependent",
                f"the result of {name} depends on the values of a tensor ({type(error).__name__})",
                "keep the value in a tensor (torch.where, masks), or compute it outside",
            )
        except Exception as error:
            if is_undecided(error):
                message = f"{name} needs the values of a tensor: {first_line(error)}"
                stop("data-dependent", message, "state what holds of the size with torch._check")
            # Eager may raise the same; it decides, so that the user sees its own error.
            stop("op-error", f"{name} fails on these arguments: {type(error).__name__}: {first_line(error)}")

    def _wrap(self, result: Any, node: torch.fx.Node) -> Any:
        if isinstance(result, FakeTensor):
            known = self._by_fake.get(id(result))
            if known is not None:
                return known
            kind = torch.nn.Parameter if getattr(result, "_is_param", False) else torch.Tensor
            value = TensorValue(self, result, node, kind, None, None)
            self._by_fake[id(result)] = value
            return value
        if isinstance(result, (tuple, list)):
            return self._wrap_items(result, node)
        if result is None or isinstance(result, LITERALS):
            return result
        return stop("op-result", f"{node.target} gives a {type(result).__name__}, which a graph cannot hold")

    def _wrap_items(self, result: Any, node: torch.fx.Node) -> Any:
        items = []
        for index, item in enumerate(result):
            if not holds_tensor(item):
                call = PendingCall(self, "call_function", operator.getitem, (node, index), {})
                items.append(self.wrap_number(item, call))
                continue
            known = self._by_fake.get(id(item))
            if known is not None:
                items.append(known)
                continue
            child = self.graph.call_function(operator.getitem, (node, index))
            child.meta["location"] = node.meta["location"]
            child.meta["example_value"] = item
            items.append(self._wrap(item, child))
        if type(result) in (tuple, list):
            return type(result)(items)
        maker: Any = type(result)
        if hasattr(maker, "_make"):
            return maker._make(items)
        return type(result)(items)

    def list_values(self) -> list[TensorValue | NumberValue]:
        """The inputs and all tensors made so far."""
        return [*self.inputs, *self._by_fake.values()]

    def forget(self, value: TensorValue) -> None:
        self._by_fake.pop(id(value.fake), None)


def write_offset(offset: int, writer: Writer, name: str) -> str:
    return f"{name}.storage_offset() == {offset}"


def first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else ""


def holds_tensor(value: Any) -> bool:
    """Whether a result of a torch call contains a tensor."""
    if isinstance(value, torch.Tensor):
        return True
    return isinstance(value, (tuple, list)) and any(holds_tensor(item) for item in value)


def holds_history(result: Any) -> bool:
    """Whether a result of a torch call contains a tensor that autograd follows back to others."""
    if isinstance(result, (tuple, list)):
        return any(map(holds_history, result))
    return needs_gradient(result) and not result.is_leaf


def needs_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def to_fake(value: Any) -> Any:
    """An argument as the fake run takes it."""
    kind = type(value)
    if kind is TensorValue or kind is NumberValue:
        return value.fake
    if kind is SizeTuple:
        return tuple(to_fake(item) for item in value)
    if kind is tuple or kind is list or kind is torch.Size:
        return kind(to_fake(item) for item in value)
    if kind is dict:
        return {key: to_fake(item) for key, item in value.items()}
    if kind is slice:
        return slice(to_fake(value.start), to_fake(value.stop), to_fake(value.step))
    if is_number_of_numpy(value):
        return value.item()
    if isinstance(value, LITERALS):
        return value
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return kind._make(to_fake(item) for item in value)
    if kind in CLASSES_OF_DTYPES and value in PYTHON_DTYPES:
        return PYTHON_DTYPES[value]
    if kind is range:
        return value
    if issubclass(kind, OpenContainer):
        value.end_capture()
    return stop(
        "op-argument", f"a {kind.__qualname__} is passed to a torch operation", "pass tensors and numbers"
    )


def is_number_of_numpy(value: Any) -> bool:
    """Whether torch takes a scalar of NumPy's as the Python number it holds."""
    kind = type(value)
    return kind.__module__ == "numpy" and kind.__name__ in NUMPY_NUMBERS


def to_node(value: Any) -> Any:
    """An argument as a graph node holds it."""
    kind = type(value)
    if kind is TensorValue or kind is NumberValue or kind is PendingCall:
        return value.node
    if kind is torch.Size:
        return tuple(value)
    if kind in CLASSES_OF_DTYPES:
        return PYTHON_DTYPES[value]
    if kind.__module__ == "numpy":
        return value.item()
    if kind is SizeTuple:
        return tuple(to_node(item) for item in value)
    if kind is tuple or kind is list:
        return kind(to_node(item) for item in value)
    if kind is dict:
        return {key: to_node(item) for key, item in value.items()}
    if kind is slice:
        return slice(to_node(value.start), to_node(value.stop), to_node(value.step))
    if kind is range:
        return list(value)
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return tuple(to_node(item) for item in value)
    return value
