"""Optimizer steps: one graph each, what they read and write is the optimizer's own state."""

from __future__ import annotations

import pytest
import torch

import lamina
from tests.capture.as_it_is import run_as_it_is
from tests.work import count_calls

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


OPTIMIZERS = {
    "adadelta": (torch.optim.Adadelta, {"weight_decay": 0.1}),
    "adagrad": (torch.optim.Adagrad, {"lr_decay": 0.5}),
    "adam": (torch.optim.Adam, {"amsgrad": True, "maximize": True}),
    "adam, capturable": (torch.optim.Adam, {"capturable": True}),
    "adamax": (torch.optim.Adamax, {}),
    "adamw": (torch.optim.AdamW, {}),
    "asgd": (torch.optim.ASGD, {"t0": 2, "weight_decay": 0.1}),
    "nadam": (torch.optim.NAdam, {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    "radam": (torch.optim.RAdam, {}),
    "rmsprop": (torch.optim.RMSprop, {"centered": True, "momentum": 0.1}),
    "rprop": (torch.optim.Rprop, {}),
    "sgd": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
}


def take_steps(kind, options, wrap, count=7):
    """Parameters and state after some steps of two groups, of which one parameter has no gradient."""
    parameters = make_parameters()
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], "lr": 0.05}]
    optimizer = kind(groups, **options)
    step = wrap(optimizer.step)
    for number in range(count):
        set_gradients(parameters, number)
        parameters[1].grad = None
        step()
    return parameters, dict(optimizer.state), step


@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_is_one_graph(name, foreach):
    kind, options = OPTIMIZERS[name]
    # Eager refuses `capturable` on a CPU.
    eager = {key: value for key, value in options.items() if key != "capturable"}
    expected, states, _ = take_steps(kind, {**eager, "foreach": foreach}, lambda step: step)
    lamina.reset()
    actual, own_states, step = take_steps(
        kind, {**options, "foreach": foreach}, lambda step: lamina.compile(step, backend=run_as_it_is)
    )
    counted = lamina.counters()
    assert counted["breaks"] == 0 and counted["graphs"] <= 2
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    assert [each.keys() for each in own_states.values()] == [each.keys() for each in states.values()]
    assert all(any(key is each for each in actual) for key in own_states)
    for mine, theirs in zip(own_states.values(), states.values(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
    step()
    assert lamina.counters() == counted


def test_state_of_a_step_in_kernels():
    expected, states, _ = take_steps(torch.optim.Adam, {}, lambda step: step, count=3)
    actual, own_states, step = take_steps(torch.optim.Adam, {}, lamina.compile, count=3)
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(list(own_states.values()), list(states.values()))
    report = lamina.explain(step).graphs[0]
    assert report.eager_reason == "" and not report.externs


def test_gradients_in_one_buffer():
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = torch.optim.SGD(parameters, lr=0.5)
    buffer = torch.arange(6.0)
    for part, each in zip(buffer.split(3), parameters, strict=True):
        each.grad = part
    lamina.reset()
    step = lamina.compile(optimizer.step, backend=run_as_it_is)
    for _ in range(3):
        step()
    assert lamina.counters()["graphs"] == 1
    torch.testing.assert_close(torch.cat(parameters).detach(), 1 - 1.5 * buffer)


def test_a_gradient_in_the_memory_of_its_parameter():
    parameter = torch.nn.Parameter(torch.arange(4.0))
    optimizer = torch.optim.SGD([parameter], lr=0.5, momentum=0.9, nesterov=True)
    step = lamina.compile(optimizer.step)
    parameter.grad = torch.ones(4)
    step()
    parameter.grad = parameter.detach().flip(0).flip(0)
    expected = parameter.detach() - 0.5 * (1.9 * parameter.grad + 0.9 * 0.9)
    parameter.grad = parameter.detach()
    step()
    torch.testing.assert_close(parameter.detach(), expected)


@pytest.mark.parametrize("is_enabled", [True, False])
def test_a_detached_view_may_be_written_to(is_enabled):
    weight = torch.nn.Parameter(torch.ones(2, 3))

    def program():
        return weight.detach(), weight.data[1], weight.detach().view(-1)

    with torch.set_grad_enabled(is_enabled):
        whole, row, flat = lamina.compile(program)()
    whole.mul_(2)
    row.add_(1)
    flat.sub_(1)
    assert torch.equal(weight.detach(), torch.tensor([[1.0] * 3, [2.0] * 3]))
    assert weight.grad_fn is None and not flat.requires_grad


def make_update(parameters, **options):
    """What follows `loss.backward()` in a training loop."""
    optimizer = torch.optim.AdamW(parameters, **options)

    def update():
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return norm, all(each.grad is None for each in parameters)

    return update, optimizer


def test_an_update_is_one_graph():
    results = []
    for wrap in (lambda update: update, lambda update: lamina.compile(update, backend=run_as_it_is)):
        lamina.reset()
        parameters = make_parameters()
        update, _ = make_update(parameters)
        update = wrap(update)
        norms = []
        for number in range(4):
            set_gradients(parameters, number)
            norm, is_cleared = update()
            assert is_cleared and all(each.grad is None for each in parameters)
            norms.append(norm)
        results.append([norms, parameters])
    assert lamina.counters()["breaks"] == 0 and lamina.counters()["graphs"] == 2
    torch.testing.assert_close(results[1], results[0])


def test_gradients_are_kept_as_zeros():
    parameters = make_parameters()
    optimizer = torch.optim.SGD(parameters)
    lamina.reset()
    clear = lamina.compile(optimizer.zero_grad)
    for number in range(2):
        set_gradients(parameters, number)
        kept = [each.grad for each in parameters]
        clear(set_to_none=False)
        assert all(each.grad is old and not old.any() for each, old in zip(parameters, kept, strict=True))
    assert lamina.counters()["breaks"] == 0 and lamina.counters()["graphs"] == 1


def test_rates_and_betas_that_a_scheduler_changes():
    parameters = make_parameters()
    optimizer = torch.optim.Adam(parameters, lr=0.1)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=12)
    lamina.reset()
    step = lamina.compile(optimizer.step, backend=run_as_it_is)
    for number in range(10):
        set_gradients(parameters, number)
        step()
        scheduler.step()
        if number == 3:
            counted = lamina.counters()
    assert lamina.counters() == counted and counted["breaks"] == 0


def test_a_rate_in_a_tensor():
    parameters = make_parameters()
    optimizer = torch.optim.SGD(parameters, lr=torch.tensor(0.5))
    lamina.reset()
    step = lamina.compile(optimizer.step, backend=run_as_it_is)
    before = [each.detach().clone() for each in parameters]
    for number in range(3):
        set_gradients(parameters, 0)
        optimizer.param_groups[0]["lr"].fill_(0.5 ** (number + 1))
        step()
    assert lamina.counters()["graphs"] == 1 and lamina.counters()["breaks"] == 0
    expected = [old - 0.875 * each.grad for old, each in zip(before, parameters, strict=True)]
    torch.testing.assert_close([each.detach() for each in parameters], expected)


def test_more_parameters_than_are_copied():
    parameters = [torch.nn.Parameter(torch.ones(1)) for _ in range(260)]
    optimizer = torch.optim.SGD(parameters, momentum=0.9)
    for each in parameters:
        each.grad = torch.ones(1)
    optimizer.step()
    lamina.reset()
    lamina.compile(optimizer.step, backend=run_as_it_is)()
    assert lamina.counters()["breaks"] == 0 and lamina.counters()["graphs"] == 1
    assert all(each.item() == pytest.approx(1 - 1e-3 * 2.9) for each in parameters)


def test_hooks_of_a_step():
    parameters = make_parameters()
    optimizer = torch.optim.SGD(parameters)
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    set_gradients(parameters, 0)
    lamina.compile(optimizer.step, backend=run_as_it_is, fullgraph=True)()
    assert calls == ["before", "after"]


def test_a_training_step():
    """It breaks at `backward`, and what follows is one graph."""
    results = []
    for wrap in (lambda step: step, lamina.compile):
        lamina.reset()
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))
        update, optimizer = make_update(list(model.parameters()), lr=0.05)

        def step(x, model=model, update=update, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            return loss, update()

        step = wrap(step)
        losses = []
        for number in range(5):
            losses.append(step(torch.randn(4, 3)))
            if number == 1:
                counted = lamina.counters()
        results.append([losses, list(model.parameters()), list(optimizer.state.values())])
    assert lamina.counters() == counted and counted["graphs"] == 3 and counted["breaks"] == 1
    torch.testing.assert_close(results[1], results[0])
    reasons = [graph.eager_reason for graph in lamina.explain(step, torch.randn(4, 3)).graphs]
    assert [bool(reason) for reason in reasons] == [True, False, False]


def test_what_a_parameter_costs_in_each_step():
    parameters = [torch.nn.Parameter(torch.ones(3)) for _ in range(8)]
    optimizer = torch.optim.SGD(parameters, momentum=0.9)
    for each in parameters:
        each.grad = torch.ones(3)
    step = lamina.compile(optimizer.step)
    for _ in range(3):
        step()
    assert count_calls(step) < 60 + 12 * len(parameters)


def test_a_step_with_a_gradient_scaler():
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([weight], lr=0.5)
    scaler = torch.amp.GradScaler("cpu")

    @lamina.compile
    def step(x):
        optimizer.zero_grad()
        scaler.scale((weight * x).sum()).backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

    for _ in range(2):
        step(torch.ones(3))
        assert torch.is_grad_enabled()
    assert torch.equal(weight.detach(), torch.zeros(3))


def test_an_error_leaves_the_grad_mode():
    weight = torch.nn.Parameter(torch.ones(3))

    @lamina.compile
    def program(place):
        product = weight * 2
        with torch.no_grad():
            found = weight.gather(0, place)
        lamina.graph_break()
        return product + found

    assert program(torch.tensor([1])).requires_grad
    with pytest.raises((IndexError, RuntimeError)):
        program(torch.tensor([7]))
    assert torch.is_grad_enabled()


def test_a_view_may_come_to_need_a_gradient():
    weight = torch.nn.Parameter(torch.ones(3))

    def program(x):
        with torch.no_grad():
            doubled = weight * 2
        return x.view(-1), (x + 1).view(-1), doubled

    for each in lamina.compile(program)(torch.ones(1, 3)):
        each.add_(weight)
        assert each.requires_grad
