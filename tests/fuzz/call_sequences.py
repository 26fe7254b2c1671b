"""Random changes between calls: whenever the guards hold, the capture must give what eager gives.

    python tests/fuzz/call_sequences.py --first 0 --count 10000

A sequence calls one function several times; before each call up to two of `CHANGES` are made to what the function reads:
attributes of objects, classes and metaclasses, special methods, slots, descriptors, globals, closure cells, containers,
functions, modules and hooks, parameters, modes. Eager is asked each time.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import pathlib
import random
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
if str(HERE.parents[1]) not in sys.path:
    sys.path.insert(0, str(HERE.parents[1]))

from lamina.capture import trace  # noqa: E402
from lamina.errors import Unsupported  # noqa: E402
from tests.capture.equality import differ  # noqa: E402

INPUTS = [torch.arange(3.0), torch.ones(2, 3), torch.ones(3, dtype=torch.float64), torch.ones(3, 2).t()]


def load_program():
    """A fresh module: its classes and globals are this sequence's own."""
    spec = importlib.util.spec_from_file_location("changing_program", HERE / "changing_program.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["changing_program"] = module
    spec.loader.exec_module(module)
    return module


def put(owner, name, *values):
    """The change that sets an attribute to one of some values, or makes it."""
    return lambda p, w, r: setattr(owner(p, w), name, r.choice(values))


def drop(owner, name):
    """The change that removes an attribute of the object itself."""

    def change(p, w, r):
        if name in vars(owner(p, w)):
            delattr(owner(p, w), name)

    return change


def of_module(p, w):
    return p


def of_whole(p, w):
    return w


def of_part(p, w):
    return w.part


def of_class(p, w):
    return p.Part


def of_base(p, w):
    return p.Base


def of_meta(p, w):
    return p.Meta


def of_layer(p, w):
    return w.layer


def always(value):
    return lambda *_: value


def twice(module, args, output):
    return output * 2


CHANGES = [
    put(of_module, "OFFSET", 1, 1.0, True, 2),
    lambda p, w, r: setattr(p, "CHOSEN", r.choice([p.double, p.halve])),
    lambda p, w, r: p.FACTORS.__setitem__("a", r.choice([1.0, 1, 3.0])),
    lambda p, w, r: p.FACTORS.__setitem__(r.choice("cd"), r.random()),
    lambda p, w, r: setattr(p, "ALIAS", r.choice([p.FACTORS, {"b": 5}])),
    lambda p, w, r: setattr(
        p, "SHIFT", functools.partial(p.shift, by=r.choice([1, 2]), sign=r.choice([1, -1]))
    ),
    lambda p, w, r: setattr(p, "len", r.choice([len, always(7)])),
    drop(of_module, "len"),
    put(of_part, "scale", 1, 2, 2.0, True),
    put(of_part, "name", "part", "p", "else"),
    put(of_part, "rate", 0.5, 0.25),
    drop(of_part, "rate"),
    lambda p, w, r: setattr(p.Part, "rate", r.choice([0.5, 0.75, property(always(2)), p.Rate()])),
    lambda p, w, r: setattr(p.Rate, "__get__", r.choice([lambda s, o, k: 0.5, lambda s, o, k: 3])),
    lambda p, w, r: setattr(p.Rate, "__set__", lambda s, o, v: None),
    drop(lambda p, w: p.Rate, "__set__"),
    put(of_class, "half", property(always(3)), property(always(1)), 4),
    lambda p, w, r: setattr(w.part, "weight", torch.full((3,), float(r.randint(0, 3)))),
    lambda p, w, r: w.part.weight.add_(1),
    lambda p, w, r: setattr(w.part, "weight", torch.ones(3, dtype=torch.float64)),
    lambda p, w, r: setattr(w.part, "mode", r.choice(list(p.Mode))),
    lambda p, w, r: setattr(w, "part", p.Part()),
    lambda p, w, r: setattr(w.part, "__class__", r.choice([p.Part, p.OtherPart])),
    put(of_base, "size", always(1), always(5)),
    put(of_class, "size", always(1), always(6)),
    drop(of_class, "size"),
    put(of_part, "size", always(7)),
    drop(of_part, "size"),
    put(of_class, "__bool__", always(True), always(False)),
    drop(of_class, "__bool__"),
    put(of_base, "__len__", always(0), always(1)),
    drop(of_base, "__len__"),
    put(of_class, "__add__", always(2), always(3)),
    drop(of_class, "__add__"),
    put(of_base, "__add__", always(1), always(4)),
    put(of_base, "__eq__", always(True), always(False)),
    drop(of_base, "__eq__"),
    put(of_class, "__getattribute__", object.__getattribute__),
    drop(of_class, "__getattribute__"),
    put(of_meta, "level", 1, 2),
    put(of_meta, "__contains__", always(True), always(False)),
    lambda p, w, r: setattr(p.OtherPart, "__bases__", r.choice([(p.Part,), (p.Part, p.Base)])),
    lambda p, w, r: w.parts.append(p.Part()) if len(w.parts) < 4 else w.parts.pop(),
    lambda p, w, r: w.parts.reverse(),
    lambda p, w, r: setattr(w.parts[0], "scale", r.randint(1, 3)),
    lambda p, w, r: setattr(
        w, "parts", r.choice([[w.part, w.part], (w.part,)]) if len(w.parts) else [w.part]
    ),
    put(of_whole, "flag", True, 1, False, 0, "yes"),
    put(of_whole, "limit", None, 2, 2.0, -0.0, 0.0, float("nan")),
    lambda p, w, r: w.table.__setitem__("x", r.choice([1, 1.0, True])),
    lambda p, w, r: w.table.__setitem__("y", r.choice([(1, 2.0, None), [1, 2.0, None], (1, 2, None)])),
    lambda p, w, r: w.table.__setitem__(r.choice("zw"), 0),
    lambda p, w, r: w.table.pop("z", None),
    lambda p, w, r: w.order.move_to_end(r.choice("pq")),
    lambda p, w, r: w.order.__setitem__("p", r.randint(1, 2)),
    lambda p, w, r: w.queue.append(r.randint(1, 3)),
    lambda p, w, r: w.queue.rotate(1),
    lambda p, w, r: w.names.symmetric_difference_update({"n"}),
    lambda p, w, r: w.names.add("m"),
    lambda p, w, r: w.write(r.choice([1, 1.5, True])),
    put(of_whole, "extra", 1, "t", None),
    drop(of_whole, "extra"),
    lambda p, w, r: w.__dict__.update(flag=r.choice([True, False])),
    lambda p, w, r: setattr(w, "bias", torch.nn.Parameter(torch.full((3,), 2.0))),
    lambda p, w, r: w.bias.requires_grad_(r.choice([True, False])),
    lambda p, w, r: w.bias.data.add_(1),
    lambda p, w, r: setattr(w, "method", r.choice([w.part.apply, p.double, w.parts[0].apply])),
    lambda p, w, r: setattr(w, "run", lambda x, k=3: p.Whole.run(w, x + 1, k)),
    drop(of_whole, "run"),
    lambda p, w, r: setattr(p.shift, "__defaults__", (r.choice([1, 4]),)),
    lambda p, w, r: setattr(p.shift, "__kwdefaults__", {"sign": r.choice([1, -1])}),
    lambda p, w, r: setattr(p.double, "__code__", r.choice([p.double, p.halve]).__code__),
    lambda p, w, r: setattr(p.Whole.run, "__defaults__", (r.choice([3, 3.0, 4]),)),
    lambda p, w, r: setattr(w.parts[-1], "apply", r.choice([p.double, p.halve])),
    drop(lambda p, w: w.parts[-1], "apply"),
    lambda p, w, r: setattr(w.slotted, "second", r.choice([1, 2])),
    lambda p, w, r: hasattr(w.slotted, "second") and delattr(w.slotted, "second"),
    lambda p, w, r: setattr(w.slotted, "first", r.choice([1, 1.0, True])),
    lambda p, w, r: w.layer.train(r.choice([True, False])),
    put(of_layer, "steps", 1, 2, 3),
    lambda p, w, r: setattr(w.layer, "offset", torch.full((3,), float(r.randint(0, 2)))),
    lambda p, w, r: w.layer.offset.add_(1),
    lambda p, w, r: setattr(w.layer, "inner", torch.nn.Linear(3, 3, bias=r.choice([True, False]))),
    lambda p, w, r: w.layer.inner.register_forward_hook(twice),
    lambda p, w, r: w.layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,)),
    lambda p, w, r: w.layer.inner._forward_hooks.clear(),
    lambda p, w, r: w.layer._forward_pre_hooks.clear(),
    lambda p, w, r: w.layer.load_state_dict(
        {name: value + 1 for name, value in w.layer.state_dict().items()}
    ),
    lambda p, w, r: w.layer.to(r.choice([torch.float32, torch.float64])),
    lambda p, w, r: torch.set_default_dtype(r.choice([torch.float32, torch.float64])),
]


def run_sequence(seed, calls):
    """Returns how many calls used an earlier capture; AssertionError for a result that eager does not give."""
    choose = random.Random(seed)
    program = load_program()
    whole = program.Whole()
    is_argument = bool(seed % 2)
    function = (lambda w, x: w.run(x)) if is_argument else (lambda x: whole.run(x))
    captures = []
    hits = 0
    try:
        for call in range(calls):
            for _ in range(choose.choice((0, 1, 1, 2))):
                with contextlib.suppress(
                    TypeError, AttributeError
                ):  # a change that the others before it leave no room for
                    choose.choice(CHANGES)(program, whole, choose)
            (x,) = choose.choices(INPUTS, weights=(7, 1, 1, 1))
            args = (whole, x) if is_argument else (x,)
            with torch.set_grad_enabled(choose.random() < 0.05):
                hits += check_call(function, args, whole, captures, f"seed {seed}, call {call}")
    finally:
        torch.set_default_dtype(torch.float32)
    return hits


def check_call(function, args, whole, captures, where):
    """Whether one of `captures` was used; makes a new one where none holds."""
    found = next((one for one in captures if one.check(args, {})), None)
    is_hit = found is not None
    if found is None:
        assert all(one.explain_failure(args, {}) for one in captures), where
        try:
            found = trace(function, args, {})
        except Unsupported:
            return False
        except Exception as error:
            assert raises(function, args) is type(error), where
            return False
        if found.pause is not None:
            return False
        assert found.check(args, {}), f"{where}: {found.explain_failure(args, {})}"
        captures.append(found)
    whole.__dict__.pop("seen", None)
    got = found.call(args, {})
    assert whole.seen == got[0].shape[0], where
    assert not differ(got, function(*args)), where
    return is_hit


def raises(function, args):
    """The class of what eager raises; None where it does not."""
    try:
        function(*args)
    except Exception as error:
        return type(error)
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=10)
    arguments = parser.parse_args()
    hits, stale = 0, []
    for seed in range(arguments.first, arguments.first + arguments.count):
        try:
            hits += run_sequence(seed, arguments.calls)
        except AssertionError as error:
            stale.append(seed)
            print(f"\nseed {seed}: {error}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{seed + 1 - arguments.first} of {arguments.count}", end="", file=sys.stderr)
    print(f"{arguments.count} sequences of {arguments.calls} calls, {len(CHANGES)} kinds of change: ", end="")
    print(f"{hits} calls used an earlier capture, {len(stale)} sequences wrong {stale or ''}")
    return bool(stale)


if __name__ == "__main__":
    raise SystemExit(main())
