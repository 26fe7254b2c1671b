"""Stand-ins: CPython itself judges what a Python-level special method gave.

The machine runs `__len__` and its like; `len(answer("__len__", result))` then checks the result.
"""

from __future__ import annotations

from typing import Any

from lamina.capture.machine.signals import Value

ANSWERED = (
    "__abs__",
    "__bool__",
    "__complex__",
    "__dir__",
    "__float__",
    "__format__",
    "__hash__",
    "__index__",
    "__int__",
    "__iter__",
    "__len__",
    "__length_hint__",
    "__repr__",
    "__reversed__",
    "__str__",
    "__trunc__",
)


class StandIn:
    """An object whose one special method gives `value`."""

    __machine_native__ = True

    def __init__(self, value: Value) -> None:
        self.value = value


def give_value(stand_in: StandIn, *arguments: Value) -> Value:
    return stand_in.value


STAND_INS: dict[str, Any] = {
    name: type(name, (StandIn,), {name: give_value, "__machine_native__": True}) for name in ANSWERED
}


def answer(name: str, value: Value) -> Any:
    """An object that answers `name` with `value`, to be handed to the builtin that asks for it."""
    return STAND_INS[name](value)
