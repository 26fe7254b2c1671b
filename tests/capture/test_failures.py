"""A failure of a model is a CompilerBug, never taken for an error of the program; the program's errors are its own."""

from __future__ import annotations

import types

import pytest
import torch

import lamina
from lamina.capture import trace
from lamina.capture.machine import generators, loop
from lamina.capture.opcodes import containers
from lamina.capture.values import attributes, conversions, functional, iteration, operators, tensor
from lamina.capture.values.traced_names import TracedNames
from lamina.errors import CompilerBug
from tests.capture.as_it_is import run_as_it_is

OFFSETS = {"a": 1, "b": 2}


class Bare:
    def __getattr__(self, name):
        return 3

    def __len__(self):
        return 2


def program(x):
    """Takes all errors for its own, in every way there is."""
    bare = Bare()
    try:
        for place in sorted(OFFSETS, key=OFFSETS.get):
            x = x + OFFSETS[place] * bare.missing
        x = x + getattr(bare, "a", 1) + hasattr(x, "shape") + len(bare)
        first, *_ = (each * 2 for each in range(3))
        return x * x.shape[0] + first + sum(each for each in range(2))
    except Exception:
        return x - 1


FAULTS = {
    AttributeError: lambda *args, **keywords: None.missing,
    TypeError: lambda *args, **keywords: len(1),
    KeyError: lambda *args, **keywords: {}["missing"],
    IndexError: lambda *args, **keywords: [][1],
}


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize(
    "model",
    [
        attributes.load_instance_attribute,
        attributes.find_in_type,
        containers.unpack_ex,
        conversions.model_len,
        functional.order,
        generators.SuspendedFrame.send,
        iteration.iterate,
        loop.Machine.make_frame,
        operators.get_item,
        tensor.TensorValue.read_attribute,
        TracedNames.load_global,
    ],
    ids=lambda model: model.__qualname__,
)
def test_a_failure_of_a_model(monkeypatch, model, kind):
    fault = FAULTS[kind].__code__.replace(co_filename=model.__code__.co_filename)
    monkeypatch.setattr(model, "__code__", fault)
    with pytest.raises(CompilerBug, match=kind.__name__):
        trace(program, (torch.ones(2),), {})


def give_up(*args, **keywords):
    raise NotImplementedError


def test_what_a_model_says_of_itself(monkeypatch):
    fault = give_up.__code__.replace(co_filename=functional.__file__)
    monkeypatch.setattr(functional.order, "__code__", fault)
    with pytest.raises(CompilerBug, match="NotImplementedError"):
        trace(program, (torch.ones(2),), {})


def test_what_the_user_sees(monkeypatch, tmp_path):
    x, options = torch.ones(2), {"replay_dir": str(tmp_path), "cache": False}
    expected = program(x)
    fast, whole = (
        lamina.compile(program, fullgraph=fullgraph, options=options, backend=run_as_it_is)
        for fullgraph in (False, True)
    )
    monkeypatch.setattr(functional.order, "__code__", FAULTS[KeyError].__code__)
    with pytest.warns(UserWarning, match="compiling failed with KeyError: 'missing'; the call ran eagerly"):
        assert torch.equal(fast(x), expected)
    assert torch.equal(fast(x), expected)
    with pytest.raises(CompilerBug) as raised:
        whole(x)
    line = program.__code__.co_firstlineno + 4
    assert raised.value.stage == "capture"
    assert raised.value.location == (__file__, line)
    (folder,) = tmp_path.iterdir()
    assert "Traceback" in (folder / "error.txt").read_text()


def test_a_generator_that_cannot_be_closed(monkeypatch):
    def program(x):
        steps = (x + each for each in range(3))
        return next(steps)

    monkeypatch.setattr(generators.SuspendedFrame._raise_inside, "__code__", FAULTS[TypeError].__code__)
    with pytest.raises(CompilerBug, match="TypeError"):
        trace(program, (torch.ones(2),), {})


def catch_errors(x):
    """Errors that native code raises by itself, of which none is ours."""
    caught = []
    for attempt in (
        lambda: int("x"),
        lambda: {}["a"],
        lambda: [][1],
        lambda: {[]: 1},
        lambda: {[]},
        lambda: [*3],
        lambda: 1 + "a",
        lambda: len(3),
        lambda: sorted([1, "a"]),
        lambda: next(iter(())),
        lambda: list(map(int, "1x")),
        lambda: x.missing,
        lambda: x.shape[5],
        lambda: len(3 for _ in range(2)),
        lambda: catch_errors(),
        lambda: isinstance(1, 2),
        lambda: setattr(3, "a", 1),
        lambda: types.missing,
    ):
        try:
            attempt()
        except Exception as error:
            caught.append(type(error).__name__)
    return x + 1, caught


def raise_own(x):
    """Errors of the kinds that models raise about themselves, passed on by the machine's own code."""
    caught = []

    def steps():
        yield

    def throw(kind):
        generator = steps()
        next(generator)
        generator.throw(kind())

    class Descriptor:
        def __get__(self, owner, kind):
            raise NotImplementedError

    class Compared:
        __eq__ = Descriptor()

    for attempt in (
        lambda: throw(NotImplementedError),
        lambda: throw(AssertionError),
        lambda: sorted([1, 2], key=lambda item: throw(AssertionError)),
        lambda: str(Compared() == 3),
    ):
        try:
            caught.append(attempt())
        except Exception as error:
            caught.append(type(error).__name__)
    return x + 1, caught


def missing_attributes(x):
    def inner(*, scale=2):
        return scale

    caught = [hasattr(inner, "__func__"), getattr(inner, "__wrapped__", 3), hasattr(raise_own, "missing")]
    for attempt in (lambda: inner.missing, lambda: (lambda: 1).missing, lambda: raise_own.missing):
        try:
            attempt()
        except AttributeError as error:
            caught.append(str(error))
    return x + 1, caught


@pytest.mark.parametrize("catch_errors", [catch_errors, raise_own, missing_attributes])
def test_errors_of_the_program(catch_errors):
    x = torch.ones(2)
    captured = trace(catch_errors, (x,), {}, fullgraph=True)
    outputs = captured.graph_module(*captured.fetch_inputs((x,), {}))
    given = captured.finish(outputs, (x,), {})
    assert given[1] == catch_errors(x)[1]
    assert torch.equal(given[0], x + 1)
