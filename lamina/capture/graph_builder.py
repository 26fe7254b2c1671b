"""Builds the torch-level graph: each torch call becomes a node and runs on fake tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from lamina.capture.fake import DATA_DEPENDENT, FakeTensor, FakeTensorMode, make_fake, make_fake_mode
from lamina.capture.machine.signals import TracingStopped, stop
from lamina.capture.sources import Source
from lamina.capture.values.tensor import TensorValue

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


class GraphBuilder:
    """One graph under construction. `world` tells the user's current line."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.graph = torch.fx.Graph()
        self.mode: FakeTensorMode = make_fake_mode()
        self.inputs: list[TensorValue] = []
        self._by_fake: dict[int, TensorValue] = {}
        self._last_placeholder: torch.fx.Node | None = None

    def add_input(self, tensor: torch.Tensor, source: Source, name: str) -> TensorValue:
        """A placeholder for a tensor from outside."""
        fake = make_fake(self.mode, tensor)
        if self._last_placeholder is not None:
            with self.graph.inserting_after(self._last_placeholder):
                node = self.graph.placeholder(name)
        elif self.graph._len:
            with self.graph.inserting_before(next(iter(self.graph.nodes))):
                node = self.graph.placeholder(name)
        else:
            node = self.graph.placeholder(name)
        self._last_placeholder = node
        node.meta["example_value"] = fake
        value = TensorValue(self, fake, node, type(tensor), source, tensor)
        self.inputs.append(value)
        self._by_fake[id(fake)] = value
        return value

    def call(self, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record `target(*args, **kwargs)` and give its result."""
        return self._record("call_function", target, target, args, kwargs)

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the method `name` of the tensor `args[0]`."""
        owner = args[0]

        def run(*fake_args: Any, **fake_kwargs: Any) -> Any:
            return getattr(fake_args[0], name)(*fake_args[1:], **fake_kwargs)

        assert isinstance(owner, TensorValue)
        return self._record("call_method", name, run, args, kwargs)

    def _record(
        self, kind: str, target: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        fake_args = tuple(to_fake(value) for value in args)
        fake_kwargs = {key: to_fake(value) for key, value in kwargs.items()} if kwargs else {}
        result = self._run_fake(target, run, fake_args, fake_kwargs)
        if not holds_tensor(result) and result is not None:
            return result
        node = self.graph.create_node(
            kind,
            target,
            tuple(to_node(value) for value in args),
            {key: to_node(value) for key, value in kwargs.items()},
        )
        node.meta["location"] = self.world.machine.location()
        node.meta["example_value"] = result
        return self._wrap(result, node)

    def _run_fake(
        self, target: Any, run: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        name = getattr(target, "__name__", str(target))
        try:
            with self.mode:
                return run(*args, **kwargs)
        except TracingStopped:
            raise
        except DATA_DEPENDENT as error:
            stop(
                "data-dependent",
                f"the result of {name} depends on the values of a tensor ({type(error).__name__})",
                "keep the value in a tensor (torch.where, masks), or compute it outside",
            )
        except Exception as error:
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
                items.append(item)
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

    def forget(self, value: TensorValue) -> None:
        self._by_fake.pop(id(value.fake), None)


def first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else ""


def holds_tensor(value: Any) -> bool:
    """Whether a result of a torch call contains a tensor."""
    if isinstance(value, torch.Tensor):
        return True
    return isinstance(value, (tuple, list)) and any(holds_tensor(item) for item in value)


def to_fake(value: Any) -> Any:
    """An argument as the fake run takes it."""
    if type(value) is TensorValue:
        return value.fake
    kind = type(value)
    if kind is tuple or kind is list or kind is torch.Size:
        return kind(to_fake(item) for item in value)
    if kind is dict:
        return {key: to_fake(item) for key, item in value.items()}
    if kind is slice:
        return slice(to_fake(value.start), to_fake(value.stop), to_fake(value.step))
    if isinstance(value, LITERALS):
        return value
    if isinstance(value, tuple) and hasattr(kind, "_make"):
        return kind._make(to_fake(item) for item in value)
    if isinstance(value, (range, type)):
        return value
    return stop(
        "op-argument", f"a {kind.__qualname__} is passed to a torch operation", "pass tensors and numbers"
    )


def to_node(value: Any) -> Any:
    """An argument as a graph node holds it."""
    if type(value) is TensorValue:
        return value.node
    kind = type(value)
    if kind is torch.Size:
        return tuple(value)
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
