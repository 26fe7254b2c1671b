"""Passes, pipelines and the manager that runs them: verifies, times, prints, counts, bisects, keeps crashes.

    pipeline = parse_pipeline("canonicalize,func.func(tile{size=32}),cse", registry)
    PassManager(pipeline, verify=True).run(module, context)

A pass is a plain function `run(module, context, **options)`. A pipeline is a value with a text that reads
back to it. Levels must meet: what a pass `gives` is what the next one `takes`.
"""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lamina.errors import CompilerBug, Unsupported, UserError
from lamina.ir.analyses import Analyses
from lamina.ir.compare import text_hash
from lamina.ir.core import Operation
from lamina.ir.pass_options import options_to_text, read_options
from lamina.ir.remarks import Remarks
from lamina.ir.text.cursor import BARE_WORD, Cursor
from lamina.ir.text.print import print_module
from lamina.ir.verify import verify
from lamina.options import Options


def _no_stage(name: str) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True)
class Context:
    """What passes may read, and where they leave remarks and counts.

    target: the machine to compile for (`ir.machine.Target`), None where no pass needs one. libraries: those
    behind torch here ("mkl", "mkldnn"), None where nobody has looked. stage: called with the name of each
    pass, gives a context manager around it.
    """

    options: Options = field(default_factory=Options)
    target: Any = None
    remarks: Remarks = field(default_factory=Remarks)
    libraries: frozenset[str] | None = None
    stage: Callable[[str], AbstractContextManager[None]] = _no_stage
    analyses: Analyses = field(default_factory=Analyses)
    statistics: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Pass:
    """A named transformation.

    takes, gives: levels (`ir.levels.LEVELS`), empty when the level does not matter or does not change.
    preserves: names of analyses that stay true, or "all". accepts: options with their defaults; a value must
    have its default's type. is_required: a program without this pass is not complete, so that bisecting never
    leaves it out.
    """

    name: str
    run: Callable[..., None]
    takes: str = ""
    gives: str = ""
    preserves: frozenset[str] = frozenset()
    accepts: Mapping[str, Any] = field(default_factory=dict)
    is_required: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """A pass with the options that were given to it."""

    pass_: Pass
    options: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.pass_.name + (options_to_text(self.options) if self.options else "")


@dataclass(frozen=True, slots=True)
class Nest:
    """A pipeline that runs on each operation `operation` of the module's body by itself."""

    operation: str
    inner: Pipeline

    def __str__(self) -> str:
        return f"{self.operation}({self.inner})"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes in order. Making one with levels that do not meet raises UserError."""

    items: tuple[Step | Nest, ...]

    def __post_init__(self) -> None:
        level, giver = "", ""
        for step in self.steps():
            takes, gives = step.pass_.takes, step.pass_.gives
            if level and takes and level != takes:
                raise UserError(
                    f"pass {step.pass_.name!r} takes level {takes!r}, but {giver!r} before gives {level!r}",
                    hint="put a pass between them that goes from one level to the other",
                )
            if gives:
                level, giver = gives, step.pass_.name

    def steps(self) -> Iterator[Step]:
        for item in self.items:
            if isinstance(item, Nest):
                yield from item.inner.steps()
            else:
                yield item

    def __str__(self) -> str:
        return ",".join(map(str, self.items))


def chain(*passes: Pass) -> Pipeline:
    """A pipeline of passes without options."""
    return Pipeline(tuple(map(Step, passes)))


def parse_pipeline(text: str, registry: Mapping[str, Pass]) -> Pipeline:
    """The pipeline that a text spells; when it spells none, UserError with the place and what is allowed."""
    cursor = Cursor(text, "<passes>")
    items = _read_items(cursor, registry) if not cursor.is_at_end else ()
    if not cursor.is_at_end:
        raise cursor.error("expected ',' between passes")
    return Pipeline(items)


def _read_items(cursor: Cursor, registry: Mapping[str, Pass]) -> tuple[Step | Nest, ...]:
    items = [_read_item(cursor, registry)]
    while cursor.accept(","):
        items.append(_read_item(cursor, registry))
    return tuple(items)


def _read_item(cursor: Cursor, registry: Mapping[str, Pass]) -> Step | Nest:
    start, found = cursor.at, cursor.take(BARE_WORD)
    if found is None:
        raise cursor.error("expected the name of a pass")
    name = found.group()
    if cursor.accept("("):
        inner = Pipeline(_read_items(cursor, registry))
        cursor.expect(")", f"after the passes of '{name}'")
        return Nest(name, inner)
    if name not in registry:
        close = get_close_matches(name, registry, n=1)
        guess = f"did you mean {close[0]!r}? " if close else ""
        raise cursor.error(f"unknown pass '{name}'", start, f"{guess}passes: {', '.join(sorted(registry))}")
    pass_ = registry[name]
    options = read_options(cursor, name, pass_.accepts) if cursor.looking_at("{") else ()
    return Step(pass_, options)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one run of a pass; `verifying` is what the verifier took after it."""

    name: str
    seconds: float
    verifying: float


@dataclass(slots=True, kw_only=True)
class PassManager:
    """Runs a pipeline.

    verify: check the program after every pass, also against the level it gives. check_preserved: compute
    preserved analyses again and compare. print_before, print_after: pass names, or "all"; print_changed:
    print after a pass only when it changed the program; `write` gets the text. bisect_limit: run at most so
    many passes that are not required. replay_dir: where a folder is written when a pass fails; it holds the
    program before the pass and the passes from there on (printing before every pass takes time).
    """

    pipeline: Pipeline
    verify: bool = False
    check_preserved: bool = False
    print_before: frozenset[str] = frozenset()
    print_after: frozenset[str] = frozenset()
    print_changed: bool = False
    write: Callable[[str], None] = print
    bisect_limit: int | None = None
    replay_dir: Path | None = None
    timings: list[Timing] = field(default_factory=list)
    _runs: int = 0

    def run(self, module: Operation, context: Context | None = None) -> None:
        """Run all passes on the module, in place."""
        self._run_items(self.pipeline.items, module, module, context or Context())

    def report(self) -> str:
        """Seconds by pass, slowest first, and what verifying took in all."""
        totals: Counter[str] = Counter()
        for timing in self.timings:
            totals[timing.name] += timing.seconds  # type: ignore[assignment]  # seconds are not whole
        verifying = sum(timing.verifying for timing in self.timings)
        rows = [
            *totals.most_common(),
            ("(verifying)", verifying),
            ("(all)", sum(totals.values()) + verifying),
        ]
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:{width}}  {seconds * 1000:10.3f} ms" for name, seconds in rows)

    def _run_items(
        self, items: Sequence[Step | Nest], root: Operation, target: Operation, context: Context
    ) -> None:
        for number, item in enumerate(items):
            if isinstance(item, Step):
                self._run_step(item, items[number:], root, target, context)
                continue
            inside = [each for block in target.region.blocks for each in block if each.name == item.operation]
            for each in inside:
                self._run_items(item.inner.items, root, each, context)

    def _run_step(
        self, step: Step, rest: Iterable[Step | Nest], root: Operation, target: Operation, context: Context
    ) -> None:
        name = step.pass_.name
        if not self._may_run(step.pass_, context):
            return
        before = text_hash(target) if self.print_changed else ""
        self._print(name, "before", self.print_before, target)
        saved = print_module(target, locations=True) if self.replay_dir is not None else ""
        start = time.perf_counter()
        try:
            with context.stage(name):
                step.pass_.run(target, context, **dict(step.options))
            seconds = time.perf_counter() - start
            self._check(step.pass_, root, target, context)
        except (UserError, Unsupported):
            raise
        except Exception as error:
            if self.replay_dir is None:
                raise
            raise self._keep(error, name, saved, rest) from error
        self.timings.append(Timing(name, seconds, time.perf_counter() - start - seconds))
        if self.print_changed and text_hash(target) != before:
            self._print(name, "after", frozenset({"all"}), target)
        self._print(name, "after", self.print_after, target)

    def _may_run(self, pass_: Pass, context: Context) -> bool:
        if pass_.is_required:
            return True
        if pass_.name in context.options.disabled_passes:
            return False
        if self.bisect_limit is None:
            return True
        self._runs += 1
        is_within = self._runs <= self.bisect_limit
        self.write(f"bisect: {'running' if is_within else 'skipping'} pass {self._runs} {pass_.name}")
        return is_within

    def _check(self, pass_: Pass, root: Operation, target: Operation, context: Context) -> None:
        context.analyses.keep(pass_.preserves)
        if self.check_preserved:
            context.analyses.check(pass_.name)
        if self.verify:
            verify(target, pass_.gives or None, stage=pass_.name)

    def _print(self, name: str, when: str, names: frozenset[str], target: Operation) -> None:
        if name in names or "all" in names:
            self.write(f"// {when} {name}\n{print_module(target)}")

    def _keep(self, error: Exception, name: str, saved: str, rest: Iterable[Step | Nest]) -> CompilerBug:
        """Write what replays a failure; gives the error that names the folder."""
        assert self.replay_dir is not None
        number = sum(1 for _ in self.replay_dir.glob(f"{name}-*")) if self.replay_dir.exists() else 0
        folder = self.replay_dir / f"{name}-{number}"
        folder.mkdir(parents=True)
        passes = ",".join(map(str, rest))
        command = f"lamina opt {shlex.quote(str(folder / 'before.mlir'))} --passes {shlex.quote(passes)}"
        (folder / "before.mlir").write_text(saved)
        (folder / "passes.txt").write_text(passes + "\n")
        (folder / "command.txt").write_text(command + "\n")
        (folder / "error.txt").write_text(f"{type(error).__name__}: {error}\n")
        return CompilerBug(
            f"{type(error).__name__} in pass {name!r}: {error}",
            stage=name,
            replay_folder=str(folder),
            replay_command=command,
        )
