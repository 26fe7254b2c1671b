"""Traced graphs against eager: values, mutations, aliasing, strides, random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import fx

from lamina.autograd.replay import replay
from lamina.autograd.trace import InputOutput, SameOutput, Traced, needs_gradient, trace_inference
from lamina.errors import Unsupported

Tensor = torch.Tensor


def torch_level_graph(function: Callable[..., Any], inputs: list[Tensor]) -> fx.GraphModule:
    """A graph of one node for each input plus one that calls `function`: the tracer sees through it."""
    graph = fx.Graph()
    nodes = tuple(graph.placeholder(f"x{index}") for index in range(len(inputs)))
    graph.output(graph.call_function(function, nodes))
    return fx.GraphModule(torch.nn.Module(), graph)


def clone_inputs(inputs: list[Tensor]) -> list[Tensor]:
    """Copies with the same strides and offset."""
    copies = []
    for tensor in inputs:
        size = tensor.untyped_storage().nbytes() // tensor.element_size()
        storage = tensor.as_strided((size,), (1,), 0).clone()
        copies.append(storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))
    return copies


def alias_pattern(tensors: list[Any]) -> list[Any]:
    """For each pair: same object, same memory; for each tensor: geometry relative to its memory."""
    tensors = [t for t in tensors if isinstance(t, Tensor)]
    facts: list[Any] = [(tuple(t.shape), t.stride(), t.dtype) for t in tensors]
    for i, a in enumerate(tensors):
        for b in tensors[:i]:
            same = a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
            distance = a.data_ptr() - b.data_ptr() if same and a.numel() and b.numel() else 0
            facts.append((a is b, same, distance))
    return facts


def flat(value: Any) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(value))


def check(function: Callable[..., Any], *inputs: Tensor, exact: bool = True) -> Traced:
    """Trace, replay and compare everything observable with eager."""
    ours, theirs = clone_inputs(list(inputs)), clone_inputs(list(inputs))
    traced = trace_inference(torch_level_graph(function, list(inputs)), list(inputs))
    assert_functional(traced)
    torch.manual_seed(3)
    with torch.no_grad():
        expected = function(*theirs)
    state = torch.get_rng_state()
    torch.manual_seed(3)
    got = replay(traced, ours)
    assert torch.equal(state, torch.get_rng_state())
    compare = {"rtol": 0.0, "atol": 0.0} if exact else {}
    for a, b in zip(flat(got) + ours, flat(expected) + theirs, strict=True):
        torch.testing.assert_close(a, b, equal_nan=True, **compare)
    assert alias_pattern(flat(got) + ours) == alias_pattern(flat(expected) + theirs)
    return traced


def assert_functional(traced: Traced) -> None:
    for node in traced.graph_module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable, node


def x34() -> Tensor:
    return torch.arange(12.0).reshape(3, 4)


def write_row(x: Tensor) -> Any:
    x[0].add_(1)
    return x * 2


def write_view_of_view(x: Tensor) -> Any:
    y = x.t()[1:3]
    z = y[:, ::2]
    z.mul_(3)
    return y, z, x


def write_reshaped(x: Tensor) -> Any:
    y = x.view(-1)
    y[3:9:2] = 7.0
    return y, x.view(2, 6)


def swap(x: Tensor) -> Any:
    old = x[0].clone()
    x[0] = x[1]
    x[1] = old


def transpose_in_place(x: Tensor) -> Any:
    y = x + 1
    y.t_()
    y[0] = 5
    y.unsqueeze_(0)
    return y


def write_diagonal(x: Tensor) -> Any:
    x.diagonal().zero_()
    return x.diagonal(1)


def write_strided(x: Tensor) -> Any:
    y = x * 1
    y.as_strided((2, 2), (5, 1), 1).fill_(9)
    return y, y.as_strided((3,), (2,), 2) * 2


def write_unfold(x: Tensor) -> Any:
    y = x.clone()
    y.unfold(1, 2, 2).mul_(2)
    return y.unfold(1, 2, 1) + 1


def dropout_is_identity(x: Tensor) -> Any:
    y = F.dropout(x, 0.5, False)
    y += y
    return y


def masked(x: Tensor) -> Any:
    x[x > 5] = -1
    x.masked_fill_(x == 0, 4)
    return x.sum()


def index_write(x: Tensor) -> Any:
    x[torch.tensor([0, 2])] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    x[:, torch.tensor([1, 1])] += 1
    return x


def out_argument(x: Tensor) -> Any:
    y = torch.empty(3, 4)
    torch.add(x, 1, out=y)
    torch.mul(x, 2, out=x)
    return y


def chunk_write(x: Tensor) -> Any:
    a, b = x.chunk(2, dim=1)
    a += 1
    b.copy_(a)
    c, *_ = x.unbind(1)
    c.neg_()
    p, q = x.split([1, 2], 0)
    q.sub_(p)
    return a, b


def foreach(x: Tensor) -> Any:
    a, b = x[0], x[1]
    torch._foreach_mul_([a, b], 2.0)
    return torch._foreach_add([a, b], 1.0)


def return_many(x: Tensor) -> Any:
    y = x + 1
    return {"a": y, "b": y.t(), "c": [y, x, x[1:], None, 3], "d": y[:, 1:3].expand(2, 3, 2)}


def set_item_dtype(x: Tensor) -> Any:
    y = x.to(torch.int64)
    y[1] = 3.7
    y.add_(x.to(torch.int32))
    return y


def view_dtype(x: Tensor) -> Any:
    y = x.view(torch.int32)
    y.bitwise_and_(0x7F800000)
    return x


def in_place_chain(x: Tensor) -> Any:
    x.exp_().clamp_(max=100).sqrt_().addcmul_(x, x, value=0.5)
    F.silu(x, inplace=True)
    F.relu_(x)
    return x


PROGRAMS = [
    write_row,
    write_view_of_view,
    write_reshaped,
    swap,
    transpose_in_place,
    write_diagonal,
    write_strided,
    write_unfold,
    dropout_is_identity,
    masked,
    index_write,
    out_argument,
    chunk_write,
    foreach,
    return_many,
    set_item_dtype,
    view_dtype,
    in_place_chain,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
def test_program(program: Callable[..., Any], layout: str) -> None:
    x = x34()
    if layout == "transposed":
        x = x.t().contiguous().t()
    if layout == "sliced":
        x = torch.arange(30.0).reshape(5, 6)[1:4, 1:5]
    try:
        with torch.no_grad():
            program(clone_inputs([x])[0])
    except RuntimeError:
        pytest.skip("eager refuses this layout")
    check(program, x)


def random_program(x: Tensor) -> Any:
    a = torch.rand(3)
    y = F.dropout(x, 0.3, True)
    b = torch.empty(4, 3).t().normal_()
    x.uniform_(-1, 1)
    torch.randn(7)  # its result is not used, its draw must stay
    c = torch.rand_like(x) + torch.bernoulli(x.abs().t())[0, 0]
    return a, y, b, c, torch.randint(0, 9, (4,)), torch.randperm(5)


@pytest.mark.parametrize("is_transposed", [False, True])
def test_random_numbers_are_eagers(is_transposed: bool) -> None:
    x = torch.rand(8, 3).t() if is_transposed else torch.rand(3, 8)
    traced = check(random_program, x)
    effects = [n.meta.get("effects") for n in traced.graph_module.graph.nodes]
    assert effects.count("random") == 9


def test_output_that_is_an_input_is_the_same_object() -> None:
    traced = check(lambda x, y: (x, y.add_(x), x), x34(), x34())
    assert traced.outputs == [InputOutput(0), InputOutput(1), SameOutput(0)]
    assert [target for target, _ in traced.mutations] == [1]


def test_two_inputs_swapped() -> None:
    def program(x: Tensor, y: Tensor) -> None:
        old = x.clone()
        x.copy_(y)
        y.copy_(old)

    check(program, x34(), x34() * 2)


def test_batch_norm_training_writes_running_statistics() -> None:
    def program(x: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.batch_norm(x, mean, var, training=True)

    traced = check(program, torch.randn(4, 3, 5), torch.zeros(3), torch.ones(3))
    assert [target for target, _ in traced.mutations] == [1, 2]


def test_library_ops_stay_whole() -> None:
    def program(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = F.layer_norm(F.linear(x, w, b), (8,))
        return F.scaled_dot_product_attention(y, y, y).softmax(-1)

    inputs = [torch.randn(2, 5, 8), torch.randn(8, 8), torch.randn(8)]
    traced = check(program, *inputs, exact=False)
    names = [str(n.target) for n in traced.graph_module.graph.nodes if n.op == "call_function"]
    assert names == [
        "aten.linear.default",
        "aten.layer_norm.default",
        "aten.scaled_dot_product_attention.default",
        "aten.softmax.int",
    ]


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layers_are_taken_apart(norm_first: bool) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, 0.0, "gelu", batch_first=True, norm_first=norm_first)
    layer.eval().requires_grad_(False)

    def program(x: Tensor, *parameters: Tensor) -> Tensor:
        named = dict(zip(dict(layer.named_parameters()), parameters, strict=True))
        return torch.func.functional_call(layer, named, (x,))  # type: ignore[no-any-return]

    traced = check(program, torch.randn(2, 5, 16), *layer.parameters(), exact=False)
    names = [str(node.target) for node in traced.graph_module.graph.nodes]
    assert names.count("aten.linear.default") == 4
    assert "aten.scaled_dot_product_attention.default" in names


def test_dead_code_goes_and_locations_stay() -> None:
    def program(x: Tensor) -> Tensor:
        _ = x.exp() * 3
        return x.sin()

    graph_module = torch_level_graph(program, [x34()])
    call = next(n for n in graph_module.graph.nodes if n.op == "call_function")
    call.meta["location"] = ("model.py", 12)
    nodes = list(trace_inference(graph_module, [x34()]).graph_module.graph.nodes)
    assert [n.op for n in nodes] == ["placeholder", "call_function", "output"]
    assert nodes[1].meta["location"] == ("model.py", 12)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        (lambda x: x.sum().item(), "data-dependent-scalar"),
        (lambda x: x.nonzero(), "data-dependent-shape"),
        (lambda x: x[x > 2], "data-dependent-shape"),
        (lambda x: x.resize_(2), "storage-change"),
        (lambda x: x.t_(), "input-metadata-write"),
        (lambda x: x.to(torch.complex64).conj(), "output-kind"),
        (lambda x: x.to_sparse(), "layout"),
    ],
)
def test_refusals_name_their_reason(program: Callable[..., Any], code: str) -> None:
    with pytest.raises(Unsupported) as caught:
        trace_inference(torch_level_graph(program, [x34()]), [x34()])
    assert caught.value.code == code


def test_writing_one_of_two_overlapping_inputs_is_refused() -> None:
    x = x34()
    with pytest.raises(Unsupported, match="shares memory"):
        trace_inference(torch_level_graph(lambda a, b: a.add_(b[0]), [x, x[1:]]), [x, x[1:]])
    check(lambda a, b: a[1:] + b, x, x[1:])


def test_eagers_own_errors_pass_through() -> None:
    with pytest.raises(RuntimeError, match="broadcast"):
        trace_inference(torch_level_graph(lambda a, b: a + b, [x34(), x34()]), [x34(), torch.ones(5)])


def test_needs_gradient() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    assert needs_gradient([parameter]) and not needs_gradient([torch.ones(2)])
    with torch.no_grad():
        assert not needs_gradient([parameter])
