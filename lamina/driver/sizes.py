"""One captured graph whose sizes vary: one program for all of them, bound to each set when it first occurs.

Where the graph or a pass needs to know a size, there is a program for each set of sizes instead, and a remark
that says why. Programs of sizes not used lately are dropped; what they were bound or made from stays.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import fx

from lamina.autograd.numbers import is_ordinary
from lamina.capture import Captured
from lamina.driver.graph import Compiled
from lamina.driver.hoisting import hoist_numbers
from lamina.driver.open_sizes import OpenGraph, OpenProgram
from lamina.driver.replay import write_replay
from lamina.driver.scalars import as_scalars, scalar_inputs
from lamina.driver.watch import Watch, watch
from lamina.errors import CompilerBug, Place, SourceLocation, Unsupported, UserError
from lamina.ir.core import UNKNOWN, Location
from lamina.ir.remarks import Remark
from lamina.options import Options

MOST_OPEN = 4
"""Programs for all sizes, each under other conditions, of one captured graph."""
PROGRAMS_KEPT = 32
"""Sets of sizes of one captured graph that have a program at the same time."""


def compile_for_sizes(
    captured: Captured,
    inputs: list[Any],
    compile_inputs: Callable[..., Compiled],
    options: Options,
    kinds: Sequence[str] | None = None,
) -> Compiled:
    """A captured graph whose sizes vary, ready for all that its guards admit; compiled for `inputs` at once.

    compile_inputs(inputs, watch, graph=, kinds=) compiles for one set of sizes, without `graph` the captured
    graph. kinds: what each input is; None: no program for all sizes is tried.
    """
    programs = SizedPrograms(captured, compile_inputs, options, kinds)
    first = programs.first(inputs)
    programs.compiled = Compiled(programs, first.report, first.is_repeatable)
    return programs.compiled


class SizedPrograms:
    """Runs the program for the sizes of its inputs; the least recently used ones make room for new ones."""

    def __init__(
        self,
        captured: Captured,
        compile_inputs: Callable[..., Compiled],
        options: Options,
        kinds: Sequence[str] | None = None,
    ) -> None:
        self.compiled: Compiled | None = None
        """What the driver holds: it is repeatable as long as each program is."""
        hoisted = hoist_numbers(captured.graph_module, captured.varying, kinds)
        if hoisted is None:
            self._graph, open_places = captured.graph_module, captured.varying
        else:
            self._graph, open_places, kinds = hoisted.graph_module, list(hoisted.varying), hoisted.kinds
            compile_inputs = functools.partial(compile_inputs, graph=self._graph, kinds=kinds)
        self._compute = None if hoisted is None else hoisted.compute
        """Does the arithmetic on numbers that the graph is spared."""
        self._compile_inputs = compile_inputs
        self._options = options
        self._programs: dict[tuple[Any, ...], Compiled] = {}
        self._lock = threading.RLock()
        self._scalars = scalar_inputs(self._graph.graph, open_places)
        varying = [place for place in open_places if place[0] not in self._scalars]
        self._exact_key = write_key(varying)
        numbers = find_floats(self._graph.graph, varying)
        sizes = [place for place in varying if place[0] not in numbers]
        self._size_key = write_key(sizes) if numbers else None
        """The key of programs that serve all floats, where there are such: what else varies."""
        self._open = None
        if kinds is not None and varying:
            self._open = OpenPrograms(OpenGraph(self._graph, kinds, sizes, options, numbers))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        inputs = self._prepare(inputs)
        return self._find(inputs)(inputs)

    def first(self, inputs: Sequence[Any]) -> Compiled:
        """The program for the inputs of the capture."""
        return self._find(self._prepare(inputs))

    def _prepare(self, inputs: Sequence[Any]) -> Sequence[Any]:
        """What the programs take for the inputs of the captured graph."""
        if self._compute is not None:
            inputs = self._compute(inputs)
        return as_scalars(inputs, self._scalars) if self._scalars else inputs

    def _find(self, inputs: Sequence[Any]) -> Compiled:
        """The program for these inputs."""
        found = self._look_up(inputs)
        return self._make(inputs) if found is None else found

    def _look_up(self, inputs: Sequence[Any]) -> Compiled | None:
        if self._size_key is not None:
            found = self._programs.get(self._open_key(inputs))
            if found is not None:
                return found
        return self._programs.get(self._exact_key(inputs))

    def _open_key(self, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Tells apart what no program that is open serves together."""
        if self._size_key is None:
            return self._exact_key(inputs)
        assert self._open is not None
        return (*self._size_key(inputs), self._open.number_outcomes(inputs))

    def _compile(self, inputs: Sequence[Any]) -> tuple[Compiled, bool]:
        """What runs for these inputs, and whether it serves all floats for which the same conditions hold."""
        if self._open is not None:
            with watch(self._options) as watching:
                found = self._open.find(inputs, watching)
            if found is not None:
                return found, True
        if self.compiled is None:
            made = self._compile_inputs(inputs)
        else:
            with watch(self._options) as watching:
                made = self._compile_inputs(inputs, watching)
        if self._open is not None and self._open.remark is not None:
            made.report.remarks.append(self._open.remark.to_plain())
        return made, False

    def _make(self, inputs: Sequence[Any]) -> Compiled:
        with self._lock:
            found = self._look_up(inputs)
            if found is not None:
                return found
            if len(self._programs) >= PROGRAMS_KEPT:
                del self._programs[next(iter(self._programs))]
            try:
                made, is_open = self._compile(inputs)
            except Unsupported:
                if self.compiled is None:
                    raise
                made, is_open = Compiled(lambda values: list(self._graph(*values))), False
            if self.compiled is not None:
                self.compiled.is_repeatable &= made.is_repeatable
            self._programs[self._open_key(inputs) if is_open else self._exact_key(inputs)] = made
            return made


class OpenPrograms:
    """The programs for all sizes of one graph: more than one where conditions differ.

    `remark`: why there will be no more.
    """

    def __init__(self, graph: OpenGraph) -> None:
        self.remark: Remark | None = None
        self._graph = graph
        self._programs: list[OpenProgram] = []

    def find(self, inputs: Sequence[Any], watching: Watch) -> Compiled | None:
        """What runs for these inputs; None where no program for all sizes is right for them."""
        if not self._graph.admits(inputs):
            return None
        for program in self._programs:
            if program.holds(inputs):
                return program.bind(inputs, watching)
        if self.remark is not None:
            return None
        if len(self._programs) >= MOST_OPEN:
            self._refuse(None, f"{MOST_OPEN} programs hold under conditions that these sizes do not meet")
            return None
        try:
            program = self._graph.compile(inputs, watching)
            if not program.holds(inputs):
                raise CompilerBug("a program does not hold for the sizes that it was made for")
            bound = program.bind(inputs, watching)
        except (Unsupported, UserError) as error:
            self._refuse(error.location, error.message)
            return None
        except Exception as error:
            bug = write_replay(error, self._graph.graph, {}, self._graph.options)
            text = f"lamina: {bug.message}; each set of sizes is compiled by itself. {bug.replay_folder}"
            warnings.warn(text, stacklevel=2)
            self._refuse(None, bug.message)
            return None
        self._programs.append(program)
        return bound

    def number_outcomes(self, inputs: Sequence[Any]) -> tuple[bool, ...]:
        """Which of the programs' conditions on floats hold: all that which program serves hangs on."""
        numbers = self._graph.number_values(inputs)
        ordinary = all(map(is_ordinary, numbers.values()))
        conditions = (each for program in self._programs for each in program.program.number_conditions)
        return (ordinary, *(each.holds(numbers) for each in conditions))

    def hold(self, inputs: Sequence[Any]) -> bool:
        """Whether there is a program for these inputs."""
        return self._graph.admits(inputs) and any(program.holds(inputs) for program in self._programs)

    def _refuse(self, place: Place, reason: str) -> None:
        file, line = (place.file, place.line) if isinstance(place, SourceLocation) else place or ("", 0)
        location = Location(file, line) if file else UNKNOWN
        text = f"a program for each set of sizes, not one for all: {reason}"
        self.remark = Remark("sizes", "refused", location, text)


def find_floats(graph: fx.Graph, varying: Sequence[tuple[int, int | None]]) -> list[int]:
    """Which of the inputs that vary are floats."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    return [
        index
        for index, dimension in varying
        if dimension is None and type(placeholders[index].meta["example_value"]) is float
    ]


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
