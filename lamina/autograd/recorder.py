"""The dispatch mode that records a functional graph while a program runs on fake tensors."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from lamina.autograd.custom_operators import flat_form, has_flat_form, list_strides, place_results
from lamina.autograd.decompose import KEPT, RULES, argument_values, is_random
from lamina.autograd.fake import (
    DEVICE_QUERY,
    functional_overload,
    is_fake,
    run_fake,
    to_fake,
)
from lamina.autograd.functionalize import (
    INVERSES,
    RESHAPES,
    Cell,
    Emit,
    View,
    may_overlap,
    memory_order,
    read,
    write,
)
from lamina.eager.known_results import is_composite
from lamina.eager.memory import storage_key
from lamina.errors import Unsupported

Tensor = torch.Tensor
aten = torch.ops.aten

LIFT = aten.lift_fresh.default
NO_OP_IN_PLACE = frozenset({aten.detach_.default, aten.requires_grad_.default})
QUERIES = frozenset(
    {
        DEVICE_QUERY,
        aten.sym_size.default,
        aten.sym_stride.default,
        aten.sym_numel.default,
        aten.sym_storage_offset.default,
        aten.is_contiguous.default,
        aten.is_contiguous.memory_format,
        aten.is_non_overlapping_and_dense.default,
    }
)
"""Questions about metadata: answered, not recorded."""

DEAD_SELF = frozenset(
    {
        aten.uniform_.default,
        aten.normal_.default,
        aten.exponential_.default,
        aten.cauchy_.default,
        aten.geometric_.default,
        aten.log_normal_.default,
        aten.random_.default,
        aten.random_.to,
        getattr(aten.random_, "from"),
        aten.bernoulli_.float,
        aten.bernoulli_.Tensor,
    }
)
"""In-place random ops: they read nothing of the tensor but its layout."""

FUNCTIONAL = {
    aten.normal_.default: aten.normal_functional.default,
    aten.bernoulli_.float: aten.bernoulli.p,
    aten.bernoulli_.Tensor: aten.bernoulli.Tensor,
}
"""Functional forms that are not found by name."""


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs ATen ops on fakes of `mode` and appends them, functionalised, to `graph_module`'s graph."""

    def __init__(self, mode: Any) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.mode = mode
        self.graph_module = fx.GraphModule(torch.nn.Module(), fx.Graph())
        self.graph = self.graph_module.graph
        self.location: tuple[str, int] | None = None
        self.placeholders: list[fx.Node] = []
        self.input_cells: list[Cell | None] = []
        self.views: dict[int, View] = {}
        self.owners: dict[int, View] = {}
        self.holders: dict[int, list[fx.Node]] = {}
        self.constant_count = 0
        self.kinds: dict[Any, str] = {}

    # values of tensors

    def add_input(self, index: int, value: Any) -> View | None:
        """Append a placeholder; a view is returned when `value` is a tensor."""
        node = self.graph.placeholder(f"arg{index}")
        node.meta["val"] = value
        self.placeholders.append(node)
        if not isinstance(value, Tensor):
            self.input_cells.append(None)
            return None
        if id(value) in self.views:
            raise Unsupported("repeated-input", "the same tensor was given for two placeholders")
        view = self.bind(value, node, input_index=index)
        self.input_cells.append(view.cell)
        return view

    def bind(self, tensor: Tensor, node: fx.Node, input_index: int | None = None) -> View:
        """Let `tensor` be memory of its own, holding `node`."""
        view = View(Cell(node, input_index), tensor, node)
        self.views[id(tensor)] = view
        self.owners.setdefault(storage_key(tensor), view)
        return view

    def view_of(self, tensor: Tensor) -> View:
        """The view that stands for a fake made under this recorder."""
        view = self.views.get(id(tensor))
        if view is None:
            raise Unsupported("unknown-tensor", "the program uses a tensor that is not an input of its graph")
        return view

    def node_of(self, tensor: Tensor) -> fx.Node:
        """The node that holds `tensor`'s present value."""
        return read(self.view_of(tensor), self.emit)

    def node_of_cell(self, view: View) -> fx.Node:
        """The node of the whole memory that `view` looks at."""
        return read(view.root, self.emit)

    def add_attribute(self, tensor: Tensor) -> Tensor:
        """A fake for a tensor that the graph holds as an attribute: a constant that may not be written."""
        fake = self.constant(tensor)
        self.views[id(fake)].cell.refusal = "the program writes to a tensor that is a constant of its graph"
        return fake

    def constant(self, tensor: Tensor) -> Tensor:
        """A fresh fake whose value is the constant `tensor`."""
        if is_fake(tensor):
            raise Unsupported("unknown-tensor", "the program uses a tensor that is not an input of its graph")
        name = f"constant{self.constant_count}"
        self.constant_count += 1
        setattr(self.graph_module, name, tensor.detach())
        node = self.graph.create_node("get_attr", name)
        fake = to_fake(self.mode, tensor.detach())
        node.meta.update(val=fake, location=self.location)
        self.bind(fake, node)
        return fake

    # nodes

    def emit(self, op: Any, *args: Any, val: Any = None, effects: str = "", **kwargs: Any) -> fx.Node:
        """Append `op` on nodes; without `val` its metadata is computed by running it on fakes."""
        if val is None:
            values = fx.map_arg(args, lambda node: node.meta["val"])
            val = run_fake(self.mode, op, (), values, kwargs)
        node = self.graph.create_node("call_function", op)
        # Set afterwards: torch warns of symbolic sizes among the arguments of a new node.
        node.args, node.kwargs = args, kwargs
        node.meta["val"] = val
        node.meta["location"] = self.location
        if isinstance(val, Tensor):
            self.holders.setdefault(id(val), []).append(node)
        if effects:
            node.meta["effects"] = effects
        return node

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        kind = self.kinds.get(func)
        if kind is None:
            kind = self.kinds[func] = classify(func)
        if kind == "query":
            return run_fake(self.mode, func, types, args, kwargs)
        if kind == "rule":
            with self:
                result = RULES[func](*args, **kwargs)
            if result is not NotImplemented:
                return result
            kind = "composite" if func not in KEPT and is_composite(func) else "plain"
        if kind == "composite":
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        if kind == "lift":
            return args[0] if is_fake(args[0]) else self.constant(args[0])
        if kind == "same":
            return args[0]
        args, kwargs = self.fake_arguments(args), {k: self.fake_argument(v) for k, v in kwargs.items()}
        if kind == "write":
            return self.run_write(func, types, args, kwargs)
        if kind == "view write":
            return self.run_view_write(func, types, args, kwargs)
        if kind == "foreign":
            return run_foreign(self, func, types, args, kwargs)
        return self.run_plain(func, types, args, kwargs)

    def fake_arguments(self, args: Any) -> Any:
        """Make real tensors among the arguments (numbers that torch wrapped itself) constants."""
        return tuple([self.fake_argument(a) for a in args])

    def fake_argument(self, value: Any) -> Any:
        """See `fake_arguments`."""
        if isinstance(value, Tensor) and not is_fake(value):
            return value.item() if value.dim() == 0 else self.constant(value)
        if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
            return [self.fake_argument(item) for item in value]
        return value

    def nodes_of(self, value: Any) -> Any:
        """Arguments with tensors replaced by the nodes of their values."""
        if isinstance(value, Tensor):
            return self.node_of(value)
        if isinstance(value, list | tuple):
            return [self.nodes_of(item) for item in value]
        if isinstance(value, torch.Generator):
            raise Unsupported("generator-argument", "an op draws from a generator of its own")
        return value

    # op kinds

    def run_plain(
        self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any], effects: str = ""
    ) -> Any:
        """Run and record an op that writes nothing; what it returns may look at its operands' memory."""
        if is_random(func, args, kwargs):
            effects = "random"
        result = run_fake(self.mode, func, types, args, kwargs)
        if isinstance(result, Tensor):
            view = self.alias_view(func, args, kwargs, result)
            if view is not None:
                return result
        node_args = tuple([self.nodes_of(a) for a in args])
        if effects:
            node_args = tuple(self.keep_layout(a) for a in node_args)
        node_kwargs = {name: self.nodes_of(value) for name, value in kwargs.items()}
        effects = effects or ("host" if not func._schema.returns else "")
        node = self.emit(func, *node_args, val=result, effects=effects, **node_kwargs)
        if isinstance(result, Tensor):
            self.check_fresh(func, result)
            self.bind(result, node)
        elif isinstance(result, list | tuple):
            self.bind_many(func, node, result)
        elif result is not None:
            raise Unsupported("data-dependent-scalar", f"{func} returns a Python value")
        return result

    def bind_many(self, func: Any, node: fx.Node, results: Any) -> None:
        """Bind each tensor of an op with several results to a getitem of its node."""
        for index, item in enumerate(results):
            if not isinstance(item, Tensor):
                continue
            self.check_fresh(func, item)
            self.bind(item, self.emit(operator.getitem, node, index, val=item))

    def check_fresh(self, func: Any, result: Tensor) -> None:
        """Refuse a result in known memory from an op that is not known to make views."""
        if result.layout is not torch.strided:
            raise Unsupported("layout", f"{func} makes a tensor of layout {result.layout}")
        if storage_key(result) in self.owners:
            raise Unsupported("unknown-alias", f"{func} returns several views of one tensor")

    def alias_view(self, func: Any, args: Any, kwargs: Any, result: Tensor) -> View | None:
        """A view for a result that shares memory with an operand, or None for fresh memory."""
        known = self.views.get(id(result))
        if known is not None:
            return known
        if result.layout is not torch.strided:
            return None
        owner = self.owners.get(storage_key(result))
        if owner is None:
            return None
        # Inputs that share memory have cells of their own: the operand's is the right one.
        parent = self.views.get(id(args[0])) if args and isinstance(args[0], Tensor) else None
        if parent is None or storage_key(args[0]) != storage_key(result):
            parent, func = owner, None
        self.views[id(result)] = view = make_view(parent, func, args, kwargs, result)
        return view

    def keep_layout(self, node: Any) -> Any:
        """Random numbers are drawn in memory order: pin eager's strides on an operand not contiguous."""
        if not isinstance(node, fx.Node) or node.meta["val"].is_contiguous():
            return node
        return self.emit(
            aten.copy.default, empty_like(node.meta["val"], self.emit), node, val=node.meta["val"]
        )

    def run_write(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run an op that writes arguments as its functional form and a new value for each of them."""
        targets = written_arguments(func, args, kwargs)
        has_out = any(argument.is_out for argument in func._schema.arguments)
        if has_out:
            check_out_arguments(func, args, kwargs, targets)
            # A fake of an `out=` op may change the strides of its target.
            result = targets[0] if len(func._schema.returns) == 1 else tuple(targets)
        else:
            # First as it stands, for eager's own errors.
            result = run_fake(self.mode, func, types, args, kwargs)
        if func in DEAD_SELF:
            self.write_random(func, args, kwargs)
            return result
        new_values = self.functional_values(func, args, kwargs)
        if len(new_values) != len(targets):
            raise Unsupported("in-place-op", f"{func} has no functional form")
        for target, new in zip(targets, new_values, strict=True):
            if has_out and (target.shape != new.shape or new.dtype != target.dtype):
                raise Unsupported("out-argument", f"the `out=` tensor of {func} has another shape or dtype")
            self.store(target, new)
        return result

    def functional_values(self, func: Any, args: Any, kwargs: Any) -> list[Tensor]:
        """The new values of the written arguments, in schema order."""
        with self:
            if func is aten.copy_.default:
                return [args[1]]
            if func in (aten.zero_.default, aten.fill_.Scalar, aten.fill_.Tensor):
                return [fill_value(*args[:2])]
            functional = FUNCTIONAL.get(func) or functional_overload(func)
            if functional is None:
                raise Unsupported("in-place-op", f"{func} has no functional form")
            outs = {argument.name for argument in func._schema.arguments if argument.is_out}
            args = args[: len(func._schema.arguments) - sum(a.kwarg_only for a in func._schema.arguments)]
            value = functional(*args, **{k: v for k, v in kwargs.items() if k not in outs})
        return [each for each in pytree.tree_leaves(value) if isinstance(each, Tensor)]

    def store(self, target: Tensor, new: Tensor) -> None:
        """Give `target` the value of `new`, in target's own dtype and shape."""
        if new.shape != target.shape or new.dtype != target.dtype:
            with self:
                if new.dtype != target.dtype:
                    new = aten._to_copy.default(new, dtype=target.dtype)
                if new.shape != target.shape:
                    new = aten.expand.default(new, list(target.shape))
        write(self.view_of(target), self.node_of(new), self.emit)

    def write_random(self, func: Any, args: Any, kwargs: Any) -> None:
        """An in-place random op: its functional form on fresh memory with the target's layout."""
        target = args[0]
        functional = FUNCTIONAL.get(func) or functional_overload(func)
        if functional is None or target.numel() == 0:
            raise Unsupported("in-place-op", f"{func} has no functional form here")
        if functional is aten.bernoulli.p and not target.is_contiguous():
            raise Unsupported("strided-random", f"the functional form of {func} draws in another order")
        values = argument_values(func, args, kwargs)
        rest = [
            self.keep_layout(self.nodes_of(values[argument.name]))
            for argument in functional._schema.arguments[1:]
            if not argument.kwarg_only
        ]
        self.nodes_of(values.get("generator"))
        node = self.emit(functional, empty_like(target, self.emit), *rest, val=target, effects="random")
        write(self.view_of(target), node, self.emit)

    def run_view_write(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """An op such as transpose_: the tensor object becomes another view of its memory."""
        target = args[0]
        old = self.view_of(target)
        if old.cell.input_index is not None and old.parent is None:
            raise Unsupported("input-metadata-write", f"{func} changes the shape of an input in place")
        snapshot = run_fake(self.mode, aten.alias.default, (), (target,), {})
        run_fake(self.mode, func, types, args, kwargs)
        old.value = snapshot
        self.views[id(snapshot)] = old
        self.holders[id(snapshot)] = self.holders.pop(id(target), [])
        for node in self.holders[id(snapshot)]:
            node.meta["val"] = snapshot
        functional = functional_overload(func)
        self.views[id(target)] = make_view(old, functional, args, kwargs, target)
        return target


def run_foreign(
    recorder: Recorder, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a custom operator by its flat form, then give what it writes to the new values."""
    targets = written_arguments(func, args, kwargs)
    check_custom_targets(func, targets, (args, kwargs))
    results = run_fake(recorder.mode, func, types, args, kwargs)
    arguments = argument_values(func, args, kwargs)
    taken = (list_strides(list(arguments.values())), *arguments.values())
    effects = "" if targets or func._schema.returns else "host"
    made = recorder.run_plain(flat_form(func), types, taken, {}, effects)
    fresh = len(made) - len(targets)
    for target, new in zip(targets, made[fresh:], strict=True):
        recorder.store(target, new)
    return place_results(func, results, made[:fresh], arguments)


def empty_like(value: Tensor, emit: Emit) -> fx.Node:
    """A node of memory with `value`'s sizes, strides and dtype, its content never read."""
    if memory_order(value) is None:
        raise Unsupported("strided-random", "random numbers are drawn into a tensor with holes in memory")
    size, stride = list(value.shape), list(value.stride())
    return emit(aten.empty_strided.default, size, stride, dtype=value.dtype, device=value.device)


OTHER_VIEWS = frozenset({aten.unfold.default, aten.real.default, aten.imag.default})
"""View ops that are replayed by name but written through their strides."""


def make_view(parent: View, func: Any, args: Any, kwargs: Any, value: Tensor) -> View:
    """The view `func(parent, *args)`; one that cannot be replayed by name is known by its strides."""
    if kwargs or (func not in INVERSES and func not in RESHAPES and func not in OTHER_VIEWS):
        root = parent.root.value
        if (value.is_conj(), value.is_neg()) != (root.is_conj(), root.is_neg()):
            raise Unsupported("lazy-conjugate", "a view of a lazily conjugated tensor")
        return View(parent.cell, value, parent.node, parent.root, aten.as_strided.default, (), -1)
    return View(parent.cell, value, parent.node, parent, func, tuple(args[1:]), -1)


def fill_value(target: Tensor, value: Any = 0) -> Tensor:
    """The value of `target` after fill_ or zero_."""
    if isinstance(value, Tensor):
        return value
    full: Tensor = aten.full.default(list(target.shape), value, dtype=target.dtype, device=target.device)
    return full


def written_arguments(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
    """The tensors that `func` writes, in schema order."""
    targets: list[Tensor] = []
    for index, argument in enumerate(func._schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = args[index] if index < len(args) else kwargs.get(argument.name)
        if isinstance(value, Tensor):
            targets.append(value)
        elif isinstance(value, list | tuple):
            targets.extend(each for each in value if isinstance(each, Tensor))
    return targets


def check_custom_targets(func: Any, targets: list[Tensor], arguments: Any) -> None:
    """Refuse what is written where the operator may see it twice: copies would not show that."""
    operands = [each for each in pytree.tree_leaves(arguments) if isinstance(each, Tensor)]
    for target in targets:
        sharing = sum(storage_key(each) == storage_key(target) for each in operands)
        if sharing > 1 or may_overlap(target):
            raise Unsupported("in-place-op", f"{func} writes to memory that it gets twice")


def check_out_arguments(func: Any, args: Any, kwargs: dict[str, Any], targets: list[Tensor]) -> None:
    """Refuse `out=` tensors that eager may refuse, for where they are in memory."""
    is_elementwise = torch.Tag.pointwise in func.tags
    operands = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
    for target in targets:
        places = [each for each in operands if storage_key(each) == storage_key(target)]
        is_own = all(each is target for each in places) and (is_elementwise or len(places) == 1)
        if may_overlap(target) or not is_own:
            raise Unsupported(
                "out-argument", f"the `out=` tensor of {func} shares memory with itself or others"
            )


def classify(func: Any) -> str:
    """How the recorder treats an op."""
    if not isinstance(func, torch._ops.OpOverload):
        raise Unsupported("higher-order-op", f"the graph calls {func}")
    if func in QUERIES:
        return "query"
    if func in RULES:
        return "rule"
    if func is LIFT:
        return "lift"
    if func in NO_OP_IN_PLACE:
        return "same"
    if func not in KEPT and is_composite(func):
        return "composite"
    if has_flat_form(func):
        return "foreign"
    if torch.Tag.inplace_view in func.tags:
        return "view write"
    return "write" if func._schema.is_mutable else "plain"
