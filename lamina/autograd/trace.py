"""Trace a torch-level graph to a functional graph of ATen ops.

    y = x.view(6); y.add_(1); return x, y + 0    (torch level: memory, views, writes)
 => %1 = reshape(x); %2 = add(%1, 1); %3 = reshape(%2); %4 = add(%2, 0); results (%3, %4)
    mutations x <- %3, outputs (input 0, result %4)

The graph runs once on fake tensors below autograd; a dispatch mode sees each ATen op and records it.
Cost: one fake-tensor call for each recorded op, linear in the size of the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from lamina.autograd.doubles import find_doubles, put_back, replace_doubles
from lamina.autograd.fake import below_autograd, fake_mode_of, to_fakes
from lamina.autograd.outputs import (
    ConstantOutput,
    FreshOutput,
    InputOutput,
    Output,
    SameOutput,
    ViewOutput,
)
from lamina.autograd.recorder import Recorder
from lamina.autograd.symbols import STATIC, OpenSizes
from lamina.autograd.value_errors import may_raise
from lamina.eager.logs import quiet_fakes
from lamina.eager.memory import storage_key
from lamina.errors import Unsupported

Tensor = torch.Tensor


@dataclass(frozen=True, slots=True)
class Result:
    """One result of the graph: the node that holds it, and the layout that eager's tensor has."""

    node: fx.Node
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@dataclass(slots=True)
class Traced:
    """A functional graph and what the call does around it.

    graph_module: placeholders as the inputs, then ATen ops (and `getitem`, constants by get_attr), then one
    output node with the tuple of results. No op writes to memory. node.meta: "val" fake result(s),
    "location" (file, line) or None, "effects" "random"/"host" when the op must be kept, in order.
    results: every one is to be a fresh buffer, apart from inputs and other results, with the strides given.
    mutations: (input index, result index): after the call `input.copy_(result)`.
    outputs: one entry for each leaf of the user's output structure `out_spec`.
    sizes: reads the symbolic sizes of fakes and of arguments; those of results and outputs are read.
    """

    graph_module: fx.GraphModule
    inputs: list[Tensor]
    results: list[Result] = field(default_factory=list)
    mutations: list[tuple[int, int]] = field(default_factory=list)
    outputs: list[Output] = field(default_factory=list)
    out_spec: Any = None
    sizes: OpenSizes = STATIC


def needs_gradient(inputs: Sequence[object]) -> bool:
    """Whether a call on `inputs` would build an autograd graph: it is then not for `trace_inference`."""
    return torch.is_grad_enabled() and any(isinstance(i, Tensor) and i.requires_grad for i in inputs)


def trace_inference(graph_module: fx.GraphModule, inputs: Sequence[Any], sizes: OpenSizes = STATIC) -> Traced:
    """Trace `graph_module` on `inputs` (real or fake tensors, numbers; one for each placeholder).

    sizes: the symbols in the sizes of fakes among the inputs, and the floats that vary; each of these is
    among the inputs as an f64 tensor without dimensions, and to the graph it is the symbol.

    Raises Unsupported where the graph's meaning depends on tensor data, and for tensors that are not plain
    strided ones. Errors of the user's own program (shapes, dtypes) pass through as eager raises them.
    """
    for index, value in enumerate(inputs):
        _check_input(index, value, sizes)
    mode = fake_mode_of(inputs)
    fakes = to_fakes(mode, inputs)
    recorder = Recorder(mode)
    _add_inputs(recorder, inputs, fakes)
    symbols = sizes.symbolic_numbers()
    given = [symbols.get(index, fake) for index, fake in enumerate(fakes)] if symbols else fakes
    # Where the program fails, what it switched is as it was.
    kept = torch.set_grad_enabled(torch.is_grad_enabled())
    with kept, quiet_fakes(), below_autograd(), sizes.dispatching(), recorder:
        value = _run(graph_module, recorder, given, sizes)
    return _finish(recorder, fakes, value, sizes)


def _check_input(index: int, value: object, sizes: OpenSizes) -> None:
    if not isinstance(value, Tensor):
        return
    problem = ""
    if value.layout is not torch.strided:
        problem = f"has layout {value.layout}"
    elif value.is_quantized:
        problem = "is quantized"
    elif value.is_conj() or value.is_neg():
        problem = "is lazily conjugated or negated"
    elif sizes is STATIC and any(not isinstance(size, int) for size in value.shape):
        problem = "has symbolic sizes"
    if problem:
        raise Unsupported("input-kind", f"input {index} {problem}", hint="pass a plain strided tensor")


def _add_inputs(recorder: Recorder, inputs: Sequence[Any], fakes: list[Any]) -> None:
    owners: dict[int, int] = {}
    for index, (value, fake) in enumerate(zip(inputs, fakes, strict=True)):
        view = recorder.add_input(index, fake)
        if view is None:
            continue
        key = storage_key(value)
        other = owners.setdefault(key, index)
        if other == index:
            continue
        for member in (view, recorder.views[id(fakes[other])]):
            member.cell.refusal = "the program writes to an input that shares memory with another input"


def _run(graph_module: fx.GraphModule, recorder: Recorder, fakes: list[Any], sizes: OpenSizes) -> Any:
    """Call the graph's nodes in order; returns the value of its output node."""
    values: dict[fx.Node, Any] = {}
    remaining = iter(fakes)
    for node in graph_module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
            continue
        recorder.location = location_of(node)
        args = fx.map_arg(node.args, values.__getitem__)
        if node.op == "output":
            return args[0]
        kwargs = fx.map_arg(node.kwargs, values.__getitem__)
        try:
            values[node] = _call_open(graph_module, node, recorder, args, kwargs, sizes)
            sizes.check(node.target)
        except Unsupported as error:
            error.location = error.location or recorder.location
            raise
    raise Unsupported("no-output", "the graph has no output node")


def _call_open(
    graph_module: fx.GraphModule, node: fx.Node, recorder: Recorder, args: Any, kwargs: Any, sizes: OpenSizes
) -> Any:
    """A call that may take floats that vary for C doubles."""
    name = str(getattr(node.target, "__name__", node.target))
    doubles = find_doubles(name, args, kwargs, sizes) if sizes.numbers else {}
    if not doubles:
        return _call(graph_module, node, recorder, args, kwargs)
    given, named = replace_doubles(doubles, (args, kwargs))
    last = next(iter(reversed(recorder.graph.nodes)))
    result = _call(graph_module, node, recorder, given, named)
    put_back(recorder.graph, last, name, (*args, *kwargs.values()), doubles)
    return result


def _call(graph_module: fx.GraphModule, node: fx.Node, recorder: Recorder, args: Any, kwargs: Any) -> Any:
    if node.op == "call_function":
        return node.target(*args, **kwargs)  # type: ignore[operator]
    if node.op == "call_method":
        return getattr(args[0], str(node.target))(*args[1:], **kwargs)
    owner: Any = graph_module
    for name in str(node.target).split("."):
        owner = getattr(owner, name)
    if node.op == "get_attr":
        return recorder.add_attribute(owner) if isinstance(owner, Tensor) else owner
    return owner(*args, **kwargs)


def location_of(node: fx.Node) -> tuple[str, int] | None:
    """The user's file and line of a torch-level node: ours, or the last frame of torch's stack trace."""
    location = node.meta.get("location")
    if location is not None:
        return (location[0], location[1])
    trace = node.meta.get("stack_trace")
    if not trace:
        return None
    _, separator, tail = trace.rpartition('File "')
    file, _, rest = tail.partition('", line ')
    number = rest.split(",", 1)[0].strip()
    return (file, int(number)) if separator and number.isdigit() else None


def _finish(recorder: Recorder, fakes: list[Any], value: Any, sizes: OpenSizes) -> Traced:
    leaves, out_spec = pytree.tree_flatten(value)
    traced = Traced(recorder.graph_module, fakes, out_spec=out_spec, sizes=sizes)
    recorder.location = None
    sizes.name_in_order(node.meta.get("val") for node in recorder.graph_module.graph.nodes)
    places: dict[Result, int] = {}

    def result(node: fx.Node, value: Tensor) -> int:
        key = Result(node, sizes.read_all(value.shape), sizes.read_all(value.stride()), value.dtype)
        if key not in places:
            places[key] = len(traced.results)
            traced.results.append(key)
        return places[key]

    for index, cell in enumerate(recorder.input_cells):
        if cell is not None and cell.node is not recorder.placeholders[index]:
            traced.mutations.append((index, result(cell.node, fakes[index])))
    traced.outputs = _describe_outputs(recorder, leaves, result, sizes)
    graph = recorder.graph_module.graph
    graph.output(tuple(result.node for result in traced.results))
    remove_dead_nodes(graph)
    return traced


def _describe_outputs(recorder: Recorder, leaves: list[Any], result: Any, sizes: OpenSizes) -> list[Output]:
    """Say how each output leaf is made from inputs and results, so that eager's aliasing is rebuilt."""
    outputs: list[Output] = []
    seen: dict[int, int] = {}
    users: dict[int, int] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor):
            cell = recorder.view_of(leaf).cell
            users[id(cell)] = users.get(id(cell), 0) + 1
    for index, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            outputs.append(ConstantOutput(sizes.read(leaf)))
        elif seen.setdefault(id(leaf), index) != index:
            outputs.append(SameOutput(seen[id(leaf)]))
        else:
            outputs.append(_describe_tensor(recorder, leaf, users, result, sizes))
    return outputs


def _describe_tensor(
    recorder: Recorder, leaf: Tensor, users: dict[int, int], result: Any, sizes: OpenSizes
) -> Output:
    view = recorder.view_of(leaf)
    if leaf.is_conj() or leaf.is_neg() or leaf.layout is not torch.strided:
        raise Unsupported(
            "output-kind", "an output is not a plain strided tensor", hint="call resolve_conj()"
        )
    index = view.cell.input_index
    root = view.root.value
    if index is not None and leaf is root:
        return InputOutput(index)
    # A tensor that fills its memory alone needs no view: it is a result with strides of its own.
    if index is None and users[id(view.cell)] == 1 and _fills(leaf, root):
        return FreshOutput(result(recorder.node_of(leaf), leaf))
    if index is None and not is_dense(root):
        raise Unsupported("strided-output", "an output's memory has holes or overlaps")
    base = index if index is not None else result(recorder.node_of_cell(view), root)
    ratio, rest = divmod(root.itemsize, leaf.itemsize)
    if rest and index is not None:
        raise Unsupported("dtype-view-output", "an output is a view of an input with a wider dtype")
    start = root.storage_offset() * ratio if index is not None else 0
    offset = sizes.read(leaf.storage_offset() - start)
    size, stride = sizes.read_all(leaf.shape), sizes.read_all(leaf.stride())
    is_cast = leaf.dtype != root.dtype
    is_detached = any(link.op is torch.ops.aten.detach.default for link in view.chain())
    return ViewOutput(base, index is not None, size, stride, offset, leaf.dtype, is_cast, is_detached)


def _fills(leaf: Tensor, root: Tensor) -> bool:
    return leaf.numel() * leaf.itemsize == root.numel() * root.itemsize and is_dense(leaf)


def is_dense(tensor: Tensor) -> bool:
    """Whether the elements fill a piece of memory without holes or overlaps, in any order of dims."""
    expected = 1
    for step, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if step != expected:
            return tensor.numel() == 0
        expected *= size
    return True


def remove_dead_nodes(graph: fx.Graph) -> None:
    """Drop nodes without users; random and host ops stay, in their order, and what may raise."""
    for node in reversed(list(graph.nodes)):
        if node.op in ("placeholder", "output") or node.users or node.meta.get("effects"):
            continue
        if may_raise(node):
            node.meta["effects"] = "host"
            continue
        graph.erase_node(node)
