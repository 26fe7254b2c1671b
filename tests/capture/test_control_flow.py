"""`torch.cond` and `torch.while_loop` on tensors' decisions: one graph, whose branches and bodies are graphs too.

Eager itself calls torch's compiler for these operators, which takes seconds: the programs say the same plainly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import lamina
from lamina.driver import graph
from lamina.errors import Unsupported
from tests.capture.as_it_is import run_as_it_is

Program = Callable[..., Any]


def choose(condition: torch.Tensor, first: Program, second: Program, operands: Any = ()) -> Any:
    return (first if condition else second)(*operands)


def repeat(condition: Program, body: Program, carried: tuple[Any, ...]) -> Any:
    while condition(*carried):
        carried = body(*carried)
    return carried


class Forms:
    """The two operators, as torch's and plainly."""

    cond: Program = torch.cond
    loop: Program = torch._higher_order_ops.while_loop


class PlainForms:
    cond = staticmethod(choose)
    loop = staticmethod(repeat)


def free_tensors(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    scale = y * 2
    return forms.cond(x.sum() > 0, lambda a: (a * scale).cos(), lambda a: a.exp() - y, (x,)) + 1


def containers(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    found = forms.cond(
        x.sum() > y.sum(),
        lambda pair: {"first": pair[0] + 1, "rest": (pair[1] * 2, [pair[0] - 1])},
        lambda pair: {"first": pair[0] - 1, "rest": (pair[1] * 3, [pair[1] + 1])},
        ((x, y),),
    )
    return found["first"] * found["rest"][0], found


def nested(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    def inner(a: torch.Tensor) -> Any:
        b = a + y
        return forms.cond(b.sum() > 1, lambda c: c * y + b, lambda c: c - x, (a,))

    return forms.cond(x.sum() > 0, inner, lambda a: a * y, (x,))


def in_place_on_its_own(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    def first(a: torch.Tensor) -> torch.Tensor:
        made = a.clone()
        made.mul_(y)
        with torch.no_grad():
            made += 1
        return made

    return forms.cond(x.sum() > 0, first, lambda a: a - 1, (x,))


def two_after_another(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    for k in range(2):
        x = forms.cond(x.sum() > k, lambda a: a * 0.5, lambda a: a + y + k, (x,))  # noqa: B023
    return x


def loop_to_a_bound(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    count = torch.zeros((), dtype=torch.int64)
    count, found = forms.loop(
        lambda i, a: (i < 7) & (a.sum().abs() < 50), lambda i, a: (i + 1, a * 1.5 + y), (count, x)
    )
    return count, found - 1


def loop_over_a_view(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    stacked = torch.stack((x, y))
    (found,) = forms.loop(lambda a: a.sum() < 10, lambda a: (a.abs() + 1,), (stacked[1],))
    return found, stacked


def loop_around_a_branch(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    def body(i: torch.Tensor, a: torch.Tensor) -> Any:
        return i + 1, forms.cond(i % 2 == 0, lambda b: b + y, lambda b: b * 2, (a,))

    return forms.loop(lambda i, a: i < 5, body, (torch.zeros(()), x))


def loop_that_counts(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    count, found = forms.loop(
        lambda i, a: 2 * i < x.shape[0] + 3, lambda i, a: (i + 1, a * 0.5 + i * y), (0, x)
    )
    return count, found * (count + 1), x.new_ones(3) * count


def branches_with_numbers(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    found, count, same = forms.cond(
        x.sum() > 0, lambda a: (a.sin() + x.shape[0], 2, 7), lambda a: (a + y, x.shape[0] + 3, 7), (x,)
    )
    return found * count, count, same


def branches_of_other_sizes(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    found, total = forms.cond(
        x.sum() > 0,
        lambda a: (torch.cat((a, y)) + 1, a.sum()),
        lambda a: (torch.cat((a, y, a)), a.mean()),
        (x,),
    )
    return found * total, found.shape[0], found.sum()


def branches_with_the_same(forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    same, other = forms.cond(x.sum() > 0, lambda a: (a, a + y), lambda a: (a, a - y), (x,))
    return same is x, same * 2, other


PROGRAMS = [
    loop_that_counts,
    branches_of_other_sizes,
    branches_with_the_same,
    branches_with_numbers,
    free_tensors,
    containers,
    nested,
    in_place_on_its_own,
    two_after_another,
    loop_to_a_bound,
    loop_over_a_view,
    loop_around_a_branch,
]
NAMES = [each.__name__ for each in PROGRAMS]


def arguments(size: int, dtype: torch.dtype = torch.float64) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    for seed in range(2):
        torch.manual_seed(seed)
        x, y = torch.rand(2, size, dtype=dtype) + 0.5
        yield x, y
        yield -x, y


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
@pytest.mark.parametrize("size", [1, 5])
def test_in_one_graph(program: Program, size: int) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True, dynamic=False)
    for x, y in arguments(size):
        torch.testing.assert_close(compiled(Forms, x, y), program(PlainForms, x, y), check_stride=True)
    assert lamina.counters()["graphs"] == 1
    assert lamina.counters()["kernels"] > 0


@pytest.mark.parametrize(
    "program", [nested, loop_to_a_bound, loop_that_counts], ids=lambda each: each.__name__
)
def test_sizes_that_vary(program: Program) -> None:
    lamina.reset()
    compiled = lamina.compile(program, fullgraph=True)
    for size in (3, 5, 8, 0):
        for x, y in arguments(size):
            torch.testing.assert_close(compiled(Forms, x, y), program(PlainForms, x, y))
    # Size 3, all from 2 up, 0.
    assert lamina.counters()["graphs"] == 3


@pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)
def test_gradients(program: Program) -> None:
    compiled = lamina.compile(program, fullgraph=True, backend=run_as_it_is)
    for x, y in arguments(5):
        found, expected = [
            gradients(each, forms, x, y) for each, forms in ((compiled, Forms), (program, PlainForms))
        ]
        torch.testing.assert_close(found, expected)


def gradients(program: Program, forms: Any, x: torch.Tensor, y: torch.Tensor) -> Any:
    x, y = x.clone().requires_grad_(), y.clone().requires_grad_()
    leaves = torch.utils._pytree.tree_leaves(program(forms, x, y))
    results = [each for each in leaves if isinstance(each, torch.Tensor) and each.requires_grad]
    total = torch.stack([(result * result).sum() for result in results]).sum()
    return torch.autograd.grad(total, (x, y), materialize_grads=True)


def test_an_operand_that_is_not_used_has_a_gradient_of_zeros() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a, b: a * 2, lambda a, b: b * 2, (x, y))

    compiled = lamina.compile(program, fullgraph=True, backend=run_as_it_is)
    x, y = torch.ones(2, 3, requires_grad=True).unbind()
    first, second = torch.autograd.grad(compiled(x, y).sum(), (x, y))
    assert first.tolist() == [2] * 3
    assert second.tolist() == [0] * 3


def test_only_the_branch_that_runs_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def program(x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda a: a.sin() + 1, lambda a: a.cos() * 2, (x,))

    made = []

    def compile_graph(module: torch.fx.GraphModule, *rest: Any) -> Any:
        made.append(module)
        return real(module, *rest)

    real = graph.compile_graph
    monkeypatch.setattr("lamina.driver.parts.compile_graph", compile_graph)
    compiled = lamina.compile(program, fullgraph=True)
    for sign, count in ((1, 2), (1, 2), (-1, 3), (1, 3)):
        compiled(torch.full((4,), sign))
        assert len(made) == count


def append_to_a_list(x: torch.Tensor) -> Any:
    seen: list[int] = []

    def first(a: torch.Tensor) -> torch.Tensor:
        seen.append(1)
        return a + 1

    return torch.cond(x.sum() > 0, first, lambda a: a - 1, (x,)), seen


class Counter(torch.nn.Module):
    count = 0

    def forward(self, x: torch.Tensor) -> Any:
        def first(a: torch.Tensor) -> torch.Tensor:
            self.count += 1
            return a + 1

        return torch.cond(x.sum() > 0, first, lambda a: a - 1, (x,))


def write_to_an_operand(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.add_(1) * 2, lambda a: a - 1, (x,))


def give_an_operand(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a, lambda a: a - 1, (x,))


def give_another_type(x: torch.Tensor) -> Any:
    return torch.cond(x.sum() > 0, lambda a: a.double() + 1, lambda a: a - 1, (x,))


def advance_an_iterator(x: torch.Tensor) -> Any:
    numbers = iter([1, 2])
    return torch.cond(x.sum() > 0, lambda a: a + next(numbers), lambda a: a - 1, (x,))


def assign_a_name(x: torch.Tensor) -> Any:
    found = 0

    def first(a: torch.Tensor) -> torch.Tensor:
        nonlocal found
        found = 2
        return a + 1

    return torch.cond(x.sum() > 0, first, lambda a: a - 1, (x,)) + found


def switch_a_mode(x: torch.Tensor) -> Any:
    def first(a: torch.Tensor) -> torch.Tensor:
        torch._C._set_grad_enabled(not torch.is_grad_enabled())
        return a + 1

    return torch.cond(x.sum() > 0, first, lambda a: a - 1, (x,))


def raise_an_error(x: torch.Tensor) -> Any:
    def second(a: torch.Tensor) -> torch.Tensor:
        raise ValueError("negative")

    return torch.cond(x.sum() > 0, lambda a: a + 1, second, (x,))


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (append_to_a_list, "changes a list"),
        (Counter(), "changes something outside"),
        (write_to_an_operand, "writes to a tensor"),
        (give_an_operand, "gives memory of a tensor"),
        (give_another_type, "another type, rank or layout"),
        (advance_an_iterator, "may change a list_iterator"),
        (assign_a_name, "changes a cell"),
        (switch_a_mode, "another mode"),
        (raise_an_error, "raises ValueError"),
    ],
)
def test_what_cannot_be_a_graph_of_its_own_is_a_break(program: Program, reason: str) -> None:
    with pytest.raises(Unsupported, match=reason) as caught:
        lamina.compile(program, fullgraph=True)(torch.ones(4))
    assert caught.value.code == "control-flow"
