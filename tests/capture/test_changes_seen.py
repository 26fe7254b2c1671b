"""What a program reads, and may be changed between its calls: each call gives what eager gives.

A case makes a function and what to do before each of its calls; the function takes a tensor.
"""

from __future__ import annotations

import builtins
import contextlib
import enum
import gc
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import lamina
from tests.capture.equality import differ

X = torch.arange(1.0, 4.0)
Case = tuple[Callable[..., Any], list[Callable[[], Any]]]


def nothing() -> None:
    """Before a first call."""


class Named:
    """Equal to itself only."""

    number = 1


class Hashed:
    """Hashed and compared by its number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __hash__(self) -> int:
        return hash(self.number)

    def __eq__(self, other: object) -> bool:
        return self.number == other


def attribute_of_a_module_in_a_reversed_list() -> Case:
    layers = torch.nn.ModuleList([torch.nn.Hardtanh(0.0, 2.0), torch.nn.LeakyReLU(0.5)])

    def program(x):
        for layer in reversed(layers):
            x = layer(x)
        return x

    return program, [
        nothing,
        lambda: setattr(layers[0], "max_val", 1.5),
        lambda: layers.append(torch.nn.Hardtanh(2.0, 3.0)),
    ]


def attribute_of_a_key() -> Case:
    key = Named()
    table = {key: 1}

    def program(x):
        for each in table:
            x = x * each.number
        return x

    return program, [nothing, lambda: setattr(key, "number", 3)]


def written_attribute_of_a_key() -> Case:
    key = Named()
    table = {key: 1}

    def program(x):
        for each in table:
            each.number = each.number + 1
        return x * key.number

    return program, [nothing] * 3


def key_with_a_hash_of_its_own() -> Case:
    key = Hashed(1)
    table = {1: 10, 2: 20, 3: 30}

    def program(x):
        key.number = key.number + 1
        return x * table.get(key, 7) + (key in table)

    return program, [nothing] * 4


def keys_with_hashes_of_their_own() -> Case:
    keys = [Hashed(1), Hashed(2)]
    table = dict(zip(keys, (10, 20), strict=True))

    def program(x):
        return x * table.get(1, 7)

    return program, [nothing, lambda: setattr(keys[0], "number", 5)]


def key_in_a_dict_made_inside() -> Case:
    key = Hashed(1)

    def program(x):
        return x * {1: 10, 2: 20, key: 5}[2] + len({key, 1})

    return program, [nothing, lambda: setattr(key, "number", 2)]


def constants_in_a_key() -> Case:
    table: dict[Any, int] = {(1, 2): 3}

    def program(x):
        return [type(each) for key in table for each in key], x

    def change() -> None:
        table.clear()
        table[True, 2] = 3

    return program, [nothing, change]


def hook_of_a_class_made_inside() -> Case:
    made = []

    class Base:
        def __init_subclass__(cls) -> None:
            made.append(1)

    def program(x):
        class Derived(Base):
            pass

        return x + len(made) + len(Derived.__mro__)

    return program, [nothing] * 2


def descriptor_that_is_told_its_name() -> Case:
    told = []

    class Descriptor:
        def __set_name__(self, owner, name) -> None:
            told.append(name)

    def program(x):
        class Holder:
            value = Descriptor()

        return x + len(told), Holder.__name__

    return program, [nothing] * 2


def counting(log):
    try:
        yield 1
        yield 2
    finally:
        log.append(1)


def generator_left_at_the_end() -> Case:
    log: list[int] = []

    def program(x):
        numbers = counting(log)
        return x + next(numbers) + len(log)

    return program, [nothing] * 3


def generator_left_in_a_loop() -> Case:
    log: list[int] = []

    def program(x):
        for number in counting(log):
            x = x + number
            break
        return x + len(log)

    return program, [nothing] * 3


def object_with_a_finalizer() -> Case:
    state = Named()

    class Closing:
        def __del__(self) -> None:
            state.number += 1

    def program(x):
        x = x + state.number
        closing = Closing()
        return x * (2 if closing else 1)

    return program, [nothing] * 3


def switches_of_torch() -> Case:
    def program(x):
        x = x + torch.are_deterministic_algorithms_enabled() + 2 * torch.backends.cudnn.enabled
        return x + 4 * (torch.get_float32_matmul_precision() == "high") + 8 * torch.get_num_threads()

    return program, [
        nothing,
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
        lambda: torch._C._set_cudnn_enabled(False),
        lambda: torch.set_float32_matmul_precision("high"),
    ]


class Level(enum.Enum):
    LOW = 1


def value_of_an_enum_member() -> Case:
    return lambda x: x * Level.LOW.value, [nothing, lambda: setattr(Level.LOW, "_value_", 4)]


def object_of_a_native_class() -> Case:
    space = types.SimpleNamespace(number=1)

    def program(x):
        return x * space.number + hasattr(space, "late")

    return program, [nothing, lambda: setattr(space, "number", 2), lambda: setattr(space, "late", 2)]


def attribute_of_a_tensor() -> Case:
    tensor: Any = torch.ones(3)

    def program(x):
        return x * tensor * getattr(tensor, "scale", 2)

    return program, [nothing, lambda: setattr(tensor, "scale", 3), lambda: delattr(tensor, "scale")]


def imported_module() -> Case:
    def put(value: int) -> None:
        module: Any = types.ModuleType("a_changing_module")
        module.VALUE = value
        sys.modules["a_changing_module"] = module

    def program(x):
        from a_changing_module import VALUE

        return x * VALUE

    return program, [lambda: put(2), lambda: put(3)]


def module_that_is_not_there() -> Case:
    def program(x):
        try:
            import a_missing_module
        except ImportError:
            return x
        return x * a_missing_module.VALUE

    def make() -> None:
        sys.modules["a_missing_module"] = types.ModuleType("a_missing_module")
        sys.modules["a_missing_module"].VALUE = 2  # type: ignore[attr-defined]

    return program, [nothing, make, lambda: sys.modules.pop("a_missing_module")]


def entry_of_a_large_dict() -> Case:
    table = {f"name {number}": number for number in range(300)}

    def program(x):
        return x + ("name 7" in table) + 2 * ("other" in table)

    return program, [nothing, lambda: table.pop("name 7"), lambda: table.update(other=1)]


def late_attributes_of_a_module() -> Case:
    module: Any = types.ModuleType("a_module")

    def program(x):
        return x * getattr(module, "late", 2)

    return program, [
        nothing,
        lambda: setattr(module, "__getattr__", lambda name: len(name)),
        lambda: setattr(module, "__getattr__", lambda name: 1),
        lambda: setattr(module, "late", 7),
    ]


def name_added_to_the_builtins() -> Case:
    def program(x):
        return x * a_name_of_ours  # type: ignore[name-defined]  # noqa: F821

    return program, [lambda n=n: setattr(builtins, "a_name_of_ours", n) for n in (2, 3)]  # type: ignore[misc]


def names_of_functions_and_classes() -> Case:
    class Kind:
        pass

    def function(a: int) -> None:
        """A text."""

    def program(x):
        named = (function.__name__, function.__doc__, Kind.__name__, Kind.__qualname__, Kind.__module__)
        return x, named, list(function.__annotations__), len(Kind.__subclasses__())

    kept = []
    return program, [
        nothing,
        lambda: setattr(function, "__doc__", "Another."),
        lambda: function.__annotations__.update(b=int),
        lambda: setattr(Kind, "__name__", "Other"),
        lambda: setattr(Kind, "__qualname__", "Other"),
        lambda: setattr(Kind, "__module__", "other"),
        lambda: kept.append(type("Derived", (Kind,), {})),
    ]


def data_descriptor_in_the_place_of_a_default() -> Case:
    class Kind:
        rate: Any = 1

    made = Kind()
    made.rate = 2

    def program(x):
        return x * made.rate

    return program, [nothing, lambda: setattr(Kind, "rate", property(lambda self: 5))]


def descriptor_that_becomes_one_of_data() -> Case:
    class Rate:
        def __get__(self, owner, kind):
            return 5

    class Kind:
        rate = Rate()

    made = Kind()
    made.rate = 2

    def program(x):
        return x * made.rate

    return program, [nothing, lambda: setattr(Rate, "__set__", lambda self, owner, value: None)]


def own_attribute_in_the_place_of_a_buffer() -> Case:
    module = torch.nn.BatchNorm1d(3)

    def program(x):
        return x + module.running_mean + len(module._buffers)

    return program, [
        nothing,
        lambda: module.__dict__.update(running_mean=torch.ones(3)),
        lambda: module.__dict__.pop("running_mean"),
        lambda: module.__dict__.update(_buffers={"running_mean": torch.full((3,), 2.0)}),
    ]


CASES = [
    attribute_of_a_key,
    attribute_of_a_module_in_a_reversed_list,
    written_attribute_of_a_key,
    key_with_a_hash_of_its_own,
    keys_with_hashes_of_their_own,
    key_in_a_dict_made_inside,
    constants_in_a_key,
    hook_of_a_class_made_inside,
    descriptor_that_is_told_its_name,
    generator_left_at_the_end,
    generator_left_in_a_loop,
    object_with_a_finalizer,
    switches_of_torch,
    value_of_an_enum_member,
    object_of_a_native_class,
    attribute_of_a_tensor,
    imported_module,
    module_that_is_not_there,
    entry_of_a_large_dict,
    late_attributes_of_a_module,
    name_added_to_the_builtins,
    names_of_functions_and_classes,
    data_descriptor_in_the_place_of_a_default,
    descriptor_that_becomes_one_of_data,
    own_attribute_in_the_place_of_a_buffer,
]


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Put back what the cases change for everybody."""
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    # A case's own garbage is what matters: the collector need not look at all that was there before.
    gc.freeze()
    yield
    gc.unfreeze()
    torch.use_deterministic_algorithms(False)
    torch._C._set_cudnn_enabled(True)
    torch.set_float32_matmul_precision(precision)
    torch.set_num_threads(threads)
    Level.LOW._value_ = 1
    for name in ("a_changing_module", "a_missing_module"):
        sys.modules.pop(name, None)
    with contextlib.suppress(AttributeError):
        del builtins.a_name_of_ours  # type: ignore[attr-defined]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_changes_are_seen(case: Callable[[], Case]) -> None:
    (program, changes), (same, same_changes) = case(), case()
    fast = lamina.compile(program, backend=lambda graph, inputs: graph)
    is_shared = case in (imported_module, module_that_is_not_there, value_of_an_enum_member)
    with torch.no_grad():
        for change, other in zip(changes, same_changes, strict=True):
            change()
            if not is_shared:
                other()
            got, expected = fast(X), same(X)
            gc.collect()
            assert not differ(got, expected), (got, expected)


def of_a_negative_base(x, k):
    return x * (-8.0) ** k


def compared_quotient(x, k):
    try:
        return x * 2 if 1 / k > 0.3 else x * 3
    except ZeroDivisionError:
        return x * 5


def caught_division(x, k):
    try:
        return x * (1 / k)
    except ZeroDivisionError:
        return x * 5


def caught_integer_division(x, k):
    try:
        return x * (7 // (k - 4)) + k % (k - 5)
    except ZeroDivisionError:
        return x * 5


@pytest.mark.parametrize(
    ("program", "values"),
    [
        (of_a_negative_base, (2.0, 3.0, 4.0, 0.5)),
        (compared_quotient, (2.0, 3.0, 4.0, 0.0, 5.0)),
        (caught_division, (2.0, 3.0, 4.0, 0.0, 5.0)),
        (caught_integer_division, (7, 8, 9, 4, 5, 6)),
    ],
)
def test_a_varying_number_at_which_arithmetic_fails(program, values):
    fast = lamina.compile(program, backend=lambda graph, inputs: graph)
    for value in values:
        got, expected = fast(X, value), program(X, value)
        assert not differ(got, expected), (value, got, expected)


def test_a_negative_base_in_the_text_of_a_graph():
    fast = lamina.compile(lambda x: (-2.0) ** x, backend=lambda graph, inputs: graph)
    assert torch.equal(fast(X), (-2.0) ** X)


class Whole(int):
    pass


class Text(str):
    pass


class Row(tuple):
    __slots__ = ()


class Table(dict):
    @property
    def doubled(self):
        return self["a"] * 2


def test_objects_of_classes_derived_from_builtin_ones_are_told_apart():
    def program(x, value):
        if isinstance(value, dict):
            return x * value.doubled + hasattr(value, "late")
        return x * (value[0] if isinstance(value, tuple) else len(value) if isinstance(value, str) else value)

    table, late = Table(a=2), Table(a=2)
    late.late = 1
    for values in (
        (Whole(3), Whole(4), Text("a"), Text("ab"), Row((1, 2)), Row((2, 2))),
        (table, late, Table(a=3)),
    ):
        fast = lamina.compile(program, backend=lambda graph, inputs: graph)
        for value in values:
            assert torch.equal(fast(X, value), program(X, value)), value
