"""SSA core: values, operations, blocks, regions, locations and the builder that makes them.

Operations of a block form a linked list, so inserting and erasing take constant time. A value knows
its uses. Nothing here knows any particular operation: `lamina.ir.ops` lists those.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lamina.ir.attributes import Attribute, StringAttr, attribute
from lamina.ir.types import Type


@dataclass(frozen=True, slots=True)
class Location:
    """A line of the user's program; `callers` are the lines that led to it, innermost first."""

    file: str
    line: int
    column: int = 0
    callers: tuple[Location, ...] = ()

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


UNKNOWN = Location("", 0)


class Value:
    """The result of an operation or an argument of a block.

    `uses` maps (operation, operand index) to None: an ordered set.
    """

    __slots__ = ("hint", "type", "uses")

    def __init__(self, type_: Type, hint: str = "") -> None:
        self.type = type_
        self.uses: dict[tuple[Operation, int], None] = {}
        self.hint = hint

    @property
    def has_one_use(self) -> bool:
        return len(self.uses) == 1

    @property
    def users(self) -> list[Operation]:
        """The operations that use this value, each once, in order of first use."""
        return list(dict.fromkeys(operation for operation, _ in self.uses))

    @property
    def owner(self) -> Operation | Block:
        raise NotImplementedError

    @property
    def defining_op(self) -> Operation | None:
        """The operation this is a result of; None for a block argument."""
        owner = self.owner
        return owner if isinstance(owner, Operation) else None

    def replace_all_uses_with(self, new: Value) -> None:
        """Make every user use `new` instead."""
        if new is self:
            return
        for operation, position in list(self.uses):
            operation.set_operand(position, new)


class OpResult(Value):
    __slots__ = ("operation", "position")

    def __init__(self, type_: Type, operation: Operation, position: int) -> None:
        super().__init__(type_)
        self.operation = operation
        self.position = position

    @property
    def owner(self) -> Operation:
        return self.operation


class BlockArgument(Value):
    __slots__ = ("block", "position")

    def __init__(self, type_: Type, block: Block, position: int) -> None:
        super().__init__(type_)
        self.block = block
        self.position = position

    @property
    def owner(self) -> Block:
        return self.block


class Operation:
    """One operation: name, operands, results, attributes, regions, successor blocks, location."""

    __slots__ = (
        "_next", "_operands", "_previous", "attributes", "location", "name", "parent", "regions",
        "results", "successors",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attributes: Mapping[str, Any] | None = None,
        regions: Iterable[Region] = (),
        successors: Iterable[Block] = (),
        location: Location = UNKNOWN,
    ) -> None:
        self.name = name
        self.attributes: dict[str, Attribute] = (
            {key: attribute(value) for key, value in attributes.items()} if attributes else {}
        )
        self.results = [OpResult(type_, self, position) for position, type_ in enumerate(result_types)]
        self.regions = list(regions)
        for region in self.regions:
            region.parent = self
        self.successors = list(successors)
        self.location = location
        self.parent: Block | None = None
        self._previous: Operation | None = None
        self._next: Operation | None = None
        self._operands: list[Value] = list(operands)
        for position, value in enumerate(self._operands):
            value.uses[self, position] = None

    # operands

    @property
    def operands(self) -> tuple[Value, ...]:
        return tuple(self._operands)

    def operand(self, position: int = 0) -> Value:
        return self._operands[position]

    def set_operand(self, position: int, value: Value) -> None:
        del self._operands[position].uses[self, position]
        self._operands[position] = value
        value.uses[self, position] = None

    def set_operands(self, values: Iterable[Value]) -> None:
        """Replace the whole operand list (its length may change)."""
        for position, value in enumerate(self._operands):
            del value.uses[self, position]
        self._operands = list(values)
        for position, value in enumerate(self._operands):
            value.uses[self, position] = None

    @property
    def result(self) -> OpResult:
        """The only result."""
        if len(self.results) != 1:
            raise ValueError(f"{self.name} has {len(self.results)} results, not one")
        return self.results[0]

    # place in the program

    @property
    def next(self) -> Operation | None:
        return self._next

    @property
    def previous(self) -> Operation | None:
        return self._previous

    @property
    def parent_op(self) -> Operation | None:
        return self.parent.parent_op if self.parent is not None else None

    @property
    def region(self) -> Region:
        """The only region."""
        if len(self.regions) != 1:
            raise ValueError(f"{self.name} has {len(self.regions)} regions, not one")
        return self.regions[0]

    @property
    def body(self) -> Block:
        """The only block of the only region."""
        return self.region.block

    def is_before(self, other: Operation) -> bool:
        """Whether this comes before `other` in the same block (linear time)."""
        at = self._next
        while at is not None:
            if at is other:
                return True
            at = at._next
        return False

    def walk(self) -> Iterator[Operation]:
        """This operation and all inside it, parents first. Erasing the yielded one is allowed."""
        yield self
        for region in self.regions:
            for block in list(region.blocks):
                at = block.first
                while at is not None:
                    following = at._next
                    yield from at.walk()
                    at = following

    def detach(self) -> None:
        """Take out of its block; operands stay used."""
        if self.parent is not None:
            self.parent._unlink(self)

    def erase(self) -> None:
        """Remove and drop operands. No result may be in use."""
        for value in self.results:
            if value.uses:
                raise ValueError(f"erasing {self.name} while a result of it is used by {value.users[0].name}")
        self.detach()
        self.drop_operands()

    def drop_operands(self) -> None:
        """Stop using any value, here and in nested regions."""
        for position, value in enumerate(self._operands):
            value.uses.pop((self, position), None)
        self._operands = []
        for region in self.regions:
            for block in region.blocks:
                for operation in block:
                    operation.drop_operands()

    def replace_with(self, values: Sequence[Value]) -> None:
        """Make users use `values` instead of the results, then erase this operation."""
        if len(values) != len(self.results):
            raise ValueError(f"{self.name}: {len(values)} values for {len(self.results)} results")
        for old, new in zip(self.results, values, strict=True):
            old.replace_all_uses_with(new)
        self.erase()

    def clone(self, mapping: dict[Value, Value] | None = None) -> Operation:
        """A copy, nested regions included. Operands go through `mapping`, which learns the new values."""
        mapping = {} if mapping is None else mapping
        blocks: dict[Block, Block] = {}
        return self._clone(mapping, blocks)

    def _clone(self, mapping: dict[Value, Value], blocks: dict[Block, Block]) -> Operation:
        copy = Operation(
            self.name,
            [mapping.get(value, value) for value in self._operands],
            [value.type for value in self.results],
            None,
            (),
            [blocks.get(block, block) for block in self.successors],
            self.location,
        )
        copy.attributes = dict(self.attributes)
        for old, new in zip(self.results, copy.results, strict=True):
            new.hint = old.hint
            mapping[old] = new
        for region in self.regions:
            copy.add_region(region.clone(mapping, blocks))
        return copy

    def add_region(self, region: Region) -> Region:
        region.parent = self
        self.regions.append(region)
        return region

    def __repr__(self) -> str:
        results = ", ".join(str(value.type) for value in self.results)
        return f"<{self.name} -> ({results})>"


class Block:
    """A list of operations with arguments; the last operation is the terminator where one is needed."""

    __slots__ = ("arguments", "first", "last", "parent")

    def __init__(self, argument_types: Iterable[Type] = ()) -> None:
        self.arguments = [
            BlockArgument(type_, self, position) for position, type_ in enumerate(argument_types)
        ]
        self.first: Operation | None = None
        self.last: Operation | None = None
        self.parent: Region | None = None

    @property
    def parent_op(self) -> Operation | None:
        return self.parent.parent if self.parent is not None else None

    @property
    def terminator(self) -> Operation:
        if self.last is None:
            raise ValueError("an empty block has no terminator")
        return self.last

    def __iter__(self) -> Iterator[Operation]:
        """Operations in order. Erasing the one just given is allowed."""
        at = self.first
        while at is not None:
            following = at._next
            yield at
            at = following

    def __reversed__(self) -> Iterator[Operation]:
        at = self.last
        while at is not None:
            before = at._previous
            yield at
            at = before

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add_argument(self, type_: Type) -> BlockArgument:
        argument = BlockArgument(type_, self, len(self.arguments))
        self.arguments.append(argument)
        return argument

    def erase_argument(self, position: int) -> None:
        """Remove an argument that has no uses."""
        if self.arguments[position].uses:
            raise ValueError(f"block argument {position} is used")
        del self.arguments[position]
        for place, argument in enumerate(self.arguments):
            argument.position = place

    def append(self, operation: Operation) -> Operation:
        return self.insert(operation, None)

    def insert(self, operation: Operation, before: Operation | None) -> Operation:
        """Insert before another operation of this block, or at the end."""
        if operation.parent is not None:
            raise ValueError(f"{operation.name} is already in a block")
        after = self.last if before is None else before._previous
        operation.parent = self
        operation._previous, operation._next = after, before
        if after is None:
            self.first = operation
        else:
            after._next = operation
        if before is None:
            self.last = operation
        else:
            before._previous = operation
        return operation

    def _unlink(self, operation: Operation) -> None:
        before, after = operation._previous, operation._next
        if before is None:
            self.first = after
        else:
            before._next = after
        if after is None:
            self.last = before
        else:
            after._previous = before
        operation._previous = operation._next = None
        operation.parent = None


class Region:
    """Blocks owned by an operation; the first is the entry."""

    __slots__ = ("blocks", "parent")

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self.blocks: list[Block] = []
        self.parent: Operation | None = None
        for block in blocks:
            self.append(block)

    @property
    def block(self) -> Block:
        """The only block."""
        if len(self.blocks) != 1:
            raise ValueError(f"the region has {len(self.blocks)} blocks, not one")
        return self.blocks[0]

    def append(self, block: Block) -> Block:
        block.parent = self
        self.blocks.append(block)
        return block

    def clone(self, mapping: dict[Value, Value], blocks: dict[Block, Block] | None = None) -> Region:
        blocks = {} if blocks is None else blocks
        copy = Region()
        for block in self.blocks:
            new = copy.append(Block(argument.type for argument in block.arguments))
            blocks[block] = new
            for old_argument, new_argument in zip(block.arguments, new.arguments, strict=True):
                new_argument.hint = old_argument.hint
                mapping[old_argument] = new_argument
        for block in self.blocks:
            for operation in block:
                blocks[block].append(operation._clone(mapping, blocks))
        return copy


class Builder:
    """Makes operations at a place: the end of a block, or before an operation.

    `location` is given to each operation made; set it before building for another source line.
    """

    __slots__ = ("before", "block", "location")

    def __init__(self, block: Block, before: Operation | None = None, location: Location = UNKNOWN) -> None:
        self.block = block
        self.before = before
        self.location = location

    @staticmethod
    def before_op(operation: Operation) -> Builder:
        """Builds right before `operation`, with its location."""
        if operation.parent is None:
            raise ValueError(f"{operation.name} is in no block")
        return Builder(operation.parent, operation, operation.location)

    @staticmethod
    def after_op(operation: Operation) -> Builder:
        if operation.parent is None:
            raise ValueError(f"{operation.name} is in no block")
        return Builder(operation.parent, operation.next, operation.location)

    def insert(self, operation: Operation) -> Operation:
        return self.block.insert(operation, self.before)

    def op(
        self,
        name: str,
        operands: Iterable[Value] = (),
        result_types: Iterable[Type] = (),
        attributes: Mapping[str, Any] | None = None,
        regions: Iterable[Region] = (),
        successors: Iterable[Block] = (),
    ) -> Operation:
        """Build one operation; attribute values may be plain Python values."""
        return self.insert(
            Operation(name, operands, result_types, attributes, regions, successors, self.location)
        )

    def value(
        self,
        name: str,
        operands: Iterable[Value],
        result_type: Type,
        attributes: Mapping[str, Any] | None = None,
    ) -> Value:
        """Build an operation with one result and give that result."""
        operation = Operation(name, operands, (result_type,), attributes, (), (), self.location)
        self.block.insert(operation, self.before)
        return operation.results[0]


def make_module(name: str | None = None) -> Operation:
    """An empty `builtin.module`."""
    attributes = {"sym_name": name} if name else None
    return Operation("builtin.module", attributes=attributes, regions=[Region([Block()])])


def symbol_name(operation: Operation) -> str | None:
    """The symbol an operation defines (`sym_name`), if it does."""
    name = operation.attributes.get("sym_name")
    return name.value if isinstance(name, StringAttr) else None


def lookup(module: Operation, name: str) -> Operation:
    """The operation of a module's body that defines symbol `name`. KeyError when there is none."""
    for operation in module.body:
        if symbol_name(operation) == name:
            return operation
    raise KeyError(name)
