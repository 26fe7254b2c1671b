"""One captured graph whose sizes vary: a program for each set of sizes, made when they first occur.

The capture is one; the back end is given concrete sizes. Programs of sizes not used lately are dropped, their
kernels stay known to the process and to the disk cache.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from lamina.capture import Captured
from lamina.capture.dynamic import SizeHistory, remembering
from lamina.driver.graph import Compiled
from lamina.driver.scalars import as_scalars, scalar_inputs
from lamina.driver.watch import watch
from lamina.errors import Unsupported
from lamina.options import Options

PROGRAMS_KEPT = 32
"""Sets of sizes of one captured graph that have a program at the same time."""

Capture = Callable[[tuple[Any, ...], dict[str, Any]], Captured]


def compile_for_sizes(
    captured: Captured, inputs: list[Any], compile_inputs: Callable[..., Compiled], options: Options
) -> Compiled:
    """The captured graph, ready for inputs of all sizes that its guards admit; compiled for `inputs` at once.

    compile_inputs(inputs, watch) compiles for one set of sizes.
    """
    if not captured.varying:
        return compile_inputs(inputs)
    programs = SizedPrograms(captured, compile_inputs, options)
    first = programs.first(inputs)
    programs.compiled = Compiled(programs, first.report, first.is_repeatable)
    return programs.compiled


def trace_with_history(
    history: SizeHistory, capture: Capture, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Captured:
    """Capture with the sizes that `history` says open; where that fails, with all sizes as they are."""
    try:
        with remembering(history):
            captured = capture(args, kwargs)
        if not captured.varying or captured.check(args, kwargs):
            return captured
    except Unsupported:
        if not history.has_varied:
            raise
    with remembering(None):
        return capture(args, kwargs)


class SizedPrograms:
    """Runs the program for the sizes of its inputs; the least recently used ones make room for new ones."""

    def __init__(self, captured: Captured, compile_inputs: Callable[..., Compiled], options: Options) -> None:
        self.compiled: Compiled | None = None
        """What the driver holds: it is repeatable as long as each program is."""
        self._graph = captured.graph_module
        self._compile_inputs = compile_inputs
        self._options = options
        self._programs: dict[tuple[Any, ...], Compiled] = {}
        self._lock = threading.RLock()
        self._scalars = scalar_inputs(captured.graph_module.graph, captured.varying)
        self._key_of = write_key([place for place in captured.varying if place[0] not in self._scalars])

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if self._scalars:
            inputs = as_scalars(inputs, self._scalars)
        return self._find(inputs)(inputs)

    def first(self, inputs: Sequence[Any]) -> Compiled:
        """The program for the inputs of the capture."""
        return self._find(as_scalars(inputs, self._scalars))

    def _find(self, inputs: Sequence[Any]) -> Compiled:
        """The program for these inputs."""
        key = self._key_of(inputs)
        found = self._programs.get(key)
        return self._make(key, inputs) if found is None else found

    def _compile(self, inputs: Sequence[Any]) -> Compiled:
        if self.compiled is None:
            return self._compile_inputs(inputs)
        with watch(self._options) as watching:
            return self._compile_inputs(inputs, watching)

    def _make(self, key: tuple[Any, ...], inputs: Sequence[Any]) -> Compiled:
        with self._lock:
            found = self._programs.get(key)
            if found is not None:
                return found
            if len(self._programs) >= PROGRAMS_KEPT:
                del self._programs[next(iter(self._programs))]
            try:
                made = self._compile(inputs)
            except Unsupported:
                if self.compiled is None:
                    raise
                made = Compiled(lambda values: list(self._graph(*values)))
            if self.compiled is not None:
                self.compiled.is_repeatable &= made.is_repeatable
            self._programs[key] = made
            return made


def write_key(varying: Sequence[tuple[int, int | None]]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """The function from inputs to their sizes that vary. A float is told from an int, and -0.0 from 0.0."""
    parts = []
    for index, dimension in varying:
        number = f"inputs[{index}]"
        parts.append(f"repr({number})" if dimension is None else f"{number}.shape[{dimension}]")
    names: dict[str, Any] = {}
    source = f"def key_of(inputs):\n    return ({''.join(part + ', ' for part in parts)})\n"
    exec(compile(source, "<lamina sizes>", "exec"), names)
    key_of: Callable[[Sequence[Any]], tuple[Any, ...]] = names["key_of"]
    return key_of
