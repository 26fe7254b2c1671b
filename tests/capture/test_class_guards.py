"""Classes, functions and modules that get a name after the capture: nothing stale is used."""

from __future__ import annotations

import abc
import types

import pytest
import torch

from lamina.capture import trace

X = torch.arange(3.0)


class Meta(type):
    pass


class Base:
    def __add__(self, other):
        return 2


class Plain(Base, metaclass=Meta):
    rate = 2

    def __getitem__(self, index):
        if index > 2:
            raise IndexError
        return index


class Other(Plain):
    rate = 3


class Slotted:
    __slots__ = ("first", "second")


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


def helper(a=1):
    return a


MODULE = types.ModuleType("a_module_of_ours")


class HoldingMeta(type):
    def __contains__(cls, item):
        return False


class Holding(metaclass=HoldingMeta):
    pass


class Half:
    """A descriptor of the user's: without `__set__`, with a state of its own."""

    def __init__(self):
        self.factor = 0.5

    def __get__(self, owner, kind):
        return self.factor


class Halved(metaclass=Meta):
    half = Half()


def write_and_read(x, o):
    o.value = 3
    return x + o.value


def delete(x, o):
    del o.value
    return x + o.rate


def returns(value):
    return lambda *_: value


CLASS_CASES = [
    ("__bool__", returns(False), lambda x, o: x + 1 if o else x),
    ("__len__", returns(0), lambda x, o: x + 1 if o else x),
    ("__eq__", returns(True), lambda x, o: x + 1 if o == 1 else x),
    ("__ne__", returns(False), lambda x, o: x + 1 if o != 1 else x),
    ("__eq__", returns(True), lambda x, o: x + 1 if o in [1, 2] else x),
    ("__hash__", returns(1), lambda x, o: x + (hash(o) == 1)),
    ("__lt__", returns(True), lambda x, o: x + (hasattr(o, "v") or 1)),
    ("__getattr__", returns(5), lambda x, o: x + getattr(o, "missing", 1)),
    ("__getattribute__", returns(5), lambda x, o: x + o.value),
    ("__setattr__", returns(None), write_and_read),
    ("__delattr__", returns(None), delete),
    ("missing", 5, lambda x, o: x + getattr(o, "missing", 1)),
    ("missing", 5, lambda x, o: x + hasattr(type(o), "missing")),
    ("value", property(returns(7)), lambda x, o: x + o.value),
    ("rate", property(returns(7)), lambda x, o: x + o.rate),
    ("__str__", returns("abc"), lambda x, o: x + str(o).startswith("<")),
    ("__repr__", returns("abc"), lambda x, o: x + repr(o).startswith("<")),
    ("__format__", returns("abc"), lambda x, o: x + f"{o}".startswith("<")),
    ("__call__", returns(1), lambda x, o: x + callable(o)),
    ("__add__", returns(9), lambda x, o: x + (o + 1)),
    ("__radd__", returns(9), lambda x, o: x + (Base() + o)),
    ("__iter__", lambda self: iter([9]), lambda x, o: x + sum(list(o))),
    ("__contains__", returns(True), lambda x, o: x + (5 in o)),
    ("__new__", returns(types.SimpleNamespace(rate=4)), lambda x, o: x + Plain().rate),
    ("__init__", lambda self: setattr(self, "rate", 4), lambda x, o: x + Plain().rate),
]


@pytest.mark.parametrize("place", [Plain, Base], ids=["class", "base"])
@pytest.mark.parametrize("is_argument", [True, False])
@pytest.mark.parametrize("case", range(len(CLASS_CASES)))
def test_a_name_that_a_class_gets(case, is_argument, place, monkeypatch):
    name, value, function = CLASS_CASES[case]
    owner = Plain()
    owner.value = 1
    args = (X, owner) if is_argument else (X,)
    captured = trace(function if is_argument else lambda x: function(x, owner), args, {}, fullgraph=True)
    assert captured.check(args, {}), captured.explain_failure(args, {})
    monkeypatch.setattr(place, name, value, raising=False)
    assert not captured.check(args, {}) and captured.explain_failure(args, {})
    monkeypatch.undo()
    assert captured.check(args, {})


@pytest.mark.parametrize(
    ("place", "name", "value", "function"),
    [
        (Meta, "missing", 5, lambda x: x + getattr(Plain, "missing", 1)),
        (Meta, "__call__", returns(types.SimpleNamespace(rate=9)), lambda x: x + Plain().rate),
        (Meta, "__instancecheck__", returns(True), lambda x: x + isinstance(x, Plain)),
        (HoldingMeta, "__contains__", returns(True), lambda x: x + (1 in Holding)),
        (Halved, "half", 3, lambda x: x * Halved().half),
        (Halved, "half", property(returns(3)), lambda x: x * Halved().half),
        (vars(Halved)["half"], "factor", 3, lambda x: x * Halved().half),
        (Half, "__get__", returns(3), lambda x: x * Halved().half),
        (Half, "__set__", returns(None), lambda x: x * Halved().half),
        (helper, "flag", 5, lambda x: x + getattr(helper, "flag", 1)),
        (helper, "__defaults__", (5,), lambda x: x + helper.__defaults__[0]),
        (helper, "__name__", "h", lambda x: x + len(helper.__name__)),
        (MODULE, "missing", 5, lambda x: x + getattr(MODULE, "missing", 1)),
    ],
    ids=range(13),
)
def test_a_name_that_something_else_gets(place, name, value, function, monkeypatch):
    captured = trace(function, (X,), {}, fullgraph=True)
    assert captured.check((X,), {})
    monkeypatch.setattr(place, name, value, raising=False)
    assert not captured.check((X,), {})


@pytest.mark.parametrize("is_argument", [True, False])
def test_slots_classes_and_bases_of_objects(is_argument):
    def check(owner, function, change):
        args = (X, owner) if is_argument else (X,)
        captured = trace(function if is_argument else lambda x: function(x, owner), args, {}, fullgraph=True)
        assert captured.check(args, {})
        change()
        assert not captured.check(args, {})

    slotted, plain = Slotted(), Plain()
    check(slotted, lambda x, o: x + getattr(o, "first", 1), lambda: setattr(slotted, "first", 5))
    check(plain, lambda x, o: x + o.rate, lambda: setattr(plain, "__class__", Other))

    class Low(Plain):
        pass

    low = Low()
    check(low, lambda x, o: x + o.rate, lambda: setattr(Low, "__bases__", (Other,)))
    check(low, lambda x, o: x + isinstance(o, Shape), lambda: Shape.register(Low))


def test_the_class_that_changed_is_named(monkeypatch):
    owner = Plain()
    captured = trace(lambda x: x + bool(owner), (X,), {})
    monkeypatch.setattr(Plain, "__bool__", returns(False), raising=False)
    assert "Plain with a change of __bool__" in captured.explain_failure((X,), {})
