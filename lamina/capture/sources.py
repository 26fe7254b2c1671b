"""Where a value comes from, and the expression that fetches it again at call time."""

from __future__ import annotations

import types
from dataclasses import dataclass, field
from typing import Any

from lamina.capture.generated import Writer


class Source:
    """A path from the call's arguments or from a fixed object to a value."""

    @property
    def is_fixed(self) -> bool:
        """Whether the path starts at an object that is the same in every call."""
        raise NotImplementedError

    def expression(self, writer: Writer) -> str:
        """Python text that gives the value."""
        raise NotImplementedError

    def describe(self) -> str:
        """The path as a user would write it."""
        raise NotImplementedError

    @property
    def key(self) -> Any:
        """Equal for equal paths."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Argument(Source):
    """A positional (int) or keyword (str) argument of the compiled callable."""

    place: int | str
    label: str = field(default="", compare=False)

    @property
    def is_fixed(self) -> bool:
        return False

    def expression(self, writer: Writer) -> str:
        holder = "args" if isinstance(self.place, int) else "kwargs"
        return writer.read(f"{holder}[{self.place!r}]")

    def describe(self) -> str:
        return self.label or f"argument {self.place}"

    @property
    def key(self) -> Any:
        return ("argument", self.place)


@dataclass(frozen=True, slots=True)
class Fixed(Source):
    """An object known by identity."""

    value: Any
    label: str

    @property
    def is_fixed(self) -> bool:
        return True

    def expression(self, writer: Writer) -> str:
        return writer.constant(self.value)

    def describe(self) -> str:
        return self.label

    @property
    def key(self) -> Any:
        return ("fixed", id(self.value))


@dataclass(frozen=True, slots=True)
class Attribute(Source):
    """An entry of an instance's own dictionary."""

    base: Source
    name: str

    @property
    def is_fixed(self) -> bool:
        return self.base.is_fixed

    def expression(self, writer: Writer) -> str:
        if isinstance(self.base, Fixed):
            entries = writer.constant(object.__getattribute__(self.base.value, "__dict__"))
            return writer.read(f"{entries}[{self.name!r}]")
        entries = writer.read(f"{self.base.expression(writer)}.__dict__")
        return writer.read(f"{entries}[{self.name!r}]")

    def describe(self) -> str:
        return f"{self.base.describe()}.{self.name}"

    @property
    def key(self) -> Any:
        return ("attribute", self.base.key, self.name)


@dataclass(frozen=True, slots=True)
class Field(Source):
    """An attribute read through a C-level descriptor: slots, `__self__`, `args` of a partial, `grad`."""

    base: Source
    name: str

    @property
    def is_fixed(self) -> bool:
        return self.base.is_fixed

    def expression(self, writer: Writer) -> str:
        return writer.read(f"{self.base.expression(writer)}.{self.name}")

    def describe(self) -> str:
        return f"{self.base.describe()}.{self.name}"

    @property
    def key(self) -> Any:
        return ("field", self.base.key, self.name)


def is_lasting(source: Source) -> bool:
    """Whether a tensor there is likely the same in the next call: a weight is, no argument, no gradient."""
    return source.is_fixed and not (isinstance(source, Field) and source.name == "grad")


@dataclass(frozen=True, slots=True)
class Item(Source):
    """An element of a list, tuple, deque or dict."""

    base: Source
    index: Any
    reader: Any = None
    """The builtin class whose `__getitem__` is asked, where the value's own class overrides it."""

    @property
    def is_fixed(self) -> bool:
        return self.base.is_fixed

    def expression(self, writer: Writer) -> str:
        base, index = self.base.expression(writer), writer.constant(self.index)
        if self.reader is None:
            return writer.read(f"{base}[{index}]")
        return writer.read(f"{writer.constant(self.reader.__getitem__)}({base}, {index})")

    def describe(self) -> str:
        shown = repr(self.index) if is_plain_index(self.index) else f"a {type(self.index).__qualname__}"
        return f"{self.base.describe()}[{shown}]"

    @property
    def key(self) -> Any:
        return ("item", self.base.key, type(self.index), self.index)


def is_plain_index(index: Any) -> bool:
    """Whether the text of a key says which it is; that of a tensor would print its values."""
    if isinstance(index, tuple):
        return all(map(is_plain_index, index))
    return isinstance(index, (int, float, complex, str, bytes, type, types.FunctionType, type(None)))


@dataclass(frozen=True, slots=True)
class Global(Source):
    """A name in a module's dictionary."""

    entries: dict[str, Any]
    name: str

    @property
    def is_fixed(self) -> bool:
        return True

    def expression(self, writer: Writer) -> str:
        return writer.read(f"{writer.constant(self.entries)}[{self.name!r}]")

    def describe(self) -> str:
        return f"{self.entries.get('__name__', '<globals>')}.{self.name}"

    @property
    def key(self) -> Any:
        return ("global", id(self.entries), self.name)


@dataclass(frozen=True, slots=True)
class CellContents(Source):
    """What a closure cell holds."""

    cell: types.CellType
    name: str

    @property
    def is_fixed(self) -> bool:
        return True

    def expression(self, writer: Writer) -> str:
        return writer.read(f"{writer.constant(self.cell)}.cell_contents")

    def describe(self) -> str:
        return f"closure variable {self.name}" if self.name else "closure variable"

    @property
    def key(self) -> Any:
        return ("cell", id(self.cell))


@dataclass(frozen=True, slots=True)
class ClassEntry(Source):
    """An entry of a class's own dictionary."""

    holder: type
    name: str

    @property
    def is_fixed(self) -> bool:
        return True

    def expression(self, writer: Writer) -> str:
        return writer.read(f"{writer.constant(self.holder.__dict__)}[{self.name!r}]")

    def describe(self) -> str:
        return f"{self.holder.__qualname__}.{self.name}"

    @property
    def key(self) -> Any:
        return ("class", id(self.holder), self.name)


@dataclass(frozen=True, slots=True)
class Called(Source):
    """What calling a weak reference gives."""

    base: Source

    @property
    def is_fixed(self) -> bool:
        return self.base.is_fixed

    def expression(self, writer: Writer) -> str:
        return writer.read(f"{self.base.expression(writer)}()")

    def describe(self) -> str:
        return f"{self.base.describe()}()"

    @property
    def key(self) -> Any:
        return ("called", self.base.key)
