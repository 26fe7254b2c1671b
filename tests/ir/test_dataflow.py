"""Dataflow against brute force: every path of random control flow graphs, walked one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator

import pytest

from lamina.ir.core import Block, Operation, Region, Value
from lamina.ir.dominance import successors
from lamina.ir.facts import (
    AVAILABLE,
    LIVENESS,
    REACHING,
    available_expressions,
    buffer_behind,
    liveness,
    outer_uses,
    reaching_definitions,
    written_buffers,
)
from lamina.ir.passes import Context, Pass, PassManager, chain
from lamina.ir.text import parse
from lamina.ir.types import MemRefType, f32, i1, index

BUFFER = MemRefType.get((4,), f32)


def random_function(seed: int) -> Region:
    """Up to five blocks that load, store, add and overwrite two buffers, and jump at random."""
    generator = random.Random(seed)
    entry = Block([BUFFER, BUFFER, f32, index, i1])
    region = Region([entry, *(Block() for _ in range(generator.randint(0, 4)))])
    a, b, x, i, condition = entry.arguments
    values: list[Value] = [x]
    for block in region.blocks:
        own: list[Value] = [x]
        for _ in range(generator.randint(0, 3)):
            buffer = generator.choice([a, b])
            kind = generator.choice(["load", "store", "add", "copy"])
            if kind == "load":
                made = Operation("memref.load", [buffer, i], [f32])
            elif kind == "store":
                made = Operation("memref.store", [generator.choice(own), buffer, i])
            elif kind == "copy":
                made = Operation("program.copy", [a if buffer is b else b, buffer])
            else:
                made = Operation("arith.addf", [generator.choice(own), generator.choice(values)], [f32])
            block.append(made)
            own += made.results
        if block is entry:
            values += own
        targets = [generator.choice(region.blocks[1:]) for _ in range(2)] if len(region.blocks) > 1 else []
        _end(block, generator, targets, condition)
    return region


def _end(block: Block, generator: random.Random, targets: list[Block], condition: Value) -> None:
    choice = generator.randint(0, 3) if targets else 0
    if choice == 0:
        block.append(Operation("func.return"))
    elif choice == 1:
        block.append(Operation("cf.br", successors=targets[:1]))
    else:
        sizes = {"operandSegmentSizes": [1, 0, 0]}
        block.append(Operation("cf.cond_br", [condition], (), sizes, (), targets))


def paths(start: Block) -> Iterator[list[Block]]:
    """Every path of blocks in which no jump is taken more than twice: enough for two facts to meet."""

    def follow(path: list[Block], used: Counter[tuple[Block, Block]]) -> Iterator[list[Block]]:
        yield path
        for target in dict.fromkeys(successors(path[-1])):
            step = path[-1], target
            if used[step] < 2:
                yield from follow([*path, target], used + Counter([step]))

    yield from follow([start], Counter())


def operations_along(path: list[Block]) -> list[Operation]:
    return [operation for block in path for operation in block]


SEEDS = range(60)


@pytest.mark.parametrize("seed", SEEDS)
def test_reaching_definitions_are_those_of_some_path(seed: int) -> None:
    region = random_function(seed)
    expected: dict[Operation, set[object]] = {}
    for path in paths(region.blocks[0]):
        reaching: dict[tuple[Value, Operation], None] = {}
        for operation in operations_along(path):
            expected.setdefault(operation, set()).update(reaching)
            for buffer in written_buffers(operation):
                if operation.name == "program.copy":
                    reaching = {each: None for each in reaching if each[0] is not buffer}
                reaching[buffer, operation] = None
    solution = reaching_definitions(region)
    found = {at: before for block in region.blocks for at, before, _ in solution.walk(block)}
    assert {at: found[at] for at in expected} == expected
    assert all(not facts for at, facts in found.items() if at not in expected and at is at.parent.first)  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", SEEDS)
def test_available_expressions_are_those_of_all_paths(seed: int) -> None:
    region = random_function(seed)
    expected: dict[Operation, set[Operation]] = {}
    for path in paths(region.blocks[0]):
        known: set[Operation] = set()
        for operation in operations_along(path):
            expected[operation] = known & expected.get(operation, known)
            if operation.name in ("memref.store", "program.copy"):
                known = {each for each in known if each.name != "memref.load"}
            elif operation.results:
                known = known | {operation}
    solution = available_expressions(region)
    found = {at: before for block in region.blocks for at, before, _ in solution.walk(block)}
    assert {at: found[at] for at in expected} == expected
    assert all(facts is None for at, facts in found.items() if at not in expected)


@pytest.mark.parametrize("seed", SEEDS)
def test_live_values_are_used_on_some_path(seed: int) -> None:
    region = random_function(seed)
    solution = liveness(region)
    for block in region.blocks:
        expected: set[Value] = set()
        for path in paths(block):
            operations = operations_along(path[1:])
            defined: set[Value] = set()
            for operation in operations:
                expected |= set(operation.operands) - defined
                defined |= set(operation.results)
        assert solution.at_end[block] == expected
        after_last = [after for _, _, after in solution.walk(block)][-1]
        assert after_last == expected


def test_facts_between_operations() -> None:
    region = random_function(3)
    block = next(block for block in region.blocks if len(block) > 2)
    solution = liveness(region)
    first = block.first
    assert first is not None and first.next is not None
    assert solution.after(first) == solution.before(first.next)


LOOP = """"func.func"() ({
^bb0(%m: memref<8xf32>, %o: memref<8xf32>, %l: index, %x: f32):
  %v = "memref.reinterpret_cast"(%o) {operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: 0>,
      static_sizes = array<i64: 4>, static_strides = array<i64: 1>} : (memref<8xf32>) -> memref<4xf32>
  %s = "scf.for"(%l, %l, %l, %x) ({
  ^bb0(%i: index, %a: f32):
    %y = "memref.load"(%m, %i) : (memref<8xf32>, index) -> f32
    %z = "arith.addf"(%y, %a) : (f32, f32) -> f32
    "memref.store"(%z, %v, %i) : (f32, memref<4xf32>, index) -> ()
    "scf.yield"(%z) : (f32) -> ()
  }) : (index, index, index, f32) -> f32
  "func.return"() : () -> ()
}) {function_type = (memref<8xf32>, memref<8xf32>, index, f32) -> (), sym_name = "f"} : () -> ()
"""


def test_nested_regions_count_for_the_operation_that_holds_them() -> None:
    function = parse(LOOP)
    memory, out, bound, x = function.body.arguments
    view, loop, _ = function.body
    assert outer_uses(loop) == {memory, view.result, bound, x}
    assert written_buffers(loop) == [out] and buffer_behind(view.result) is out
    solution = liveness(function.region)
    assert solution.before(loop) == {memory, view.result, bound, x} and solution.after(loop) == frozenset()
    assert reaching_definitions(function.region).after(loop) == {(out, loop)}


def test_as_analyses_they_are_shared_and_compared() -> None:
    function, context = parse(LOOP), Context()
    for analysis in (LIVENESS, REACHING, AVAILABLE):
        assert context.analyses.get(analysis, function) is context.analyses.get(analysis, function)  # type: ignore[arg-type]
    names = frozenset({"liveness", "reaching definitions", "available expressions"})
    keep = Pass("keep", lambda module, context: None, preserves=names)
    PassManager(pipeline=chain(keep), check_preserved=True).run(function, context)
    assert context.analyses.computed == 3
