"""Builtins that iterate, order or fold: the program's functions and comparisons run in the machine."""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any

from lamina.capture.machine.origins import call_natively, step_natively
from lamina.capture.machine.signals import MISSING, Value
from lamina.capture.values.attributes import find_in_type, is_native_type
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.iteration import (
    MachineIterator,
    as_lazy_iterable,
    as_native_callable,
    as_native_iterable,
    is_iterable,
    take_all,
    walk_entries,
)
from lamina.capture.values.operators import compares_in_python, find_equal

PLAIN = (list, tuple, set, frozenset, dict, range)
"""Containers that may be walked through more than once without running anything."""
MethodModel = Callable[[Any, Any, Value, Arguments, Keywords], Value]
"""Takes (world, bound method, its owner, arguments, keywords)."""


def consume_iterables(native: Any) -> Model:
    """Arguments are iterated by C code: hand them over in a native form."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        taken = tuple(as_native_iterable(world, value) for value in arguments)
        return world.call_native(native, taken, keywords)

    return model


def model_chain(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    taken = tuple(as_lazy_iterable(world, value) for value in arguments)
    return world.call_native(itertools.chain, taken, keywords)


def chain_from_iterable(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) != 1 or keywords:
        return world.call_native(itertools.chain.from_iterable, arguments, keywords)
    parts = (as_lazy_iterable(world, part) for part in step_natively(as_native_iterable(world, arguments[0])))
    return world.call_native(itertools.chain.from_iterable, (parts,), {})


def apply_function(native: Any) -> Model:
    """`native(function, *iterables)`."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        if not arguments:
            return world.call_native(native, arguments, keywords)
        taken = tuple(as_native_iterable(world, value) for value in arguments[1:])
        return world.call_native(native, (as_native_callable(world, arguments[0]), *taken), keywords)

    return model


def apply_function_last(native: Any, name: str) -> Model:
    """`native(iterable, function)`, the function also by the keyword `name`."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        taken = tuple(as_native_iterable(world, value) for value in arguments[:1])
        rest = tuple(as_native_callable(world, value) for value in arguments[1:])
        if name in keywords:
            keywords = {**keywords, name: as_native_callable(world, keywords[name])}
        return world.call_native(native, (*taken, *rest), keywords)

    return model


def pick_extreme(native: Any, symbol: str) -> Model:
    """min and max: the key function and Python-level comparisons run in the machine."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        is_listed = len(arguments) == 1
        if not arguments or set(keywords) - {"key", "default"} or ("default" in keywords and not is_listed):
            return world.call_native(native, arguments, keywords)
        key = keywords.get("key")
        items = as_native_iterable(world, arguments[0]) if is_listed else arguments
        if key is None and type(items) in PLAIN and all(is_native_type(type(item)) for item in items):
            rest = {name: value for name, value in keywords.items() if name == "default"}
            return world.call_native(native, (items,), rest)
        best = rank = MISSING
        # As in CPython, an item's rank is asked for and compared before the next item is.
        for item in step_natively(items):
            own = item if key is None else world.call(key, (item,), {})
            if rank is MISSING or world.truth(world.compare(symbol, own, rank)):
                best, rank = item, own
        if best is not MISSING:
            return best
        return keywords["default"] if "default" in keywords else world.call_native(native, ((),), {})

    return model


class Rank:
    """A sort key whose `<` is the machine's."""

    __slots__ = ("value", "world")
    __machine_native__ = True

    def __init__(self, world: Any, value: Value) -> None:
        self.world = world
        self.value = value

    def __lt__(self, other: Rank) -> bool:
        return bool(self.world.truth(self.world.compare("<", self.value, other.value)))


def order(world: Any, items: list[Value], keywords: Keywords) -> list[Value]:
    """The items sorted: `keywords` are those of `sorted`."""
    key = keywords.get("key")
    rest = {name: value for name, value in keywords.items() if name != "key"}
    ranks = items if key is None else [world.call(key, (item,), {}) for item in items]
    if any(compares_in_python(type(rank), "__lt__") for rank in ranks):
        ranks = [Rank(world, rank) for rank in ranks]
    elif key is None:
        return list(world.call_native(sorted, (items,), rest))
    places = world.call_native(sorted, (range(len(items)),), {**rest, "key": ranks.__getitem__})
    return [items[place] for place in places]


def model_sorted(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return order(world, call_natively(list, as_native_iterable(world, arguments[0])), keywords)


def sort_list(world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """`list.sort`, which itself sees whether somebody changes the list meanwhile."""
    key = keywords.get("key")
    if key is None and not any(compares_in_python(type(item), "__lt__") for item in list.__iter__(owner)):
        return world.call_native(native, arguments, keywords)

    def rank(item: Value) -> Rank:
        return Rank(world, item if key is None else world.call(key, (item,), {}))

    return world.call_native(native, arguments, {**keywords, "key": rank})


def model_cmp_to_key(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    functions = tuple(as_native_callable(world, value) for value in arguments)
    return world.call_native(functools.cmp_to_key, functions, keywords)


def model_any(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return any(world.truth(item) for item in step_natively(as_native_iterable(world, arguments[0])))


def model_all(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    return all(world.truth(item) for item in step_natively(as_native_iterable(world, arguments[0])))


def model_sum(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    total = arguments[1] if len(arguments) > 1 else keywords.get("start", 0)
    if isinstance(total, (str, bytes, bytearray)):
        return world.call_native(sum, arguments, keywords)
    items = take_all(world, arguments[0])
    if all(type(item) in (int, float, bool, complex) for item in items):
        return world.call_native(sum, (items, total), {})
    for item in items:
        total = world.binary("+", total, item)
    return total


def model_reduce(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    function, iterable, *initial = arguments
    if not is_iterable(iterable):
        return world.call_native(functools.reduce, arguments, keywords)
    iterator = step_natively(as_native_iterable(world, iterable))
    if initial:
        value = initial[0]
    else:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    for item in iterator:
        value = world.call(function, (value, item), {})
    return value


def model_iter(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if len(arguments) == 2:
        return world.call_native(iter, (as_native_callable(world, arguments[0]), arguments[1]), {})
    return world.iterate(arguments[0])


def model_next(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    if find_in_type(type(arguments[0]), "__next__") is MISSING:
        raise TypeError(f"{type(arguments[0]).__name__!r} object is not an iterator")
    if len(arguments) == 1:
        return world.advance(arguments[0])
    try:
        return world.advance(arguments[0])
    except StopIteration as error:
        world.check_origin(error)
        return arguments[1]


FUNCTIONAL: dict[Any, Model] = {
    iter: model_iter,
    next: model_next,
    enumerate: consume_iterables(enumerate),
    zip: consume_iterables(zip),
    map: apply_function(map),
    filter: apply_function(filter),
    itertools.chain: model_chain,
    itertools.chain.from_iterable: chain_from_iterable,
    itertools.product: consume_iterables(itertools.product),
    itertools.islice: consume_iterables(itertools.islice),
    itertools.cycle: consume_iterables(itertools.cycle),
    itertools.pairwise: consume_iterables(itertools.pairwise),
    itertools.zip_longest: consume_iterables(itertools.zip_longest),
    itertools.compress: consume_iterables(itertools.compress),
    itertools.permutations: consume_iterables(itertools.permutations),
    itertools.combinations: consume_iterables(itertools.combinations),
    itertools.combinations_with_replacement: consume_iterables(itertools.combinations_with_replacement),
    itertools.tee: consume_iterables(itertools.tee),
    itertools.starmap: apply_function(itertools.starmap),
    itertools.takewhile: apply_function(itertools.takewhile),
    itertools.dropwhile: apply_function(itertools.dropwhile),
    itertools.filterfalse: apply_function(itertools.filterfalse),
    itertools.accumulate: apply_function_last(itertools.accumulate, "func"),
    itertools.groupby: apply_function_last(itertools.groupby, "key"),
    functools.reduce: model_reduce,
    functools.cmp_to_key: model_cmp_to_key,
    sorted: model_sorted,
    min: pick_extreme(min, "<"),
    max: pick_extreme(max, ">"),
    any: model_any,
    all: model_all,
    sum: model_sum,
}


# methods of containers: models get the method itself and its owner


def consume_iterables_of_method(
    world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords
) -> Value:
    """A method whose arguments C code iterates."""
    taken = tuple(as_native_iterable(world, value) for value in arguments)
    return world.call_native(native, taken, keywords)


def join_strings(world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords) -> Value:
    """`join` lists what `iter` gives, and asks that for its length, not the iterable."""
    taken = [as_native_iterable(world, value) for value in arguments]
    if taken and type(taken[0]) is MachineIterator:
        taken[0] = MachineIterator(world, taken[0].iterator, taken[0].iterator)
    return world.call_native(native, tuple(taken), keywords)


def search_with(search: Callable[[Any, Any, Value], Value]) -> MethodModel:
    """index, count, remove: Python-level equality runs in the machine."""

    def model(world: Any, native: Any, owner: Value, arguments: Arguments, keywords: Keywords) -> Value:
        is_simple = len(arguments) == 1 and not keywords
        if is_simple and any(not is_native_type(type(item)) for item in (*walk_entries(owner), *arguments)):
            return search(world, owner, arguments[0])
        return world.call_native(native, arguments, keywords)

    return model


def search_index(world: Any, owner: Any, item: Value) -> int:
    for index, element in enumerate(walk_entries(owner)):
        if find_equal(world, (element,), item):
            return index
    if isinstance(owner, tuple):
        raise ValueError("tuple.index(x): x not in tuple")
    raise ValueError(f"{world.to_repr(item)} is not in {'deque' if isinstance(owner, deque) else 'list'}")


def search_count(world: Any, owner: Any, item: Value) -> int:
    return sum(find_equal(world, (element,), item) for element in walk_entries(owner))


def search_remove(world: Any, owner: Any, item: Value) -> None:
    for index, element in enumerate(walk_entries(owner)):
        if find_equal(world, (element,), item):
            list.__delitem__(owner, index)
            return
    raise ValueError("list.remove(x): x not in list")


SET_READERS = (
    "union",
    "intersection",
    "difference",
    "symmetric_difference",
    "issubset",
    "issuperset",
    "isdisjoint",
)
SET_WRITERS = (
    "update",
    "intersection_update",
    "difference_update",
    "symmetric_difference_update",
    "__init__",
)
CONSUMING: dict[type, tuple[str, ...]] = {
    list: ("extend", "__init__", "__iadd__"),
    bytearray: ("extend",),
    deque: ("extend", "extendleft", "__init__"),
    set: SET_READERS + SET_WRITERS,
    frozenset: SET_READERS,
}
METHODS: dict[tuple[type, str], MethodModel] = {
    **{(kind, name): consume_iterables_of_method for kind, names in CONSUMING.items() for name in names},
    **{(kind, "join"): join_strings for kind in (str, bytes, bytearray)},
    (list, "sort"): sort_list,
    (list, "index"): search_with(search_index),
    (tuple, "index"): search_with(search_index),
    (list, "count"): search_with(search_count),
    (tuple, "count"): search_with(search_count),
    (list, "remove"): search_with(search_remove),
}
"""Models of methods of builtin types."""
