"""Where a paused frame stands, and the values with which it goes on.

The values of a frame travel as one flat tuple, which is also the arguments of the next captured segment:

    stack values (NULLs left out), bound slots (locals, cells, free variables), the handled exception
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch

from lamina.capture.machine.code import DecodedCode
from lamina.capture.machine.frame import Frame
from lamina.capture.machine.live_slots import find_live_slots
from lamina.capture.machine.signals import NULL, UNBOUND, Value
from lamina.capture.values.sizes import NumberValue
from lamina.capture.values.tensor import TensorValue

WITHOUT_EFFECT = (torch.Tensor, TensorValue, NumberValue, int, float, str, bytes, complex, type(None))
"""Values whose end nobody sees: they are not handed on when they are not needed any more."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A position in a function and the layout of the frame there. Equal points take the same values."""

    code_identity: int
    position: int
    stack: tuple[bool, ...]
    """Of each place of the value stack: whether it holds a value, not a NULL."""
    slots: tuple[bool, ...]
    """Of each slot: whether it is bound, and its value still needed."""
    is_handling: bool
    """Whether an exception is being handled."""
    keyword_names: tuple[str, ...]
    function: types.FunctionType = field(compare=False)
    decoded: DecodedCode = field(compare=False, repr=False)

    @property
    def line(self) -> int:
        """The source line of the instruction to be run next."""
        return self.decoded.instructions[self.position].line

    def labels(self) -> Iterator[str]:
        """What the user would call each value."""
        for index, is_value in enumerate(self.stack):
            if is_value:
                yield f"value {index} under evaluation"
        for name, is_bound in zip(self.decoded.slot_names, self.slots, strict=True):
            if is_bound:
                yield f"local {name}"
        if self.is_handling:
            yield "the handled exception"

    def without_function(self) -> ResumePoint:
        """This point, of a function of the same code that holds nothing: no defaults, empty cells."""
        code, names = self.function.__code__, self.function.__globals__
        cells = tuple(types.CellType() for _ in code.co_freevars)
        return replace(self, function=types.FunctionType(code, names, self.function.__name__, None, cells))

    def make_frame(self, values: Sequence[Value]) -> Frame:
        """The frame that stands here with these values."""
        remaining = iter(values)
        frame = Frame(self.decoded, self.function)
        frame.position = self.position
        frame.keyword_names = self.keyword_names
        frame.stack = [next(remaining) if is_value else NULL for is_value in self.stack]
        frame.slots = [next(remaining) if is_bound else UNBOUND for is_bound in self.slots]
        if self.is_handling:
            frame.handled = next(remaining)
        return frame


def is_without_effect(value: Value) -> bool:
    """Whether nobody sees the end of a value: also of a list or tuple of such."""
    if type(value) in (list, tuple):
        return all(isinstance(item, WITHOUT_EFFECT) for item in value)
    return isinstance(value, WITHOUT_EFFECT)


def describe_frame(frame: Frame) -> tuple[ResumePoint, tuple[Value, ...]]:
    """Where a frame stands between two instructions, and the values that its rest may need."""
    live = find_live_slots(frame.decoded, frame.position)
    kept = [
        UNBOUND if slot not in live and is_without_effect(value) else value
        for slot, value in enumerate(frame.slots)
    ]
    stack = tuple(value is not NULL for value in frame.stack)
    slots = tuple(value is not UNBOUND for value in kept)
    values = [value for value in frame.stack if value is not NULL]
    values += [value for value in kept if value is not UNBOUND]
    if frame.handled is not None:
        values.append(frame.handled)
    point = ResumePoint(
        id(frame.code),
        frame.position,
        stack,
        slots,
        frame.handled is not None,
        frame.keyword_names,
        frame.function,
        frame.decoded,
    )
    return point, tuple(values)
