"""`lamina.compile` as its users see it: results, modules that stay modules, recompiles, errors, threads."""

from __future__ import annotations

import copy
import io
import pickle
import threading
import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import lamina
from lamina.driver import lowering
from lamina.errors import UserError


@pytest.fixture(autouse=True)
def fresh_counters() -> None:
    lamina.reset()


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.drop(torch.relu(self.norm(self.first(x)))))


def make_net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


def test_function() -> None:
    def gate(x: Tensor, y: Tensor) -> Tensor:
        return torch.sigmoid(x) * y + 1

    fast = lamina.compile(gate, fullgraph=True)
    x, y = torch.randn(7, 5), torch.randn(5)
    torch.testing.assert_close(fast(x, y), gate(x, y))
    assert lamina.counters()["graphs"] == 1
    assert fast.__name__ == "gate"


def test_decorators() -> None:
    @lamina.compile
    def one(x: Tensor) -> Tensor:
        return x + 1

    @lamina.compile(fullgraph=True)
    def two(x: Tensor) -> Tensor:
        return x + 2

    x = torch.randn(3)
    assert torch.equal(one(x), x + 1)
    assert torch.equal(two(x), x + 2)


@torch.no_grad()
def test_module_is_still_the_module() -> None:
    net = make_net()
    fast = lamina.compile(net, fullgraph=True)
    x = torch.randn(3, 8)
    torch.testing.assert_close(fast(x), net(x))
    assert isinstance(fast, Net)
    assert list(fast.state_dict()) == list(net.state_dict())
    assert [id(p) for p in fast.parameters()] == [id(p) for p in net.parameters()]
    fast.train()
    assert net.training
    fast.eval()
    fast.note = 3
    assert net.note == 3  # type: ignore[attr-defined]


@torch.no_grad()
def test_changed_weights_are_seen() -> None:
    net = make_net()
    fast = lamina.compile(net, fullgraph=True)
    x = torch.randn(3, 8)
    fast(x)
    other = Net().eval()
    net.load_state_dict(other.state_dict())
    torch.testing.assert_close(fast(x), other(x))
    net.first.weight.mul_(2)
    torch.testing.assert_close(fast(x), net(x))
    net.second = nn.Linear(16, 4)
    torch.testing.assert_close(fast(x), net(x))
    net.norm.bias = nn.Parameter(torch.randn(16))
    torch.testing.assert_close(fast(x), net(x))
    net.first.weight.data = torch.randn(16, 8)
    torch.testing.assert_close(fast(x), net(x))
    net.first.weight.data.mul_(3)  # raises no version counter
    torch.testing.assert_close(fast(x), net(x))
    net.first.weight.detach().numpy()[:] = 0.25
    torch.testing.assert_close(fast(x), net(x))


@torch.no_grad()
def test_train_and_eval() -> None:
    net = make_net()
    fast = lamina.compile(net)
    x = torch.randn(3, 8)
    expected = net(x)
    torch.testing.assert_close(fast(x), expected)
    fast.train()
    torch.manual_seed(5)
    noisy = net(x)
    torch.manual_seed(5)
    torch.testing.assert_close(fast(x), noisy)
    fast.eval()
    torch.testing.assert_close(fast(x), expected)


@torch.no_grad()
def test_sizes_may_change() -> None:
    net = make_net()
    fast = lamina.compile(net, fullgraph=True)
    for rows in (3, 1, 0, 17, 3):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(fast(x), net(x))


def test_a_result_without_elements_that_is_computed_in_steps() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return x[:0, 0] + 1, (x[:0] * 2).relu().t()

    x = torch.randn(4, 6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = lamina.compile(program, fullgraph=True)(x)
    assert [each.shape for each in got] == [(0,), (6, 0)]


def test_gradients_are_eagers() -> None:
    net = make_net()
    fast = lamina.compile(net)
    x = torch.randn(3, 8)
    fast(x).sum().backward()
    got = [parameter.grad.clone() for parameter in net.parameters() if parameter.grad is not None]
    net.zero_grad()
    net(x).sum().backward()
    expected = [parameter.grad for parameter in net.parameters()]
    assert len(got) == len(expected) == 6
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other)


@torch.no_grad()
def test_hooks_run() -> None:
    net = make_net()
    fast = lamina.compile(net)
    x = torch.randn(3, 8)
    plain = fast(x)
    handle = fast.register_forward_hook(lambda module, args, output: output * 2)
    torch.testing.assert_close(fast(x), plain * 2)
    handle.remove()
    torch.testing.assert_close(fast(x), plain)
    net.norm.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    torch.testing.assert_close(fast(x), net(x))


@torch.no_grad()
def test_copies_are_apart() -> None:
    fast = lamina.compile(make_net(), fullgraph=True)
    x = torch.randn(3, 8)
    before = fast(x)
    twin = copy.deepcopy(fast)
    twin.first.weight.zero_()
    torch.testing.assert_close(fast(x), before)
    assert not torch.allclose(twin(x), before)


@torch.no_grad()
def test_pickle() -> None:
    fast = lamina.compile(make_net(), fullgraph=True)
    x = torch.randn(3, 8)
    again = pickle.loads(pickle.dumps(fast))
    torch.testing.assert_close(again(x), fast(x))
    stream = io.BytesIO()
    torch.save(fast.state_dict(), stream)
    assert stream.tell() > 0


def test_mutation_and_aliases() -> None:
    def program(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x.add_(y)
        row = x[1]
        row.mul_(2)
        return x, row, x + y

    x, y = torch.randn(3, 4), torch.randn(4)
    other = x.clone()
    expected = program(other, y)
    result = lamina.compile(program, fullgraph=True)(x, y)
    torch.testing.assert_close(x, other)
    for got, want in zip(result, expected, strict=True):
        torch.testing.assert_close(got, want)
    assert result[0] is x
    assert result[1].data_ptr() == x[1].data_ptr()


def test_errors_are_eagers() -> None:
    def product(x: Tensor, y: Tensor) -> Tensor:
        return torch.relu(x) @ y

    fast = lamina.compile(product, fullgraph=True)
    with pytest.raises(RuntimeError) as ours:
        fast(torch.randn(2, 3), torch.randn(4, 5))
    with pytest.raises(RuntimeError) as eagers:
        product(torch.randn(2, 3), torch.randn(4, 5))
    assert str(ours.value) == str(eagers.value)


def test_an_index_out_of_range_is_eagers_error() -> None:
    def look(table: Tensor, at: Tensor) -> Tensor:
        return table[at] * 2

    fast = lamina.compile(look, fullgraph=True)
    table = torch.randn(5, 3)
    torch.testing.assert_close(fast(table, torch.tensor([4, -5])), look(table, torch.tensor([4, -5])))
    for wrong in ([5, 0], [0, -6]):
        with pytest.raises(IndexError, match="out of"):
            fast(table, torch.tensor(wrong))


def test_user_errors() -> None:
    with pytest.raises(UserError, match="unknown option"):
        lamina.compile(torch.relu, options={"fuson": True})
    with pytest.raises(UserError, match="takes a function, a module or an exported program"):
        lamina.compile(3)  # type: ignore[call-overload]
    with pytest.raises(UserError, match="dynamic"):
        lamina.compile(torch.relu, dynamic="yes")


def test_a_failing_compile_gives_eagers_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(lowering, "lower_graph", fail)
    fast = lamina.compile(lambda x: x + 1, options={"replay_dir": str(tmp_path), "cache": False})
    x = torch.randn(3)
    with pytest.warns(UserWarning, match="ran eagerly"):
        assert torch.equal(fast(x), x + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(fast(x), x + 1)
    (folder,) = tmp_path.iterdir()
    assert {"error.txt", "graph.py", "options.txt"} <= {path.name for path in folder.iterdir()}
    assert "planted" in (folder / "error.txt").read_text()


@torch.no_grad()
def test_threads() -> None:
    net = make_net()
    fast = lamina.compile(net)
    inputs = [torch.randn(3, 8) for _ in range(4)]
    expected = [net(x) for x in inputs]
    wrong: list[int] = []

    def work(position: int) -> None:
        for _ in range(50):
            if not torch.allclose(fast(inputs[position]), expected[position], atol=1e-6):
                wrong.append(position)

    threads = [threading.Thread(target=work, args=(position,)) for position in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@torch.no_grad()
def test_equal_layers_compile_once() -> None:
    layers = [nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(12)]
    options = {"cache": False}
    lamina.compile(nn.Sequential(*layers).eval(), options=options, fullgraph=True)(torch.randn(5, 8))
    twelve = lamina.counters()["kernel_compilations"]
    lamina.reset()
    lamina.compile(nn.Sequential(*layers[:2]).eval(), options=options, fullgraph=True)(torch.randn(5, 8))
    assert lamina.counters()["kernel_compilations"] <= twelve <= 2 * max(1, lamina.counters()["kernels"])


@torch.no_grad()
def test_dynamo_backend() -> None:
    net = make_net()
    x = torch.randn(3, 8)
    torch.testing.assert_close(torch.compile(net, backend="lamina")(x), net(x))


@torch.no_grad()
def test_explanation() -> None:
    net = make_net()
    explanation = lamina.explain(lamina.compile(net, options={"cache": False}), torch.randn(3, 8))
    (graph,) = explanation.graphs
    assert graph.kernels
    assert graph.traffic.least <= graph.traffic.lamina <= graph.traffic.eager
    assert set(graph.seconds) >= {"capture", "trace", "fuse", "codegen"}
    assert "kernel" in str(explanation)


@torch.no_grad()
@pytest.mark.parametrize(
    "options",
    [
        {"fusion": False},
        {"fold_weights": False},
        {"numerics": "eager"},
        {"vector_isa": "scalar"},
        {"threads": 1},
        {"disabled_passes": ["canonicalize", "cse"]},
        {"verify": True},
    ],
    ids=str,
)
def test_options_keep_the_meaning(options: dict[str, object]) -> None:
    net = make_net()
    x = torch.randn(3, 8)
    fast = lamina.compile(net, fullgraph=True, options={**options, "cache": False})
    torch.testing.assert_close(fast(x), net(x))


@torch.no_grad()
def test_fusion_can_be_left_out() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.sigmoid(x) * 2 + x

    x = torch.randn(7)
    torch.testing.assert_close(lamina.compile(program, options={"fusion": False})(x), program(x))
    assert lamina.counters()["kernels"] > 1


@torch.no_grad()
def test_views_by_the_library_keep_their_memory() -> None:
    """A complex or bit view of a kernel's result is alive after the kernel's result has no other user."""

    def rotate(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        pairs = torch.view_as_complex((x * 2).reshape(-1, 4, 2))
        bits = (x + 3).view(torch.int32)
        other = torch.sin(x + 1) @ torch.cos(x).t()
        more = torch.tanh(other) @ torch.exp(other)
        return torch.view_as_real(pairs * pairs), more, bits + 1

    fast = lamina.compile(rotate, fullgraph=True)
    for _ in range(3):
        x = torch.randn(16, 8)
        for got, want in zip(fast(x), rotate(x), strict=True):
            torch.testing.assert_close(got, want)


def test_a_program_that_fails_when_it_is_told_that_it_compiles_is_captured_as_eager_runs_it() -> None:
    def program(x: Tensor) -> Tensor:
        scale = None if torch.compiler.is_compiling() else 2.0
        return x * scale  # type: ignore[operator]

    compiled = lamina.compile(program, fullgraph=True)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
    assert lamina.counters()["graphs"] == 1
