"""The verifier: what must hold of every program, and of programs at one level.

Structure (use lists, links, terminators, successors), the operation's record (counts, attributes, result
types, its own rules), dominance and isolation, symbols, and the level's legal table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lamina.errors import CompilerBug, SourceLocation, draw_source
from lamina.ir.attributes import ArrayAttr, Attribute, DictAttr, StringAttr, SymbolRefAttr, UnitAttr
from lamina.ir.core import Block, Location, Operation, Region, Value
from lamina.ir.dominance import Dominance, successors
from lamina.ir.levels import LEVELS, Level
from lamina.ir.ops import record
from lamina.ir.ops.aten import RECORD as LIBRARY
from lamina.ir.ops.aten import is_extern
from lamina.ir.ops.func import function_type
from lamina.ir.record import ISOLATED, SYMBOL_TABLE, TERMINATOR, OpRecord
from lamina.ir.text.print import Printer

HAS_NO_TERMINATOR = frozenset({"builtin.module"})
MOST_PROBLEMS = 10


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with `operation`; `line` is the operation as text."""

    message: str
    operation: Operation
    line: str

    def draw(self) -> list[str]:
        name = f'"{self.operation.name}"'
        start = max(self.line.find(name), 0)
        lines = [f"error: {self.message}", f"  {self.line}", f"  {' ' * start}{'^' * len(name)}"]
        place = self.operation.location
        return lines + (
            draw_source(SourceLocation(place.file, place.line, place.column)) if place.file else []
        )


class VerificationError(CompilerBug):
    """A program that is not well formed; `problems` lists what is wrong, at most `MOST_PROBLEMS`."""

    def __init__(self, problems: list[Problem], stage: str = "") -> None:
        count = f"{len(problems)} problems" if len(problems) > 1 else problems[0].message
        place = problems[0].operation.location
        super().__init__(
            f"the IR is not well formed{f' after {stage!r}' if stage else ''}: {count}",
            location=_source(place),
            operation=problems[0].line,
            stage=stage,
        )
        self.problems = problems

    def draw(self) -> str:
        """Every problem under its operation."""
        lines = [f"{self.kind}: {self.message}"]
        for problem in self.problems:
            lines += problem.draw()
        lines += [f"  = {label}: {text}" for label, text in self.notes() if label != "op"]
        return "\n".join(lines)


def verify(operation: Operation, level: str | None = None, *, stage: str = "") -> None:
    """Raise VerificationError when an operation or something in it breaks a rule.

    level: also hold every operation against this level's table (`LEVELS`). stage: what to blame.
    """
    found = find_problems(operation, level)
    if found:
        raise VerificationError(found, stage)


def find_problems(
    operation: Operation, level: str | None = None, limit: int = MOST_PROBLEMS
) -> list[Problem]:
    """What is wrong with an operation and all inside it, at most `limit` problems, in program order."""
    verifier = Verifier(LEVELS[level] if level else None)
    found: list[Problem] = []
    printer: Printer | None = None
    for where, message in verifier.check(operation):
        if printer is None:
            printer = Printer()
            printer.name_values(operation)
        found.append(Problem(message, where, printer.print_line(where)))
        if len(found) >= limit:
            break
    return found


Found = Iterator[tuple[Operation, str]]


class Verifier:
    """Yields (operation, message) for each broken rule. `level` adds its legal table."""

    def __init__(self, level: Level | None) -> None:
        self.level = level
        self.dominance = Dominance()
        self._defined: set[Value] = set()

    def check(self, operation: Operation) -> Found:
        """An operation and all inside it."""
        yield from self._operation(operation)

    def _operation(self, operation: Operation) -> Found:
        found = record(operation.name)
        message = self._links(operation) or (self.level.objection(operation) if self.level else "")
        if message:
            yield operation, message
        if found is not None:
            message = _check_record(operation, found)
            if message:
                yield operation, message
        else:
            yield operation, f"unknown operation {operation.name}"
        for region in operation.regions:
            yield from self._region(region, operation, found or LIBRARY)
        if found is not None and SYMBOL_TABLE in found.traits:
            yield from _check_symbols(operation)
        self._defined.update(operation.results)

    def _links(self, operation: Operation) -> str:
        """Use lists and parents."""
        for position, value in enumerate(operation.operands):
            if (operation, position) not in value.uses:
                return f"operand {position} does not list this use"
        for value in operation.results:
            if value.owner is not operation:
                return "a result belongs to another operation"
            for user, position in value.uses:
                if position >= len(user.operands) or user.operands[position] is not value:
                    return f"a result lists a use by {user.name} that is not there"
                if user.parent is None:
                    return f"a result is used by {user.name}, which is in no block"
        if any(region.parent is not operation for region in operation.regions):
            return "a region belongs to another operation"
        return ""

    def _region(self, region: Region, owner: Operation, found: OpRecord) -> Found:
        is_ordered = found is not LIBRARY and owner.name not in HAS_NO_TERMINATOR
        if region.blocks and any(region.blocks[0] in successors(block) for block in region.blocks):
            yield owner, "the entry block of a region must not be a successor"
        for block in region.blocks:
            yield from self._block_ends(block, region, owner, found)
            for argument in block.arguments:
                self._defined.add(argument)
            for operation in block:
                if operation.parent is not block:
                    yield operation, "the block that holds this operation is not its parent"
                if is_ordered:
                    yield from self._order(operation)
                yield from self._operation(operation)

    def _block_ends(self, block: Block, region: Region, owner: Operation, found: OpRecord) -> Found:
        needs_terminator = owner.name not in HAS_NO_TERMINATOR and found is not LIBRARY
        last = block.last
        for operation in block:
            if operation is not last and (operation.successors or _is_terminator(operation)):
                yield operation, f"{operation.name} must be the last operation of its block"
        if last is None:
            if needs_terminator or len(region.blocks) > 1:
                yield owner, "a block without a terminator"
            return
        may_end = last.successors or _is_terminator(last) or _is_foreign(last)
        if needs_terminator and not may_end:
            yield last, f"{last.name} does not end a block: a terminator is missing after it"
        if any(target.parent is not region for target in last.successors):
            yield last, "a successor is in another region"

    def _order(self, operation: Operation) -> Found:
        """Every operand is defined before, and not outside of an isolated operation."""
        for position, value in enumerate(operation.operands):
            owner = value.owner
            home = owner.parent if isinstance(owner, Operation) else owner
            if home is operation.parent:
                # Blocks are walked in order: what was met is before.
                is_visible = value in self._defined
            else:
                is_visible = self.dominance.is_visible(value, operation)
            if not is_visible:
                yield (
                    operation,
                    f"operand {position} ({_describe(value)}) is not defined on every path to here",
                )
            elif home is not operation.parent and (barrier := _isolated_between(home, operation)) is not None:
                yield operation, f"operand {position} comes from outside of {barrier.name}, which is isolated"


def _check_record(operation: Operation, found: OpRecord) -> str:
    """Counts, attributes, result types and the operation's own rule; an empty string when all is well."""
    counts = [
        ("operands", found.operands, len(operation.operands)),
        ("results", found.results, len(operation.results)),
    ]
    for what, wanted, given in counts:
        if wanted is not None and wanted != given:
            return f"{operation.name} has {wanted} {what}, got {given}"
    if found is not LIBRARY and len(operation.regions) != found.regions:
        return f"{operation.name} has {found.regions} regions, got {len(operation.regions)}"
    missing = [name for name in found.attributes if name not in operation.attributes]
    if found is LIBRARY:
        return "" if missing else _check_arguments(operation)
    if missing:
        return f"{operation.name} needs attribute {missing[0]!r}"
    try:
        if found.verify is not None:
            found.verify(operation)
        if found.infer is not None:
            inferred = found.infer([value.type for value in operation.operands], operation.attributes)
            given_types = tuple(value.type for value in operation.results)
            if inferred != given_types:
                return f"result types must be {_list(inferred)}, got {_list(given_types)}"
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        return str(error) or type(error).__name__
    return ""


def _check_arguments(operation: Operation) -> str:
    """A library call takes as many operands as its arguments have places for."""
    places = _count_places(operation.attributes["args"])
    places += _count_places(operation.attributes["kwargs"]) if "kwargs" in operation.attributes else 0
    given = len(operation.operands)
    return "" if places == given else f"args and kwargs have {places} places for {given} operands"


def _count_places(value: Attribute) -> int:
    match value:
        case UnitAttr():
            return 1
        case ArrayAttr(elements):
            return sum(map(_count_places, elements))
        case DictAttr(entries):
            return sum(_count_places(entry) for _, entry in entries)
    return 0


def _check_symbols(table: Operation) -> Found:
    """Symbols are defined once, and calls find a function of the right type."""
    defined: dict[str, Operation] = {}
    for block in table.region.blocks:
        for operation in block:
            name = operation.attributes.get("sym_name")
            if not isinstance(name, StringAttr) or operation.name == "builtin.module":
                continue
            if name.value in defined:
                yield operation, f"redefinition of symbol @{name.value}"
            defined[name.value] = operation
    for block in table.region.blocks:
        for operation in block:
            for call in _calls(operation):
                message = _check_call(call, defined)
                if message:
                    yield call, message


def _calls(operation: Operation) -> Iterator[Operation]:
    """The calls in an operation whose functions are looked up outside of it."""
    if operation.name == "func.call":
        yield operation
    found = record(operation.name)
    if operation.regions and not (found is not None and SYMBOL_TABLE in found.traits):
        for region in operation.regions:
            for block in region.blocks:
                for inner in block:
                    yield from _calls(inner)


def _check_call(call: Operation, defined: dict[str, Operation]) -> str:
    callee = call.attributes.get("callee")
    if not isinstance(callee, SymbolRefAttr):
        return "callee must be a symbol"
    function = defined.get(callee.name)
    if function is None or function.name != "func.func":
        return f"@{callee.name} is not a function of this module"
    if "function_type" not in function.attributes:
        return f"@{callee.name} has no type"
    type_ = function_type(function)
    given = tuple(value.type for value in call.operands)
    if given != type_.inputs:
        return f"@{callee.name} takes {_list(type_.inputs)}, got {_list(given)}"
    results = tuple(value.type for value in call.results)
    if results != type_.results:
        return f"@{callee.name} gives {_list(type_.results)}, not {_list(results)}"
    return ""


def _is_terminator(operation: Operation) -> bool:
    found = record(operation.name)
    return found is not None and TERMINATOR in found.traits


def _is_foreign(operation: Operation) -> bool:
    """An operation of a dialect that nobody knows, and no library call: it may end a block."""
    return record(operation.name) is LIBRARY and not is_extern(operation)


def _isolated_between(home: Block | None, operation: Operation) -> Operation | None:
    """The isolated operation that holds `operation` but not the block `home`, if there is one."""
    region = operation.parent.parent if operation.parent is not None else None
    while region is not None and (home is None or region is not home.parent):
        holder = region.parent
        if holder is None:
            return None
        found = record(holder.name)
        if found is not None and ISOLATED in found.traits:
            return holder
        region = holder.parent.parent if holder.parent is not None else None
    return None


def _describe(value: Value) -> str:
    owner = value.owner
    return f"a result of {owner.name}" if isinstance(owner, Operation) else "a block argument"


def _list(types: tuple[object, ...]) -> str:
    return f"({', '.join(map(str, types))})"


def _source(place: Location) -> SourceLocation | None:
    return SourceLocation(place.file, place.line, place.column) if place.file else None
