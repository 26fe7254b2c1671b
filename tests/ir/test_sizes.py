"""Symbolic sizes: normal forms, what algebra decides, what is decided by the sizes at hand, text."""

from __future__ import annotations

import random

import pytest

from lamina.ir.attributes import attribute, integers, plain
from lamina.ir.sizes import (
    LEAST,
    Condition,
    Decisions,
    SymbolicSize,
    UndecidedSize,
    deciding,
    hint,
    is_known_equal,
    is_known_multiple,
    lower_bound,
    value_of,
)
from lamina.ir.text import parse_type
from lamina.ir.types import MemRefType, TensorType, f32, row_major_strides

s0, s1 = SymbolicSize.get("s0"), SymbolicSize.get("s1")


def test_equal_expressions_are_one_object():
    assert 1 + s0 is s0 + 1
    assert 2 * s0 - s0 is s0
    assert (s0 + s1) * s0 is s0 * s0 + s1 * s0
    assert s0 - s0 == 0 and isinstance(s0 - s0, int)
    assert (8 * s0 * s1) // (4 * s1) is 2 * s0
    assert (s0 - 1) // s0 == 0 and (s0 + 1) // s0 == 1
    assert (6 * s0 + 5) // 3 is 2 * s0 + 1


def build(source: random.Random, leaves: list[object], depth: int = 3) -> object:
    """A random expression over sizes or numbers: the same one for sources in the same state."""
    if depth == 0:
        return source.choice([*leaves, source.randint(1, 9)])
    left, right = build(source, leaves, depth - 1), build(source, leaves, depth - 1)
    match source.randrange(5):
        case 0:
            return left + right
        case 1:
            return left - right
        case 2:
            return left * right
        case 3:
            return left // source.randint(1, 7)
        case _:
            return left % source.randint(1, 7)


@pytest.mark.parametrize("seed", range(40))
def test_arithmetic_is_that_of_ints(seed):
    size, source = build(random.Random(seed), [s0, s1]), random.Random(seed)
    low = lower_bound(size)
    for _ in range(5):
        values = {"s0": source.randint(LEAST, 60), "s1": source.randint(LEAST, 60)}
        number = build(random.Random(seed), list(values.values()))
        assert value_of(size, values) == number
        assert low is None or low <= number
    if isinstance(size, SymbolicSize):
        SymbolicSize._interned.pop(size.name)
        assert SymbolicSize.get(size.name).terms == size.terms


def test_what_algebra_decides_needs_no_sizes():
    assert s0 > 1 and s0 != 0 and s0 * s1 > s0 and not 8 * s0 < s0
    assert max(s0, 1) is s0 and min(0, s0 - 2) == 0
    assert is_known_multiple(12 * s0, 4) and not is_known_multiple(s0, 4)
    assert is_known_equal(s0, s0) and not is_known_equal(s0, s1)


def test_nothing_is_equal_that_is_not_known_to_be():
    assert s0 != s1 and s0 != 8
    with pytest.raises(UndecidedSize, match="s0 - 8 < 0"):
        assert s0 < 8
    for use in (range, int, float):
        with pytest.raises((UndecidedSize, TypeError)):
            use(s0)


def test_decisions_by_the_sizes_at_hand_become_conditions():
    with deciding(Decisions({"s0": 3, "s1": 3})) as decisions:
        assert s0 == s1 and s0 < 8 and hint(s0 * s1) == 9
    conditions = list(decisions.conditions)
    assert [str(each) for each in conditions] == ["s0 - s1 == 0", "s0 - 8 < 0"]
    assert [Condition.read(str(each)) for each in conditions] == conditions
    assert all(each.holds({"s0": 5, "s1": 5}) for each in conditions)
    assert [each.holds({"s0": 9, "s1": 5}) for each in conditions] == [False, False]


def test_text_keeps_expressions():
    for type_ in (
        TensorType.get((s0 * s1, 8, s0 // 2 + 1), f32),
        MemRefType.get((s0, s1), f32),
        MemRefType.get((s0, s1), f32, (1, 2 * s0), s1 - 1),
    ):
        assert parse_type(str(type_)) is type_
    assert row_major_strides((s0, s1, 4)) == (4 * s1, 4, 1)
    assert plain(attribute([s0, 3])) == [s0, 3] and plain(integers(s0, 2)) == [s0, 2]
