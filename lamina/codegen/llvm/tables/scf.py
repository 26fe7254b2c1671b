"""`scf` -> blocks and branches. Loops are made in the rotated form: test, then body with the test at its end.

   scf.for %i = %a to %b step %s iter_args(%x = %x0)
=> cond_br (%a < %b), ^body(%a, %x0), ^exit(%x0)        (plain br when the bounds are constants and it runs)
   ^body(%i, %x):  ...  %n = %i + %s;  cond_br (%n < %b), ^body(%n, %y), ^exit(%y)
   ^exit(%result):
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lamina.codegen.llvm.lowering import Lowering, Rule
from lamina.codegen.llvm.types import lower_type
from lamina.errors import CompilerBug
from lamina.ir.attributes import DenseArrayAttr
from lamina.ir.core import Block, Operation, Value


def build_loop(
    lowering: Lowering,
    bounds: tuple[Value, Value, Value],
    start: Sequence[Value],
    body: Callable[[Value, list[Value]], Sequence[Value]],
) -> list[Value]:
    """A counted loop over lowered values; `body` gets the counter and the carried values, gives the next."""
    lower, upper, step = bounds
    first, last, stride = (lowering.known(bound) for bound in bounds)
    if first is not None and last is not None and stride is not None:
        if first >= last:
            return list(start)
        if first + stride >= last:
            return list(body(lower, list(start)))
    types = [value.type for value in start]
    inside, after = Block([lower.type, *types]), Block(types)
    lowering.region.append(inside)
    if first is not None and last is not None:
        lowering.branch(inside, (lower, *start))
    else:
        runs = lowering.compare_integers("slt", lower, upper)
        lowering.branch_if(runs, inside, (lower, *start), after, start)
    lowering.enter(inside)
    counter, *carried = inside.arguments
    results = list(body(counter, list(carried)))
    following = lowering.add(counter, step)
    again = lowering.compare_integers("slt", following, upper)
    lowering.region.append(after)
    lowering.branch_if(again, inside, (following, *results), after, results)
    lowering.enter(after)
    return list(after.arguments)


def _for(lowering: Lowering, operation: Operation) -> None:
    lower, upper, step, *start = lowering.operands(operation)
    source = operation.body

    def body(counter: Value, carried: list[Value]) -> list[Value]:
        lowering.values.update(zip(source.arguments, (counter, *carried), strict=True))
        return lowering.lower_block(source)

    results = build_loop(lowering, (lower, upper, step), start, body)
    lowering.values.update(zip(operation.results, results, strict=True))


def _if(lowering: Lowering, operation: Operation) -> None:
    condition = lowering.value(operation.operand())
    then = Block()
    after = Block([lower_type(result.type) for result in operation.results])
    lowering.region.append(then)
    has_else = len(operation.regions) > 1 and bool(operation.regions[1].blocks)
    otherwise = lowering.region.append(Block()) if has_else else after
    lowering.branch_if(condition, then, (), otherwise, ())
    lowering.enter(then)
    lowering.branch(after, lowering.lower_block(operation.regions[0].block))
    if has_else:
        lowering.enter(otherwise)
        lowering.branch(after, lowering.lower_block(operation.regions[1].block))
    lowering.region.append(after)
    lowering.enter(after)
    lowering.values.update(zip(operation.results, after.arguments, strict=True))


def parallel_bounds(operation: Operation) -> list[tuple[Value, Value, Value]]:
    """(lower, upper, step) of each dimension of a `scf.parallel` without results."""
    sizes = operation.attributes.get("operandSegmentSizes")
    count = int(sizes.values[0]) if isinstance(sizes, DenseArrayAttr) else len(operation.operands) // 3
    if operation.results or len(operation.operands) != 3 * count:
        raise CompilerBug("scf.parallel with reductions reached the llvm back end", stage="to_llvm")
    values = operation.operands
    return list(zip(values[:count], values[count : 2 * count], values[2 * count :], strict=True))


def build_parallel_body(lowering: Lowering, operation: Operation, outer: tuple[Value, Value, Value]) -> None:
    """The loops of a `scf.parallel`, one inside the other; `outer` (lowered) replaces the first bounds."""
    bounds = [tuple(map(lowering.value, triple)) for triple in parallel_bounds(operation)[1:]]
    _nest(lowering, operation.body, [outer, *((a, b, c) for a, b, c in bounds)], [])


def _nest(
    lowering: Lowering, source: Block, bounds: list[tuple[Value, Value, Value]], counters: list[Value]
) -> None:
    if not bounds:
        lowering.values.update(zip(source.arguments, counters, strict=True))
        lowering.lower_block(source)
        return

    def body(counter: Value, carried: list[Value]) -> list[Value]:
        _nest(lowering, source, bounds[1:], [*counters, counter])
        return carried

    build_loop(lowering, bounds[0], (), body)


def _parallel(lowering: Lowering, operation: Operation) -> None:
    """One that is nested in something runs as loops; the outermost one is outlined by `to_llvm`."""
    lower, upper, step = map(lowering.value, parallel_bounds(operation)[0])
    build_parallel_body(lowering, operation, (lower, upper, step))


def _nothing(lowering: Lowering, operation: Operation) -> None:
    """A terminator: whoever lowers the block reads its operands."""


TABLE: dict[str, Rule] = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.parallel": _parallel,
    "scf.yield": _nothing,
    "scf.reduce": _nothing,
    "func.return": _nothing,
}
