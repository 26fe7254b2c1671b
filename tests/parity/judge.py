"""Judges one entry of torch's operator database: an operator with a dtype, eager against compiled."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tests.parity.compare import copy_arguments, find_difference, widen
from tests.parity.compilers import Compiler
from tests.parity.exceptions import BY_OPERATOR
from tests.parity.layouts import relay

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool)
SEED = 0
GOOD = ("same", "skipped")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class Entry(NamedTuple):
    """An operator of the database (name and variant) with a dtype."""

    operator: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.operator}[{self.dtype}]"


@dataclass
class Verdict:
    """same, differs, refused (eager works, compiled raises), crashed, late, or skipped (no sample at all).

    samples: how many were judged; breaks: calls that ran eagerly; reason: of the first sample that was not
    the same.
    """

    verdict: str
    samples: int = 0
    breaks: int = 0
    reason: str = ""

    def is_good(self, entry: Entry) -> bool:
        """Whether this is eager's result, or excused."""
        excuse = BY_OPERATOR.get(entry.operator)
        return self.verdict in GOOD or (
            self.verdict == "refused" and excuse is not None and excuse.kind == "refused"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@cache
def operators() -> dict[str, Any]:
    """The database by name; a variant is named after its operator and a dot."""
    return {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


def list_entries() -> list[Entry]:
    """Every operator with each of DTYPES that it lists."""
    return [
        Entry(name, str(dtype).removeprefix("torch."))
        for name, op in operators().items()
        for dtype in DTYPES
        if dtype in op.dtypes
    ]


def judge(entry: Entry, compiler: Compiler, most_samples: int) -> Verdict:
    """The worst verdict over up to `most_samples` samples, spread over those that there are (0: all)."""
    op = operators()[entry.operator]
    verdict = Verdict("skipped")
    compiler.reset()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for arguments in choose_samples(op, getattr(torch, entry.dtype), most_samples):
            outcome, reason = judge_call(entry, op.op, arguments, compiler)
            verdict.samples += 1
            verdict.verdict, verdict.reason = outcome, reason[:500]
            if outcome != "same":
                break
    verdict.breaks = compiler.count_breaks()
    return verdict


def choose_samples(op: Any, dtype: torch.dtype, most: int) -> Iterator[Arguments]:
    """The first sample, and others at equal distances; each also in other memory; then what eager refuses."""
    torch.manual_seed(SEED)
    samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
    step = 1 if most == 0 else max(1, len(samples) // most)
    rng = random.Random(SEED)
    for sample in samples[::step][: most or None]:
        arguments = (sample.input, *sample.args), dict(sample.kwargs)
        yield arguments
        yield relay(arguments, rng)
    if op.error_inputs_func is not None and dtype == torch.float32:
        for wrong in list(op.error_inputs("cpu"))[: most or None]:
            sample = wrong.sample_input
            yield (sample.input, *sample.args), dict(sample.kwargs)


def judge_call(
    entry: Entry, function: Callable[..., Any], arguments: Arguments, compiler: Compiler
) -> tuple[str, str]:
    """(outcome, reason) of one sample. Both calls start from the same random state, on arguments of their
    own. Where eager raises the compiled call has to raise the same.
    """
    eager_arguments, compiled_arguments = copy_arguments(arguments), copy_arguments(arguments)
    compiled = compiler.compile(lambda *args, **kwargs: function(*args, **kwargs))
    try:
        expected = run(function, eager_arguments)
    except Exception as error:
        return judge_error(error, compiled, compiled_arguments)
    try:
        actual = run(compiled, compiled_arguments)
    except Exception as error:
        return "refused", f"{type(error).__name__}: {error}"
    excuse = BY_OPERATOR.get(entry.operator)
    only_metadata = excuse is not None and excuse.kind == "metadata"
    both = eager_arguments, compiled_arguments
    difference = find_difference(expected, actual, both, only_metadata=only_metadata)
    if difference and "values" in difference:
        exact = run_exactly(function, arguments)
        difference = find_difference(expected, actual, both, only_metadata=only_metadata, exact=exact)
    return ("differs", difference) if difference else ("same", "")


def judge_error(expected: Exception, compiled: Callable[..., Any], arguments: Arguments) -> tuple[str, str]:
    """Whether a compiled call raises what eager did."""
    wanted = f"{type(expected).__name__}: {expected}"
    try:
        run(compiled, arguments)
    except Exception as error:
        found = f"{type(error).__name__}: {error}"
        return ("same", "") if found == wanted else ("differs", f"raises {found}, not {wanted}")
    return "differs", f"raises nothing, not {wanted}"


def run(function: Callable[..., Any], arguments: Arguments) -> Any:
    """The call, from a fixed random state."""
    torch.manual_seed(SEED)
    args, kwargs = arguments
    return function(*args, **kwargs)


def run_exactly(function: Callable[..., Any], arguments: Arguments) -> Any:
    """The call in a higher precision, None where the operator has none."""
    try:
        return run(function, widen(copy_arguments(arguments)))
    except Exception:
        return None
