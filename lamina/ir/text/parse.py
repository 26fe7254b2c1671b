"""Text to IR: MLIR's generic syntax, at every level.

    %0:2 = "dialect.op"(%a, %b)[^bb1] <{property = 1}> ({ ...region... }) {attribute = 2}
        : (f32, i1) -> (f32, f32) loc("f.py":3:0)

Names of values are visible as in MLIR: below their definition and in regions nested in it, except where
an operation is isolated from above; a use may stand before the definition (blocks come in any order).
"""

from __future__ import annotations

import re

from lamina.ir.core import UNKNOWN, Block, Location, Operation, Region
from lamina.ir.ops import IMPLIED, record
from lamina.ir.record import ISOLATED
from lamina.ir.text.cursor import Cursor, ParseError
from lamina.ir.text.names import Names
from lamina.ir.text.read_attributes import AttributeReader
from lamina.ir.text.read_locations import LocationReader, Waiting
from lamina.ir.text.read_types import TypeReader
from lamina.ir.types import Type

VALUE = re.compile(r"%([0-9]+|[A-Za-z$._\-][A-Za-z0-9$._\-]*)(?:#([0-9]+))?")
PLAIN_HEAD = re.compile(
    r'(?:%([0-9]+) = )?"([A-Za-z0-9_.$]+)"\(((?:%(?:arg)?[0-9]+(?:, %(?:arg)?[0-9]+)*)?)\)(?![0-9#])'
)
"""Results, name and operands as they are printed here, in one step."""
BLOCK = re.compile(r"\^([0-9]+|[A-Za-z$._\-][A-Za-z0-9$._\-]*)")
TYPE_ALIAS = re.compile(r"!([A-Za-z_][A-Za-z0-9_$]*)\s*=")
ATTRIBUTE_ALIAS = re.compile(r"#([A-Za-z_][A-Za-z0-9_$]*)\s*=")
CUSTOM = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z0-9_$.]+)?")
GENERIC_HINT = "only the generic form is read; mlir-opt --mlir-print-op-generic prints it"


def parse(text: str, filename: str = "<text>", *, locate: bool = False) -> Operation:
    """The operation that `text` spells; several at the top are wrapped in a `builtin.module`.

    locate: operations without a location get their place in `text`. Raises ParseError.
    """
    try:
        operations = Parser(text, filename, locate).read_file()
    except RecursionError:
        raise ParseError("regions or types nest too deeply", Cursor(text, filename).place(0), "") from None
    if len(operations) == 1:
        operations[0].detach()
        return operations[0]
    block = Block()
    for operation in operations:
        operation.detach()
        block.append(operation)
    return Operation("builtin.module", regions=[Region([block])])


def parse_module(text: str, filename: str = "<text>", *, locate: bool = False) -> Operation:
    """As `parse`, and whatever is not a `builtin.module` is wrapped in one."""
    found = parse(text, filename, locate=locate)
    if found.name == "builtin.module":
        return found
    block = Block()
    block.append(found)
    return Operation("builtin.module", regions=[Region([block])])


class Parser:
    def __init__(self, text: str, file: str, locate: bool) -> None:
        self.cursor = Cursor(text, file)
        self.types = TypeReader(self.cursor)
        self.attributes = AttributeReader(self.cursor, self.types)
        self.locations = LocationReader(self.cursor)
        self.names = Names(self.cursor)
        self.locate = locate
        self._blocks: list[dict[str, tuple[Block, int]]] = []
        self._signatures: dict[str, tuple[list[Type], list[Type]]] = {}
        self._waiting: list[tuple[Operation, Waiting]] = []

    def read_file(self) -> list[Operation]:
        holder = Block()
        self.names.enter(is_isolated=True)
        while not self.cursor.is_at_end:
            if self.cursor.looking_at("#"):
                self._attribute_alias()
            elif self.cursor.looking_at("!"):
                self._type_alias()
            else:
                self._operation(holder)
        self.names.leave()
        for operation, (alias, at) in self._waiting:
            if alias not in self.locations.aliases:
                raise self.cursor.error(f"undefined location alias '#{alias}'", at)
            operation.location = self.locations.aliases[alias]
        return list(holder)

    def _attribute_alias(self) -> None:
        cursor, start = self.cursor, self.cursor.at
        found = cursor.take(ATTRIBUTE_ALIAS)
        if found is None:
            raise cursor.error("expected '#name = ...'")
        name = found.group(1)
        if name in self.attributes.aliases or name in self.locations.aliases:
            raise cursor.error(f"redefinition of alias '#{name}'", start)
        if cursor.peek_word() == "loc":
            location = self.locations.read()
            if isinstance(location, Waiting):
                raise cursor.error("a location alias must not stand for a later one", start)
            self.locations.aliases[name] = location
            return
        self.attributes.aliases[name] = self.attributes.read()

    def _type_alias(self) -> None:
        cursor, start = self.cursor, self.cursor.at
        found = cursor.take(TYPE_ALIAS)
        if found is None:
            raise cursor.error("expected '!name = type'")
        if found.group(1) in self.types.aliases:
            raise cursor.error(f"redefinition of alias '!{found.group(1)}'", start)
        self.types.aliases[found.group(1)] = self.types.read()

    def _operation(self, block: Block) -> None:
        cursor, start = self.cursor, self.cursor.at
        results, name, uses = self._head()
        successors = self._successors() if cursor.looking_at("[") else []
        attributes = {}
        if cursor.accept("<"):
            attributes = self.attributes.read_dictionary()
            cursor.expect(">", "to close properties")
        regions = self._regions(name) if cursor.looking_at("(") else []
        if cursor.looking_at("{"):
            attributes.update(self.attributes.read_dictionary())
        if name in IMPLIED:
            attributes = {key: each for key, each in attributes.items() if (key, each) not in IMPLIED[name]}
        cursor.expect(":", "before the operation's type")
        named = sum(count for _, count, _ in results)
        inputs, outputs = self._signature(len(uses), named, start)
        operands = [self.names.use(*use, type_) for use, type_ in zip(uses, inputs, strict=True)]
        operation = Operation(name, operands, outputs, None, regions, successors, UNKNOWN)
        operation.attributes = attributes
        self._locate(operation, start)
        block.append(operation)
        self._define(operation, results)

    def _head(self) -> tuple[list[tuple[str, int, int]], str, list[tuple[str, int, int]]]:
        """An operation up to its operands: `%0 = "name"(%a, %b)`; results, name, uses."""
        cursor, start = self.cursor, self.cursor.at
        plain = PLAIN_HEAD.match(cursor.text, start)
        if plain is not None:
            result, name, listed = plain.groups()
            results = [(result, 1, start)] if result is not None else []
            at = plain.start(3)
            uses = []
            for use in listed.split(", ") if listed else ():
                uses.append((use[1:], 0, at))
                at += len(use) + 2
            cursor.at = plain.end()
            cursor.skip()
            return results, name, uses
        results = self._result_names() if cursor.looking_at("%") else []
        place = cursor.at
        if not cursor.looking_at('"'):
            hint = GENERIC_HINT if CUSTOM.match(cursor.text, cursor.at) else ""
            raise cursor.error("expected an operation's name in quotes", hint=hint)
        name = cursor.string()
        if not name or "\0" in name:
            raise cursor.error("an operation's name must not be empty", place)
        cursor.expect("(", "to start operands")
        return results, name, self._uses()

    def _result_names(self) -> list[tuple[str, int, int]]:
        """`%a, %b:2 =` as (name, count, offset)."""
        names: list[tuple[str, int, int]] = []
        cursor = self.cursor
        while True:
            start, found = cursor.at, cursor.take(VALUE)
            if found is None or found.group(2) is not None:
                raise cursor.error("expected the name of a result", start)
            count = cursor.integer("the number of results") if cursor.accept(":") else 1
            if count < 1:
                raise cursor.error("expected at least one result", start)
            names.append((found.group(1), count, start))
            if not cursor.accept(","):
                break
        cursor.expect("=", "after the names of results")
        return names

    def _define(self, operation: Operation, names: list[tuple[str, int, int]]) -> None:
        position = 0
        for name, count, at in names:
            for number in range(count):
                self.names.define(name, number, operation.results[position], at)
                position += 1

    def _uses(self) -> list[tuple[str, int, int]]:
        """Operands as (name, result number, offset), up to the closing parenthesis."""
        cursor = self.cursor
        uses: list[tuple[str, int, int]] = []
        if cursor.accept(")"):
            return uses
        while True:
            start, found = cursor.at, cursor.take(VALUE)
            if found is None:
                raise cursor.error("expected an operand such as %0")
            uses.append((found.group(1), int(found.group(2) or 0), start))
            if not cursor.accept(","):
                cursor.expect(")", "or ',' after an operand")
                return uses

    def _signature(self, operands: int, named: int, start: int) -> tuple[list[Type], list[Type]]:
        """The operation's type; whole spellings seen before are not read again."""
        cursor, at = self.cursor, self.cursor.at
        end = cursor.text.find("\n", at)
        end = len(cursor.text) if end < 0 else end
        location = cursor.text.find(" loc(", at, end)
        end = end if location < 0 else location
        known = self._signatures.get(cursor.text[at:end])
        if known is not None:
            cursor.at = end
            cursor.skip()
            inputs, outputs = known
        else:
            if not cursor.looking_at("("):
                raise cursor.error("expected a function type, '(operand types) -> result types'")
            function = self.types.read_function()
            inputs, outputs = list(function.inputs), list(function.results)
            self._signatures[cursor.text[at : cursor.at].rstrip()] = inputs, outputs
        if len(inputs) != operands:
            raise cursor.error(f"{operands} operands but {len(inputs)} operand types", at)
        if named and len(outputs) != named:
            raise cursor.error(f"{named} names for {len(outputs)} results", start)
        return inputs, outputs

    def _locate(self, operation: Operation, start: int) -> None:
        cursor = self.cursor
        if cursor.text.startswith("loc", cursor.at):
            location = self.locations.read()
            if isinstance(location, Waiting):
                self._waiting.append((operation, location))
            else:
                operation.location = location
        elif self.locate:
            place = cursor.place(start)
            operation.location = Location(place.file, place.line, place.column)

    def _successors(self) -> list[Block]:
        cursor = self.cursor
        cursor.expect("[")
        blocks: list[Block] = []
        while True:
            start, found = cursor.at, cursor.take(BLOCK)
            if found is None:
                raise cursor.error("expected a block such as ^bb1")
            if not self._blocks:
                raise cursor.error("a successor needs an operation inside a region", start)
            blocks.append(self._blocks[-1].setdefault(found.group(1), (Block(), start))[0])
            if not cursor.accept(","):
                cursor.expect("]", "or ',' after a successor")
                return blocks

    def _regions(self, name: str) -> list[Region]:
        cursor = self.cursor
        cursor.expect("(")
        found = record(name)
        is_isolated = found is not None and ISOLATED in found.traits
        regions = [self._region(is_isolated)]
        while cursor.accept(","):
            regions.append(self._region(is_isolated))
        cursor.expect(")", "to close regions")
        return regions

    def _region(self, is_isolated: bool) -> Region:
        cursor = self.cursor
        cursor.expect("{", "to start a region")
        region = Region()
        if cursor.accept("}"):
            return region
        self.names.enter(is_isolated=is_isolated)
        self._blocks.append({})
        is_entry = True
        while not cursor.accept("}"):
            if cursor.is_at_end:
                raise cursor.error("expected '}' to close a region")
            self._block(region, is_entry)
            is_entry = False
        for name, (block, at) in self._blocks.pop().items():
            if block.parent is None:
                raise cursor.error(f"undefined block '^{name}'", at)
        self.names.leave()
        return region

    def _block(self, region: Region, is_entry: bool) -> None:
        cursor, start = self.cursor, self.cursor.at
        label = cursor.take(BLOCK)
        if label is None:
            if not is_entry:
                raise cursor.error("expected a block such as ^bb1")
            block = Block()
        else:
            known = self._blocks[-1]
            block, _ = known.setdefault(label.group(1), (Block(), start))
            if block.parent is not None:
                raise cursor.error(f"redefinition of block '^{label.group(1)}'", start)
            if cursor.accept("("):
                self._block_arguments(block)
            cursor.expect(":", "after a block's name")
        region.append(block)
        text = cursor.text
        while text[cursor.at : cursor.at + 1] not in ("}", "^", ""):
            self._operation(block)

    def _block_arguments(self, block: Block) -> None:
        cursor = self.cursor
        while not cursor.accept(")"):
            if block.arguments:
                cursor.expect(",", "or ')' after a block argument")
            start, found = cursor.at, cursor.take(VALUE)
            if found is None or found.group(2) is not None:
                raise cursor.error("expected the name of a block argument", start)
            cursor.expect(":", "before a block argument's type")
            argument = block.add_argument(self.types.read())
            if cursor.peek_word() == "loc":
                self.locations.read()
            self.names.define(found.group(1), 0, argument, start)


def parse_type(text: str) -> Type:
    """One type by itself."""
    cursor = Cursor(text, "<type>")
    found = TypeReader(cursor).read()
    if not cursor.is_at_end:
        raise cursor.error("unexpected text after the type")
    return found
