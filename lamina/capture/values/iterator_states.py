"""Where iterators of itertools stand, read from their own memory, and iterators like them made anew.

    islice(it, 1, 9, 2), asked once     takes from it            (2, 8, 2): from where `it` is now
    product("ab", "cd"), asked once     values ("a", "b") ...    stands at (0, 0)

From Python 3.12 on they warn when they are asked how to copy them, from 3.14 on they cannot be asked. The
fields are those of CPython's Modules/itertoolsmodule.c. Each kind is read once in a known state, and is taken
not to be known where something else is found.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from lamina.capture.machine.signals import MISSING, Value

WORD = ctypes.sizeof(ctypes.c_ssize_t)
MOST_STEPS = 10_000
"""How often a new iterator is asked to bring it to where another one stands."""


@dataclass(frozen=True, slots=True)
class State:
    """iterators: what an iterator takes from. values: what it holds. position: integers, tuples of such."""

    iterators: tuple[Any, ...] = ()
    values: tuple[Any, ...] = ()
    position: tuple[Any, ...] = ()


def address_of(iterator: Any, place: int) -> int:
    """Where field number `place` behind the header lies."""
    return id(iterator) + object.__basicsize__ + place * WORD


def read_word(iterator: Any, place: int) -> int:
    return ctypes.c_ssize_t.from_address(address_of(iterator, place)).value


def read_flag(iterator: Any, place: int) -> bool:
    return bool(ctypes.c_int.from_address(address_of(iterator, place)).value)


def read_object(iterator: Any, place: int) -> Value:
    """The object in a field, or MISSING."""
    if not read_word(iterator, place):
        return MISSING
    return ctypes.py_object.from_address(address_of(iterator, place)).value


def read_words_at(iterator: Any, place: int, count: int) -> tuple[int, ...]:
    """Numbers in memory of their own that a field points to."""
    return tuple((ctypes.c_ssize_t * count).from_address(read_word(iterator, place)))


def read_islice(iterator: Any) -> State | None:
    inner = read_object(iterator, 0)
    start, stop, step, done = (read_word(iterator, place) for place in (1, 2, 3, 4))
    if inner is MISSING:
        return State(((),), (), (0, 0, 1))
    return State((inner,), (), (start - done, None if stop < 0 else stop - done, step))


def make_islice(state: State) -> Iterator[Value]:
    return itertools.islice(state.iterators[0], *state.position)


def read_count(iterator: Any) -> State | None:
    numbers = [each for each in gc.get_referents(iterator) if each is not type(iterator)]
    if any(type(each) is not int for each in numbers):
        return None
    found = re.fullmatch(r"count\((-?\d+)(?:, (-?\d+))?\)", repr(iterator))
    return None if found is None else State((), (), tuple(int(each) for each in found.groups("1")))


def make_count(state: State) -> Iterator[Value]:
    return itertools.count(*state.position)


def read_repeat(iterator: Any) -> State | None:
    left = read_word(iterator, 1)
    return State((), (read_object(iterator, 0),), () if left < 0 else (left,))


def make_repeat(state: State) -> Iterator[Value]:
    return itertools.repeat(state.values[0], *state.position)


def read_cycle(iterator: Any) -> State | None:
    inner, saved, index = read_object(iterator, 0), read_object(iterator, 1), read_word(iterator, 2)
    if inner is MISSING:
        return State((), (*saved[index:], *saved[:index]))
    # A copy by an older Python's `copy` remembers what it has yet to give.
    is_copy = itertools.cycle.__basicsize__ > object.__basicsize__ + 3 * WORD and read_flag(iterator, 3)
    return None if is_copy else State((inner,), tuple(saved))


def make_cycle(state: State) -> Iterator[Value]:
    return itertools.cycle(itertools.chain(*state.iterators, state.values))


def read_pairwise(iterator: Any) -> State | None:
    inner, old = read_object(iterator, 0), read_object(iterator, 1)
    return State(((),) if inner is MISSING else (inner,), () if old is MISSING else (old,))


def make_pairwise(state: State) -> Iterator[Value]:
    (inner,) = state.iterators
    return itertools.pairwise(itertools.chain(state.values, inner) if state.values else inner)


def read_compress(iterator: Any) -> State | None:
    return State((read_object(iterator, 0), read_object(iterator, 1)))


def make_compress(state: State) -> Iterator[Value]:
    return itertools.compress(*state.iterators)


def read_zip_longest(iterator: Any) -> State | None:
    # Where one has come to its end the tuple has a hole.
    if read_word(iterator, 0) != read_word(iterator, 1):
        return None
    return State(read_object(iterator, 2), (read_object(iterator, 4),))


def make_zip_longest(state: State) -> Iterator[Value]:
    return itertools.zip_longest(*state.iterators, fillvalue=state.values[0])


def read_product(iterator: Any) -> State | None:
    if read_flag(iterator, 3):
        return State((), ((),), (None,))
    pools = read_object(iterator, 0)
    if read_object(iterator, 2) is MISSING:
        return State((), pools, (None,))
    is_long = math.prod(map(len, pools)) > MOST_STEPS
    return None if is_long else State((), pools, (read_words_at(iterator, 1, len(pools)),))


def read_selection(iterator: Any, result: int, count: Callable[[int, int], int]) -> State | None:
    """Of what takes some of a pool: the fields of the last result, of their number and of the end follow."""
    pool, taken = read_object(iterator, 0), read_word(iterator, result + 1)
    if read_flag(iterator, result + 2):
        return State((), (), (None, 1))
    if read_object(iterator, result) is MISSING:
        return State((), pool, (None, taken))
    places = len(pool) if type(iterator) is itertools.permutations else taken
    is_long = count(len(pool), taken) > MOST_STEPS
    return None if is_long else State((), pool, (read_words_at(iterator, 1, places), taken))


def make_steps(kind: Any, begin: Callable[[State], Iterator[Value]], state: State) -> Iterator[Value]:
    """An iterator that is known by the indices of what it gave last, asked until these are the same."""
    made = begin(state)
    while state.position[0] is not None:
        found = KINDS[kind].read(made)
        assert found is not None
        if found.position[0] == state.position[0]:
            break
        next(made)
    return made


def make_product(state: State) -> Iterator[Value]:
    return make_steps(itertools.product, lambda state: itertools.product(*state.values), state)


@dataclass(frozen=True, slots=True)
class Kind:
    """How a kind of iterator is read and made; a sample, and what is to be read of it."""

    read: Callable[[Any], State | None]
    make: Callable[[State], Iterator[Value]]
    sample: Callable[[Any], Iterator[Value]]
    steps: int
    expected: Callable[[Any], State]


def kind_of_selection(
    kind: Any, result: int, count: Callable[[int, int], int], steps: int, indices: tuple[int, ...]
) -> Kind:
    return Kind(
        partial(read_selection, result=result, count=count),
        partial(make_steps, kind, lambda state: kind(state.values, state.position[1])),
        lambda inner: kind("abc", 2),
        steps,
        lambda inner: State((), ("a", "b", "c"), (indices, 2)),
    )


KINDS: dict[Any, Kind] = {
    itertools.islice: Kind(
        read_islice,
        make_islice,
        lambda inner: itertools.islice(inner, 3, 50, 7),
        2,
        lambda inner: State((inner,), (), (6, 39, 7)),
    ),
    itertools.count: Kind(
        read_count, make_count, lambda inner: itertools.count(5, -2), 3, lambda inner: State((), (), (-1, -2))
    ),
    itertools.repeat: Kind(
        read_repeat,
        make_repeat,
        lambda inner: itertools.repeat("a", 7),
        3,
        lambda inner: State((), ("a",), (4,)),
    ),
    itertools.cycle: Kind(
        read_cycle,
        make_cycle,
        lambda inner: itertools.cycle("abc"),
        5,
        lambda inner: State((), ("c", "a", "b")),
    ),
    itertools.pairwise: Kind(
        read_pairwise, make_pairwise, itertools.pairwise, 2, lambda inner: State((inner,), (3,))
    ),
    itertools.compress: Kind(
        read_compress,
        make_compress,
        lambda inner: itertools.compress(inner, inner),
        2,
        lambda inner: State((inner, inner)),
    ),
    itertools.zip_longest: Kind(
        read_zip_longest,
        make_zip_longest,
        lambda inner: itertools.zip_longest(inner, inner, fillvalue="a"),
        1,
        lambda inner: State((inner, inner), ("a",)),
    ),
    itertools.product: Kind(
        read_product,
        make_product,
        lambda inner: itertools.product("ab", "cde"),
        5,
        lambda inner: State((), (("a", "b"), ("c", "d", "e")), ((1, 1),)),
    ),
    itertools.combinations: kind_of_selection(itertools.combinations, 2, math.comb, 2, (0, 2)),
    itertools.combinations_with_replacement: kind_of_selection(
        itertools.combinations_with_replacement,
        2,
        lambda pool, taken: math.comb(pool + taken, taken),
        3,
        (0, 2),
    ),
    itertools.permutations: kind_of_selection(itertools.permutations, 3, math.perm, 2, (0, 2, 1)),
}
"""What is known of the iterators of itertools."""


def is_as_known(kind: Kind) -> bool:
    """Whether the fields of a kind lie where this module takes them to be."""
    inner = iter(range(1, 99))
    sample = kind.sample(inner)
    for _ in range(kind.steps):
        next(sample)
    return kind.read(sample) == kind.expected(inner)


KNOWN = tuple(kind for kind, known in KINDS.items() if is_as_known(known))
"""Kinds of iterators that can be read."""


def read_state(iterator: Any) -> State | None:
    """Where an iterator of a known kind stands; None where that is not to be told."""
    return KINDS[type(iterator)].read(iterator)


def remake(
    kind: type, iterators: tuple[Any, ...], values: tuple[Any, ...], position: tuple[Any, ...]
) -> Iterator[Value]:
    """An iterator that stands where another one does."""
    return KINDS[kind].make(State(iterators, values, position))
