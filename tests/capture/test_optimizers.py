"""Optimizer steps: one graph each, what they read and write is the optimizer's own state."""

from __future__ import annotations


import pytest
import torch

import lamina

SIZES = ((4, 3), (3,), ())


def make_parameters(seed: int = 0) -> list[torch.nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(size, generator=generator)) for size in SIZES]


def set_gradients(parameters: list[torch.nn.Parameter], seed: int) -> None:
    generator = torch.Generator().manual_seed(100 + seed)
    for each in parameters:
        each.grad = torch.randn(each.shape, generator=generator)


def test_labels_do_nothing_where_no_profiler_runs():
    def program(x):
        with torch.autograd.profiler.record_function("outer"), torch.profiler.record_function("inner"):
            return x * 2 + 1

    compiled = lamina.compile(program)
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert lamina.explain(compiled, torch.ones(3)).breaks == []
    with torch.autograd.profiler.profile() as profile:
        assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert {"outer", "inner"} <= {event.name for event in profile.function_events}


def test_a_break_inside_a_label():
    def program(x):
        with torch.autograd.profiler.record_function("label") as label:
            y = x + 1
            lamina.graph_break()
            y = y * 2
        return y, label.run_callbacks_on_exit

    result, calls_back = lamina.compile(program)(torch.ones(3))
    assert torch.equal(result, torch.full((3,), 4.0)) and calls_back


def test_gradients_are_left_out_where_the_program_leaves_them_out():
    weight = torch.nn.Parameter(torch.ones(3, 3))

    def decay(x):
        with torch.no_grad():
            weight.mul_(0.5)
        return (weight.detach() @ x).argmax(), weight.data + x

    compiled = lamina.compile(decay, fullgraph=True)
    place, total = compiled(torch.ones(3))
    assert not total.requires_grad and weight.is_leaf and place.item() == 0
    assert torch.equal(weight.detach(), torch.full((3, 3), 0.5))
    assert [graph.eager_reason for graph in lamina.explain(compiled, torch.ones(3)).graphs] == [""]


def test_gradients_are_kept_where_the_program_switches_them_on():
    weight = torch.nn.Parameter(torch.ones(3))

    def program(x):
        with torch.enable_grad():
            return weight * x

    with torch.no_grad():
        assert lamina.compile(program)(torch.ones(3)).requires_grad


def test_autograd_sees_what_a_kernel_writes_in_place():
    weight = torch.nn.Parameter(torch.ones(3))
    loss = (weight * weight).sum()

    @torch.no_grad()
    def halve():
        weight.mul_(0.5)

    lamina.compile(halve)()
    assert weight._version == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
