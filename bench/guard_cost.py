"""`python -m bench.guard_cost`: microseconds that a compiled call takes besides its work.

    bert         all guards of a warm call of the 12-layer BERT: whether its graph holds, and its inputs
    add-one      a warm call of `x + 1` on 8 floats, over eager's

Each measurement has a fresh process. Of torch.compile the guards are those of the entry that it keeps with
the code of `forward`, asked as a call asks them; they do not fetch the graph's inputs.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch

from bench.fresh import Measurement, Numbers
from bench.peers import PEERS
from bench.timing import time_calls
from bench.workloads import Example, get

SYSTEMS = ("lamina", "torch.compile")
TARGETS = {"bert": 60.0, "add-one": 12.0}
"""Microseconds."""
SECONDS = 1.0


def measure(name: str, system: str) -> Numbers:
    """Microseconds in this process."""
    example = get(name).build()
    with torch.no_grad():
        if name == "bert":
            return (1e6 * time_calls(GUARDS[system](example), SECONDS),)
        calls = [PEERS[peer].prepare(example) for peer in (system, "eager")]
        ours, eager = (time_calls(call, SECONDS) for call in calls)
        return (1e6 * (ours - eager),)


def guards_of_lamina(example: Example) -> Callable[[], Any]:
    """What a call asks before it runs the graph, which must be the only one."""
    import lamina
    from lamina.driver.dispatch import state_of

    compiled = lamina.compile(example.function, fullgraph=True)
    compiled(*example.args, **example.kwargs)
    state = state_of(compiled)
    assert state is not None
    (entry,) = state.root.entries
    match, args, kwargs = entry.captured.match, example.args, example.kwargs
    assert match(args, kwargs) is not None
    return lambda: match(args, kwargs)


def guards_of_torch(example: Example) -> Callable[[], Any]:
    """The same of torch.compile, whose guards are on the locals of the frame."""
    from torch._dynamo.eval_frame import _debug_get_cache_entry_list

    torch.compile(example.function, backend="eager", fullgraph=True)(*example.args, **example.kwargs)
    forward: Any = example.function.__class__.forward  # type: ignore[attr-defined]
    (entry,) = _debug_get_cache_entry_list(forward.__code__)
    check = entry.guard_manager.root.check
    bound = inspect.signature(forward).bind(example.function, *example.args, **example.kwargs)
    assert check(bound.arguments)
    return lambda: check(bound.arguments)


GUARDS = {"lamina": guards_of_lamina, "torch.compile": guards_of_torch}
MEASUREMENT = Measurement("bench.guard_cost", measure)


def main() -> None:
    """Print a row a program."""
    programs, rounds = MEASUREMENT.parse(__doc__, list(TARGETS))
    print(f"{'program':<14} {'lamina us':>9} {'target':>9} {'torch.compile us':>16}")
    for name in programs:
        found = MEASUREMENT.medians(name, SYSTEMS, rounds)
        (ours,), (theirs,) = (found[system] for system in SYSTEMS)
        print(f"{name:<14} {ours:9.1f} {TARGETS[name]:9.0f} {theirs:16.1f}", flush=True)


if __name__ == "__main__":
    main()
