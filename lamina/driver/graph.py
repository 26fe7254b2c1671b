"""Compiles one torch-level graph: finds its program on disk or makes it, and gives something that runs.

The result is called with the graph's inputs and gives the graph's outputs, in eager's strides, with eager's
aliasing and mutations.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import fx

from lamina.autograd.outputs import finish_outputs
from lamina.driver.kernels import STORE
from lamina.driver.prepared import Prepared
from lamina.driver.program import Program
from lamina.driver.program_key import program_text
from lamina.driver.watch import Watch, counters
from lamina.ir import machine
from lamina.ir.passes import Context
from lamina.options import Options
from lamina.reports.report import GraphReport
from lamina.runtime.cache import Cache, key_of
from lamina.runtime.devices.cpu import resident
from lamina.runtime.executor import Executor
from lamina.runtime.library_calls import available_libraries


@dataclass(slots=True)
class Compiled:
    """A graph ready to run: `compiled(inputs) -> outputs`, flat lists as the graph has them."""

    run: Callable[[Sequence[Any]], list[Any]]
    report: GraphReport = field(default_factory=lambda: GraphReport("graph"))
    is_repeatable: bool = False
    """Whether a call that failed left no trace: no argument written in place, no random number drawn."""

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return self.run(inputs)


def compile_graph(
    graph: fx.GraphModule, inputs: Sequence[Any], options: Options, watch: Watch, kinds: Sequence[str] = ()
) -> Compiled:
    """Compile for inputs like these. `kinds` says of each whether it is an "input", "parameter" or "buffer".

    Raises Unsupported for what cannot be compiled, CompilerBug (with the IR before the pass) for failures.
    """
    cache = Cache(options.cache_path() if options.cache else None)
    # Who wants to see or check the passes wants them to run.
    is_kept = options.cache and not options.verify and not options.trace
    with watch.stage("program key"):
        text = program_text(graph, inputs, kinds, options, available_libraries()) if is_kept else None
    program = find_program(text, options, cache, watch)
    if program is None:
        # The passes are imported only here: a process that finds its programs on disk is spared them.
        from lamina.driver.lowering import make_program

        context = Context(options, machine.host(options), libraries=available_libraries(), stage=watch.stage)
        program = make_program(graph, inputs, kinds, context, cache, watch)
        keep_program(text, program, options, cache)
    return make_callable(program, options, watch)


def find_program(text: str | None, options: Options, cache: Cache, watch: Watch) -> Program | None:
    """The program of that text from disk, its kernels loaded; None where anything of it is missing."""
    if text is None:
        return None
    key = key_of(text, machine.identity(options))
    with watch.stage("cache"):
        payload = cache.get("program", key)
        if payload is None:
            return None
        try:
            program = Program.from_bytes(payload)
        except Exception as error:
            cache.reject("program", key, f"not readable ({type(error).__name__})")
            return None
    if not STORE.load(program.kernels.values(), cache, watch):
        return None
    counters.cache_hits += 1
    return program


def keep_program(text: str | None, program: Program, options: Options, cache: Cache) -> None:
    """Write a program to disk, where it has a name and is plain data."""
    payload = program.to_bytes() if text is not None else None
    if text is not None and payload is not None:
        cache.put("program", key_of(text, machine.identity(options)), payload)


def make_callable(program: Program, options: Options, watch: Watch) -> Compiled:
    """Something that runs, from a program whose kernels are loaded."""
    with watch.stage("executor"):
        kernels = STORE.callables(program.kernels)
        main = Executor(program.main, kernels, options.threads)
        run: Callable[[Sequence[Any]], list[Any]] = main
        if program.prepare is not None:
            prepare = Executor(program.prepare, kernels)

            def settle() -> None:
                # Packing leaves its arena and reordered copies behind, first library calls their scratch.
                prepare.forget_states()
                resident.give_back()

            run = Prepared(main, prepare, program.prepare_arguments, settle)
    counters.kernels += len(kernels)
    counters.externs += sum(program.report.externs.values())
    counters.packed_bytes += program.report.prepared_bytes
    report = dataclasses.replace(program.report, seconds=watch.seconds, texts={"program": main.source})
    run = finish_outputs(run, program.outputs, program.positions, program.count)
    return Compiled(run, report, program.is_repeatable)
