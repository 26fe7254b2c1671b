"""Lamina: an ML compiler for PyTorch programs. `fast = lamina.compile(model)`."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any, overload

from lamina.errors import CompilerBug, LaminaError, Unsupported, UserError
from lamina.options import Options

__version__ = "0.1.0"
__all__ = [
    "CompilerBug",
    "LaminaError",
    "Options",
    "Unsupported",
    "UserError",
    "compile",
    "counters",
    "disable",
    "dynamic",
    "explain",
    "graph_break",
    "reset",
]

OptionValues = dict[str, Any] | Options | None


@overload
def compile(
    function: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: OptionValues = None,
    backend: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Any]: ...


@overload
def compile(
    function: Callable[..., Any],
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: OptionValues = None,
    backend: Callable[..., Any] | None = None,
) -> Any: ...


def compile(
    function: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    options: OptionValues = None,
    backend: Callable[..., Any] | None = None,
) -> Any:
    """A compiled version of a function or module; also a decorator, with or without arguments.

    The first call with inputs of a kind compiles; later ones run the program made then. A module stays a
    module of its class and shares all attributes with the original. What cannot be compiled runs eagerly.
    A `torch.export.ExportedProgram` becomes a module: it shares the program's parameters and buffers, takes
    what the exported model took, serves the sizes that it was exported for, and checks its inputs.

    fullgraph: raise `Unsupported` where a call cannot be captured as one graph, instead of running eagerly.
    dynamic: None: a dimension of an argument (or an int or float argument) that takes a second value is
    captured for all values from then on. True: all are, from the first call. False: each value is captured
    anew. 0 and 1 always are; see `lamina.dynamic` for single dimensions.
    options: see `lamina.Options`. backend: called once a captured graph with (torch.fx.GraphModule, inputs)
    in place of our own back end; gives the callable to run.

    Raises UserError for unknown options and for what is no function, module or exported program.
    """
    from lamina.driver.dispatch import compile_callable

    if dynamic not in (None, True, False):
        raise UserError(f"dynamic is {dynamic!r}", hint="allowed: None, True, False")
    chosen = Options.from_user(options)
    if function is None:
        return lambda decorated: compile_callable(
            decorated, chosen, fullgraph=fullgraph, backend=backend, dynamic=dynamic
        )
    return compile_callable(function, chosen, fullgraph=fullgraph, backend=backend, dynamic=dynamic)


def dynamic(tensor: Any, dimension: int, /, *, min: int | None = None, max: int | None = None) -> Any:
    """Mark a dimension of `tensor` as one that varies: its first capture serves all sizes from `min` (2 if
    not given) to `max`, with dynamic=False as well. Gives `tensor` back.

    Sizes 0 and 1 are captured by themselves, and a size outside the bounds is captured without them. A
    program may still pin a size, by indexing a Python list with it, say. Raises UserError for what is no
    tensor, a dimension it does not have, and empty bounds.
    """
    from lamina.capture.dynamic import mark_dynamic

    return mark_dynamic(tensor, dimension, min, max)


def disable(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, to be run eagerly wherever compiled code calls it; also a decorator.

    A module is disabled by its method: `module.forward = lamina.disable(module.forward)`. Raises UserError
    for what is not a function or method.
    """
    if not isinstance(function, (types.FunctionType, types.MethodType)):
        raise UserError(
            f"lamina.disable takes a function or method, got {function!r}",
            hint="of a module, disable its forward",
        )

    @functools.wraps(function)
    def run_eagerly(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    run_eagerly.__lamina_disabled__ = True  # type: ignore[attr-defined]
    return run_eagerly


def graph_break() -> None:
    """Ends the current graph where compiled code calls this; does nothing in eager code."""


graph_break.__lamina_disabled__ = True  # type: ignore[attr-defined]


def explain(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Compile for these arguments, run once, and say what was done (`lamina.reports.report`)."""
    from lamina.driver.dispatch import explain_call

    return explain_call(function, args, kwargs)


def counters() -> dict[str, int]:
    """What happened since the last `reset`: graphs, recompiles, breaks, kernels, externs,
    kernel_compilations, cache_hits, packed_bytes."""
    from lamina.driver.watch import counters as current

    return current.as_dict()


def reset() -> None:
    """Set the counters to 0 and forget the kernels of this process (the disk cache stays)."""
    from lamina.driver.kernels import STORE
    from lamina.driver.watch import counters as current

    current.reset()
    STORE.clear()
