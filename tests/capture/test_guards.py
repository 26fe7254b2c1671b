"""Guards: what was assumed is checked, by type as well as value; the one that fails is named."""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict

import pytest
import torch
from torch import nn

import lamina
from lamina.capture import trace

X = torch.arange(6.0).reshape(2, 3)
SETTING = 2
OTHER_NAME = {"k": 1.0}


def scale(x, k):
    return x * k


@pytest.mark.parametrize(
    ("first", "second"),
    [(1, True), (1, 1.0), (0.0, -0.0), (2, 3), ("a", "b"), (None, 0), (math.nan, 1.0), (1, None), ((1, 2), [1, 2]), ((1,), (1, 2)),
     ({"a": 1}, {"a": 2}), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({1: 0}, {True: 0}), ([1], [1.0]), (slice(1), slice(2)),
     (1j, complex(0, -1)), (frozenset("a"), frozenset("b")), (torch.float32, torch.float64), (range(3), range(4)), (b"a", "a")],
)  # fmt: skip
def test_values_are_guarded_by_type_and_value(first, second):
    captured = trace(lambda x, k: x + 1, (X, first), {})
    assert captured.check((X, first), {})
    assert not captured.check((X, second), {})
    explained = captured.explain_failure((X, second), {})
    assert "argument 1" in explained and "expected" in explained and "got" in explained
    assert captured.explain_failure((X, first), {}) == ""


def test_nan_argument_stays_valid():
    captured = trace(scale, (X, math.nan), {})
    assert captured.check((X, float("nan")), {})


@pytest.mark.parametrize(
    "other",
    [X.double(), X[:1], X[None], X.t().contiguous().t(), X.clone().requires_grad_(), nn.Parameter(X.clone()), X.to(torch.complex64), 3, None,
     X.to("meta"), X.to_sparse()],
    ids=range(11),
)  # fmt: skip
def test_tensor_metadata_is_guarded(other):
    captured = trace(lambda x: x + 1, (X,), {})
    assert captured.check((X.clone(),), {})
    assert not captured.check((other,), {})
    assert "argument 0" in captured.explain_failure((other,), {})


def test_calls_of_another_form_fail():
    captured = trace(lambda x, k=1: x * k, (X,), {"k": 2})
    assert captured.check((X,), {"k": 2})
    for args, kwargs in (
        ((X,), {}),
        ((X, 2), {}),
        ((X,), {"k": 3}),
        ((), {"x": X, "k": 2}),
        ((X,), {"j": 2}),
    ):
        assert not captured.check(args, kwargs)


def test_globals_and_closures():
    global SETTING
    extra = 5

    def f(x):
        return x * SETTING + extra + OTHER_NAME["k"]

    captured = trace(f, (X,), {})
    assert captured.check((X,), {})
    SETTING = 2.0
    assert not captured.check((X,), {}) and "SETTING" in captured.explain_failure((X,), {})
    SETTING = 2
    OTHER_NAME["k"] = 3.0
    assert not captured.check((X,), {})
    OTHER_NAME["k"] = 1.0
    assert captured.check((X,), {})
    extra = 6
    assert not captured.check((X,), {}) and "closure" in captured.explain_failure((X,), {})


def shift(x, by=1, *, times=2):
    return (x + by) * times


def test_defaults_are_guarded_where_they_decide():
    omitted = trace(lambda x: shift(x), (X,), {})
    given = trace(lambda x: shift(x, 1, times=2), (X,), {})
    for name, value in (("__defaults__", (5,)), ("__kwdefaults__", {"times": 5}), ("__defaults__", None)):
        old = getattr(shift, name)
        setattr(shift, name, value)
        assert not omitted.check((X,), {}) and given.check((X,), {})
        setattr(shift, name, old)
        assert omitted.check((X,), {})
    code, shift.__code__ = shift.__code__, (lambda x, by=1, *, times=2: x).__code__
    assert not omitted.check((X,), {}) and not given.check((X,), {})
    shift.__code__ = code


def helper(x):
    return x + 1


def test_replaced_global_function_and_its_code():
    global helper

    def f(x):
        return helper(x)

    captured = trace(f, (X,), {})
    old, code = helper, helper.__code__
    helper = lambda x: x + 2  # noqa: E731
    assert not captured.check((X,), {})
    helper = old
    assert captured.check((X,), {})
    old.__code__ = (lambda x: x + 3).__code__
    assert not captured.check((X,), {})
    old.__code__ = code
    assert captured.check((X,), {})


class Holder:
    shared = 1

    def __init__(self):
        self.own = 2
        self.items = [1, 2]

    def combine(self, x):
        return x * self.own + self.shared + len(self.items)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: setattr(h, "own", 3),
        lambda h: setattr(h, "own", 2.0),
        lambda h: h.items.append(1),
        lambda h: setattr(h, "items", [1]),
        lambda h: setattr(h, "shared", 7),
        lambda h: setattr(Holder, "shared", 9),
        lambda h: setattr(h, "combine", lambda x: x),
        lambda h: setattr(Holder, "combine", lambda self, x: x),
        lambda h: delattr(h, "own"),
    ],
    ids=range(9),
)
@pytest.mark.parametrize("is_argument", [True, False])
def test_attributes(change, is_argument):
    shared, combine = Holder.shared, Holder.combine
    holder = Holder()
    call = (lambda h, x: h.combine(x)) if is_argument else (lambda x: holder.combine(x))
    args = (holder, X) if is_argument else (X,)
    captured = trace(call, args, {})
    try:
        assert captured.check(args, {})
        change(holder)
        assert not captured.check(args, {})
        assert captured.explain_failure(args, {})
    finally:
        Holder.shared, Holder.combine = shared, combine


def test_another_object_of_the_same_shape_is_fine_as_an_argument():
    captured = trace(lambda h, x: h.combine(x), (Holder(), X), {})
    assert captured.check((Holder(), X), {})


def make_net():
    return nn.Sequential(
        nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2)
    ).eval()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.train(),
        lambda m: setattr(m[2], "p", 0.1),
        lambda m: setattr(m, "3", nn.GELU()),
        lambda m: m.append(nn.Tanh()),
        lambda m: m[0].register_forward_hook(lambda *a: None),
        lambda m: m[3].register_forward_pre_hook(lambda *a: None),
        lambda m: m.double(),
        lambda m: m.requires_grad_(False),
        lambda m: setattr(m[0], "bias", None),
        lambda m: setattr(m[0], "weight", nn.Parameter(torch.zeros(4, 5))),
        lambda m: setattr(m[0].weight, "data", torch.zeros(4, 3).t().contiguous().t()),
        lambda m: setattr(m[3], "forward", lambda x: x),
        lambda m: setattr(m[1], "eps", 0.1),
    ],
    ids=range(13),
)
def test_module_changes(change):
    net = make_net()
    captured = trace(net, (X,), {})
    assert captured.check((X,), {}), captured.explain_failure((X,), {})
    change(net)
    assert not captured.check((X,), {})
    assert captured.explain_failure((X,), {})


def test_weights_are_fetched_anew():
    net = make_net()
    captured = trace(net, (X,), {})
    with torch.no_grad():
        net[0].weight.mul_(2)
    net[4].weight = nn.Parameter(torch.ones(2, 4))
    net.load_state_dict({key: value + 1 for key, value in net.state_dict().items()})
    net[0].bias.data = torch.ones(4)
    assert captured.check((X,), {})
    assert torch.equal(captured.call((X,), {}), net(X))


def test_batch_norm_in_training_writes_its_buffers():
    net, twin = make_net().train(), make_net().train()
    net[2].p = twin[2].p = 0.0
    twin.load_state_dict(net.state_dict())
    captured = trace(net, (X,), {})
    assert captured.mutated_inputs
    for _ in range(2):
        assert torch.equal(captured.call((X,), {}), twin(X))
    for key, value in twin.state_dict().items():
        assert torch.equal(net.state_dict()[key], value), key


def test_hooks_present_at_capture_run():
    net = make_net()
    seen = []
    net[0].register_forward_hook(lambda module, args, output: output * 2)
    net.register_forward_pre_hook(lambda module, args: seen.append(len(args)))
    captured = trace(net, (X,), {})
    assert seen == []
    assert torch.equal(captured.call((X,), {}), net(X))
    assert seen == [1, 1]
    net[0]._forward_hooks.clear()
    assert not captured.check((X,), {})


def test_modes_are_guarded():
    captured = trace(lambda x: x + 1, (X,), {})
    with torch.no_grad():
        assert not captured.check((X,), {}) and "grad mode" in captured.explain_failure((X,), {})
    with torch.inference_mode():
        assert not captured.check((X,), {})
    with torch.autocast("cpu"):
        assert not captured.check((X,), {})
    torch.set_default_dtype(torch.float64)
    try:
        assert not captured.check((X,), {})
    finally:
        torch.set_default_dtype(torch.float32)
    assert captured.check((X,), {})


def test_aliasing_of_mutated_arguments():
    def f(a, b):
        a.add_(1)
        return a + b

    base = torch.zeros(2, 2, 3)
    captured = trace(f, (X.clone(), X.clone()), {})
    assert captured.check((X.clone(), X.clone()), {})
    assert not captured.check((base[0], base[1]), {})
    shared = X.clone()
    assert not captured.check((shared, shared), {})


def test_one_object_passed_twice():
    def f(a, b):
        return a * 2 if a is b else a + b

    captured = trace(f, (X, X), {})
    assert captured.check((X, X), {})
    assert not captured.check((X, X.clone()), {})
    other = trace(f, (X, X.clone()), {})
    assert torch.equal(other.call((X, X.clone()), {}), X + X)


def test_guards_read_as_text():
    net = make_net()
    captured = trace(net, (X,), {})
    text = captured.guards_text()
    assert "argument 0: Tensor(torch.float32, sizes (2, 3)" in text
    assert "training: False" in text
    assert "def match(args, kwargs):" in captured.generated_text()


def test_instances_of_one_class_are_captured_apart():
    nets = [make_net() for _ in range(12)]
    for net in nets:
        assert torch.equal(trace(net, (X,), {}).call((X,), {}), net(X))


def test_written_containers_that_become_one():
    def f(a, b):
        a.append(1)
        return len(b)

    captured = trace(f, ([1], [1]), {})
    shared = [1]
    assert captured.check(([1], [1]), {})
    assert not captured.check((shared, shared), {})
    assert captured.call(([1], [1]), {}) == 1


def test_identity_test_of_arguments():
    captured = trace(lambda a, b: a is b, (X, X.clone()), {})
    assert captured.call((X, X.clone()), {}) is False
    assert not captured.check((X, X), {})


def test_a_capture_does_not_keep_its_arguments_alive():
    import gc
    import weakref

    x, items = torch.ones(3), [torch.ones(3)]
    references = [weakref.ref(x), weakref.ref(items[0])]
    captured = trace(lambda x, items: items.append(x + items[0]), (x, items), {})
    del x, items
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    items = [torch.ones(3)]
    captured.call((torch.ones(3), items), {})
    assert len(items) == 2


def test_roots_of_every_kind():
    import functools

    net = make_net()

    class Caller:
        def __call__(self, x):
            return net(x) + 1

        def method(self, x, k):
            return net(x) * k

    for function, args in (
        (net.forward, (X,)),
        (Caller(), (X,)),
        (Caller().method, (X, 2)),
        (functools.partial(Caller().method, k=3), (X,)),
        (nn.functional.relu, (X,)),
        (torch.add, (X, 1)),
    ):
        captured = trace(function, args, {})
        assert captured.check(args, {}), captured.explain_failure(args, {})
        assert torch.equal(captured.call(args, {}), function(*args))


def test_compiled_functions_inside_are_entered():
    class State:
        def __init__(self, original, code):
            self.original = original
            self.code = code

    def compiled(x):
        raise AssertionError("the compiled face is not traced")

    compiled.__lamina__ = State(lambda x: x * 2, compiled.__code__)
    captured = trace(lambda x: compiled(x) + 1, (X,), {})
    assert torch.equal(captured.call((X,), {}), X * 2 + 1)


@pytest.mark.parametrize("filler", [0, 200])
@pytest.mark.parametrize(
    "make", [dict, OrderedDict, lambda entries: defaultdict(int, entries)], ids=["dict", "ordered", "default"]
)
def test_tensors_as_keys(make, filler):
    """They are found by identity, as eager finds them; another tensor with equal numbers is another key."""
    known, other = torch.ones(2), nn.Parameter(torch.ones(2), requires_grad=False)
    entries = make({known: 3, **{index: index for index in range(filler)}})

    def program(x):
        return x * entries.get(known, 5), x + entries.get(other, 7)

    captured = trace(program, (X,), {})
    for got, expected in zip(captured.call((X,), {}), program(X), strict=True):
        assert torch.equal(got, expected)


def test_a_changed_dict_keeps_its_tensor_keys():
    known, entries = torch.ones(2), {}
    entries[known] = 1

    def program(x):
        entries[known] += 1
        entries["new"] = x
        return x + entries[known]

    captured = trace(program, (X,), {})
    assert torch.equal(captured.call((X,), {}), X + 2)
    assert next(iter(entries)) is known and entries[known] == 2 and len(entries) == 2
    assert not captured.check((X,), {})


def test_a_dict_of_another_tensor_misses():
    known, other = torch.ones(2), torch.ones(2)
    captured = trace(lambda x, entries: x + len(entries), (X, {known: 1}), {})
    assert captured.check((X, {known: 1}), {})
    assert not captured.check((X, {other: 1}), {})


SPECIAL_METHODS = {
    "__add__": lambda self, other: other * 7,
    "__call__": lambda self, x: x * 9,
    "__getitem__": lambda self, index: 77,
    "__len__": lambda self: 5,
    "__bool__": lambda self: False,
    "__eq__": lambda self, other: False,
    "__contains__": lambda self, item: False,
    "__iter__": lambda self: iter([9]),
    "__enter__": lambda self: 55,
    "__str__": lambda self: "longer",
    "__getattr__": lambda self, name: 1000,
    "__neg__": lambda self: -50,
}


class Special:
    def __add__(self, other):
        return other + 2

    def __call__(self, x):
        return x + 1

    def __getitem__(self, index):
        return 3

    def __len__(self):
        return 2

    def __bool__(self):
        return True

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1

    def __contains__(self, item):
        return True

    def __iter__(self):
        return iter([1, 2])

    def __enter__(self):
        return 1

    def __exit__(self, *error):
        return False

    def __str__(self):
        return "a"

    def __getattr__(self, name):
        return 5

    def __neg__(self):
        return 3


def uses_special_methods(special, x):
    y = special + x + special(x) + special[0] + len(special) + len(str(special)) + special.missing
    y = y + (-special)
    if special:
        y = y + 1
    if special == 3:
        y = y * 2
    if 4 in special:
        y = y + 7
    for item in special:
        y = y + item
    with special as number:
        return y + number


@pytest.mark.parametrize("name", SPECIAL_METHODS)
def test_a_patched_special_method_is_seen(name, monkeypatch):
    x, special = torch.ones(2), Special()
    fast = lamina.compile(uses_special_methods)
    with torch.no_grad():
        assert torch.equal(fast(special, x), uses_special_methods(special, x))
        monkeypatch.setattr(Special, name, SPECIAL_METHODS[name])
        assert torch.equal(fast(special, x), uses_special_methods(special, x))


def test_one_tensor_for_two_has_a_reason():
    captured = trace(lambda x, y: x + y, (torch.ones(3), torch.zeros(3)), {})
    x = torch.ones(3)
    assert captured.check((x, x), {}) or "got one more than once" in captured.explain_failure((x, x), {})
