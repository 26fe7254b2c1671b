"""torch's moving parts that capture leans on, in one place: fake tensors and the errors they raise."""

from __future__ import annotations

import functools
import importlib
import inspect
import logging
from typing import Any, TypeVar

import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from lamina.capture.deferred import defer_compiler_import
from lamina.capture.machine.signals import stop
from lamina.eager.mode import EagerFakeMode, fills_its_storage, make_fake_directly

DATA_DEPENDENT: tuple[type[BaseException], ...] = tuple(
    found
    for name in (
        "DataDependentOutputException",
        "DynamicOutputShapeException",
        "UnsupportedOperatorException",
    )
    if (found := getattr(fake_tensor, name, None)) is not None
)
"""Raised where a result's value or shape depends on data that a fake tensor does not have."""
SYMBOL_NEEDED: tuple[type[BaseException], ...] = DATA_DEPENDENT[:2]
"""Of these: raised where a symbol without a value would do, if there were a shape environment."""
FOLLOWED = frozenset(
    {"nonzero", "index", "masked_select", "_unique2", "unique_dim", "unique_consecutive"}
    | {"repeat_interleave", "_local_scalar_dense"}
)
"""Operators whose dependence on data a shape environment follows with a symbol."""


# Structured logging of each input would walk the stack and load torch's compiler to print it.
_takes_trace = "trace" in inspect.signature(FakeTensorMode.from_tensor).parameters
QUIET: dict[str, Any] = {"trace": False} if _takes_trace else {}


class SourceName(str):
    """A name that older versions of torch call and newer ones read."""

    __slots__ = ()

    def __call__(self) -> str:
        return self


class InputSource:
    """Stands for torch's own record of where a tensor comes from, whose class would load its compiler."""

    name = SourceName("input")


class LightFakeMode(EagerFakeMode):  # type: ignore[no-untyped-call]
    """A fake mode without the wrapper that keeps torch's own compiler away from each dispatch.

    The wrapper loads that compiler and costs time in every operation; nothing compiles inside a capture.
    """

    __torch_dispatch__ = getattr(
        FakeTensorMode.__torch_dispatch__, "__wrapped__", FakeTensorMode.__torch_dispatch__
    )

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # The name is about frames: True is what asks for the wrapper.
        return False


Mode = TypeVar("Mode", bound=LightFakeMode)


def make_fake_mode(kind: type[Mode]) -> Mode:
    """A mode that keeps shapes, strides, dtypes, devices and aliasing, and no data."""
    defer_compiler_import()
    return kind(allow_non_fake_inputs=False, static_shapes=True)


def make_fake(mode: FakeTensorMode, tensor: torch.Tensor) -> FakeTensor:
    """The fake of a real tensor: its class, sizes, strides, offset, dtype, device and requires_grad."""
    made: Any
    if fills_its_storage(tensor):
        made = make_fake_directly(mode, tensor)
        if isinstance(tensor, torch.nn.Parameter):
            made._is_param = True
        return made  # type: ignore[no-any-return]
    if tensor.is_leaf and tensor.grad is not None and tensor.grad.shape != tensor.shape:
        stop("tensor-attribute", "a tensor was given data of other sizes than its gradient's")
    source: Any = InputSource()
    made = mode.from_tensor(tensor, static_shapes=True, source=source, **QUIET)
    return made  # type: ignore[no-any-return]


def make_shape_environment(mode: FakeTensorMode) -> Any:
    """torch's algebra of sizes, attached to a mode that had none; its fakes may have symbolic sizes then.

    The first one of a process loads sympy. Sizes and numbers that depend on data are symbols without a value.
    """
    import torch._refs  # noqa: F401  registers the decompositions that symbolic sizes need

    settings: dict[str, Any] = {
        "allow_scalar_outputs": True,
        "allow_dynamic_output_shape_ops": True,
        "duck_shape": False,
    }
    environment = shape_environment_class()(**settings)
    mode.shape_env = environment
    mode.static_shapes = False
    return environment


def settle_trace_log() -> None:
    """Let torch's trace log find out that nobody asked for it.

    It does so with its first record, which otherwise would be one whose stack loads torch's compiler.
    """
    log = logging.getLogger("torch.__trace")
    if log.handlers and all(getattr(handler, "root_dir", log) is None for handler in log.handlers):
        log.debug("", extra={"metadata": {}, "payload": None})


@functools.cache
def shape_environment_class() -> Any:
    """torch's environment without the places in the program that its log would name with each assumption.

    To find them it walks the stack, and loads its compiler to know which frames are its own.
    """
    from torch._guards import SLoc
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    settle_trace_log()
    nowhere = SLoc("", None)

    class QuietShapeEnv(ShapeEnv):
        def _get_stack_summary(self, *_: Any, **__: Any) -> tuple[SLoc, str]:
            return nowhere, ""

    return QuietShapeEnv


def make_symbol(environment: Any, number: int, hint: int, low: int, high: int | None) -> tuple[str, Any]:
    """A symbol between `low` and `high` (None: unbounded), now worth `hint`: its name and its SymInt."""
    from torch._guards import Source
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StrictMinMaxConstraint
    from torch.utils._sympy.numbers import int_oo
    from torch.utils._sympy.value_ranges import ValueRanges

    class NamedSource(Source):
        name = SourceName(f"size{number}")

    source: Any = NamedSource()
    bounds: Any = ValueRanges(low, int_oo if high is None else high)
    expression = environment.create_symbol(
        hint,
        source,
        dynamic_dim=DimDynamic.DYNAMIC,
        constraint_dim=StrictMinMaxConstraint(vr=bounds, warn_only=True),
        positive=low > 0 or None,
        do_not_specialize_zero_one=low < 0,
    )
    return str(expression), environment.create_symintnode(expression, hint=hint, source=source)


def make_unknown_size(environment: Any, least: int = 0) -> Any:
    """A size that depends on values: a SymInt without one, which torch's rules take for neither 0 nor 1."""
    from torch.fx.experimental.symbolic_shapes import _constrain_range_for_size

    made = environment.create_unbacked_symint()
    _constrain_range_for_size(made, min=least)
    return made


def make_number_symbol(environment: Any, number: int, hint: float) -> tuple[str, Any]:
    """A symbol for a float that is now worth `hint`: its name and its SymFloat."""
    from torch._guards import Source
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    class NamedSource(Source):
        name = SourceName(f"number{number}")

    source: Any = NamedSource()
    expression = environment.create_symbol(
        hint, source, dynamic_dim=DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True
    )
    return str(expression), environment.create_symfloatnode(expression, hint=hint, source=source)


def make_dynamic_fake(
    mode: FakeTensorMode, tensor: torch.Tensor, sizes: list[Any], strides: list[Any]
) -> FakeTensor:
    """A fake like `tensor` but with these sizes and strides, ints or SymInts."""
    with mode, torch.inference_mode(tensor.is_inference()):
        made: Any = torch.empty_strided(
            sizes, strides, dtype=tensor.dtype, device=tensor.device, requires_grad=tensor.requires_grad
        )
    return made  # type: ignore[no-any-return]


def symbolic_dispatch() -> Any:
    """The context in which torch prefers its decompositions in Python, which know symbolic sizes."""
    from torch._dispatch.python import enable_python_dispatcher

    return enable_python_dispatcher()


def can_follow(error: BaseException) -> bool:
    """Whether the operation that raised `error` runs on fakes once there is a shape environment."""
    func = getattr(error, "func", None)
    if not isinstance(error, SYMBOL_NEEDED) or func is None:
        return False
    space, _, name = func._schema.name.partition("::")
    return name in FOLLOWED or space != "aten"


def is_undecided(error: BaseException) -> bool:
    """Whether torch asked for the value of a symbol that has none."""
    return any(kind.__name__ == "GuardOnDataDependentSymNode" for kind in type(error).__mro__)


def print_expression(expression: Any) -> str | None:
    """Python text of an expression over sizes, in the symbols' names, builtins and `math`; or None."""
    from torch.utils._sympy.printers import PythonPrinter

    try:
        return str(PythonPrinter().doprint(expression)).replace("torch.sym_float(", "float(")
    except Exception:
        return None


def raw_expression(symbolic: Any) -> Any:
    """The expression that a symbol was made with, before it was found to be equal to another."""
    return symbolic.node._expr


def evaluate_expression(expression: Any, values: dict[str, int]) -> Any:
    """What an expression over sizes is worth where each symbol has the value listed under its name."""
    sympy = importlib.import_module("sympy")
    return expression.xreplace({each: sympy.Integer(values[each.name]) for each in expression.free_symbols})


__all__ = [
    "DATA_DEPENDENT",
    "FakeTensor",
    "FakeTensorMode",
    "LightFakeMode",
    "can_follow",
    "evaluate_expression",
    "is_undecided",
    "make_dynamic_fake",
    "make_fake",
    "make_fake_mode",
    "make_number_symbol",
    "make_shape_environment",
    "make_symbol",
    "make_unknown_size",
    "print_expression",
    "raw_expression",
    "symbolic_dispatch",
]
