"""Errors about dtypes and numbers, which torch's shape rules do not raise and its kernels do.

    False - x, torch.add(x, y, alpha=0.5) of integers, torch.gelu of integers, float64 @ float32

An operation runs once for real, on tensors as small as its rank allows, for each combination of dtypes and
numbers; what it raises, the program's own call would raise. What fills tensors with a number, 1e39 of float32
or 300 of uint8, may take other sizes and indices: of it, a fill runs alone. What needs the program's sizes
runs on zeros of these, and only that its kernel lacks a dtype counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import torch

Tensor = torch.Tensor
aten = torch.ops.aten

TRIED = frozenset(
    {
        "_log_softmax", "_softmax", "addbmm", "addmm", "addmv", "addr", "all", "amax", "amin", "aminmax",
        "any", "argmax", "argmin", "baddbmm", "binary_cross_entropy", "bmm", "cummax", "cummin", "cumprod",
        "cumsum", "dot", "fill", "glu", "hardswish", "huber_loss", "leaky_relu", "linalg_vector_norm",
        "linear", "log_softmax", "logcumsumexp", "logsumexp", "max", "mean", "min", "mm", "mse_loss", "mv",
        "norm", "prod", "rsub", "smooth_l1_loss", "softmax", "sort", "std", "std_mean", "sum", "var",
        "var_mean", "vdot", "where",
    }
)  # fmt: skip
"""Reductions, scans, products: operations besides the elementwise ones that may run on other sizes."""
TRIED_ON_ZEROS = frozenset(
    {
        "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "batch_norm", "bucketize",
        "grid_sampler_2d", "grid_sampler_3d", "im2col", "kthvalue", "log_sigmoid", "log_sigmoid_forward",
        "median", "searchsorted", "topk", "trace", "upsample_bicubic2d", "upsample_bilinear2d",
        "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d",
        "upsample_trilinear3d",
    }
)  # fmt: skip
"""Operations that lack kernels of some dtypes and need sizes that fit each other."""
MADE_OF_NUMBER = frozenset({"full", "full_like", "new_full", "scalar_tensor"})
GIVEN_NUMBER = frozenset(
    {
        "_unsafe_masked_index",
        "constant_pad_nd",
        "fill_diagonal",
        "index_add",
        "index_fill",
        "linspace",
        "masked_fill",
        "scatter",
    }
)
"""Operations that convert a number to the type of their result as a fill does."""
SAFE_IN_RANGE = 2**53
"""Eager takes the length of a range from sums of int64 or of doubles, which are exact up to this."""
LONGEST_TRIED = 2**16
LARGEST_WIDE = 3.3895313892515355e38
"""Beyond the largest number of its type eager refuses a float; bfloat16's serves for all types but f16."""
LARGEST_HALF = 65504
SIZE = 2
MOST_ZEROS = 2**16
"""Elements of all operands of an operation that runs on zeros."""
REFUSAL = re.compile("not implemented for '|not support")
_known_types: set[Any] = set()
_known: dict[Any, list[torch.dtype]] = {}
_known_fills: set[Any] = set()


def check_call(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Raise what eager raises on operands of these dtypes; sizes are not looked at.

    result: by torch's shape rule. WrongShapeRuleError where eager's has another dtype.
    """
    if number_places(func):
        numbers = settle_numbers(func, args, kwargs, result)
        if is_filling(func):
            check_fill(func, numbers, result)
        if func.overloadpacket is aten.arange:
            check_range(func, args, kwargs, result)
    if not is_tried(func):
        if may_lack_types(func):
            check_types(func, args, kwargs)
        return
    try:
        named = tuple((name, _key(value)) for name, value in kwargs.items())
        key = func, torch.get_default_dtype(), tuple(map(_key, args)), named
    except _NotTriedError:
        return
    if key not in _known:
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            small = [_shrink(value) for value in args]
            found = func(*small, **{name: _shrink(value) for name, value in kwargs.items()})
        _known[key] = _dtypes(found)
    if _dtypes(result) != _known[key]:
        raise WrongShapeRuleError(f"torch's shape rule for {func} gives another dtype than its kernel")


def check_types(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise what eager raises where its kernel lacks the operands' dtypes; all have f32 and f64."""
    values = [*args, *kwargs.values()]
    dtypes = tuple(each.dtype if isinstance(each, Tensor) else type(each) for each in values)
    if (func, dtypes) in _known_types or not any(map(_is_rare, values)):
        return
    try:
        if sum(math.prod(_sizes_at_hand(each)) for each in values if isinstance(each, Tensor)) > MOST_ZEROS:
            return
        zeros = [_make_zeros(value) for value in args]
        named = {name: _make_zeros(value) for name, value in kwargs.items()}
    except _NotTriedError:
        return
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        try:
            func(*zeros, **named)
        except (RuntimeError, IndexError, ValueError) as error:
            if REFUSAL.search(str(error)):
                raise
    _known_types.add((func, dtypes))


def _is_rare(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype not in (torch.float32, torch.float64)


def check_fill(func: Any, numbers: Iterable[Any], result: Any) -> None:
    """Raise what eager raises where a number does not fit the type that is filled with it."""
    is_given = func.overloadpacket.__name__.removesuffix("_") in GIVEN_NUMBER
    # A single element is made in another way, which lets float16 be infinite.
    is_single = not is_given and all(type(size) is int and size == 1 for size in result.shape)
    for number in numbers:
        if isinstance(number, int | float | complex):
            _try_fill(result.dtype, 1 if is_single else SIZE, type(number), str(number), number)


def _try_fill(dtype: torch.dtype, size: int, *number: Any) -> None:
    key = dtype, size, *number[:2]
    if key not in _known_fills:
        with torch._C._DisableTorchDispatch(), torch.no_grad():
            torch.empty(size, dtype=dtype).fill_(number[2])
        _known_fills.add(key)


def check_range(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> None:
    """Raise what eager raises of a range of numbers that int64 hardly holds, or of a type that has no ranges.

    WrongShapeRuleError where eager's has another length.
    """
    numbers = [_settle(each, -SAFE_IN_RANGE, SAFE_IN_RANGE) for each in numbers_of(func, args, kwargs)]
    is_safe = all(not isinstance(each, int) or abs(each) <= SAFE_IN_RANGE for each in numbers)
    if (is_safe and result.dtype is not torch.bool) or result.numel() > LONGEST_TRIED:
        return
    with torch._C._DisableTorchDispatch(), torch.no_grad():
        found = func(*map(_shrink, args), **{name: _shrink(value) for name, value in kwargs.items()})
    if found.shape != result.shape:
        raise WrongShapeRuleError("torch's shape rule gives a range another length than its kernel")


def settle_numbers(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any) -> list[Any]:
    """The numbers among an operation's arguments; of ints that vary those that fit the types of its tensors.

    That one fits is a condition of its symbol; one that does not is what it is now, and no longer varies:
    whether eager wraps or refuses it differs between operations.
    """
    numbers = numbers_of(func, args, kwargs)
    if not any(isinstance(each, torch.SymInt) for each in numbers):
        return numbers
    low, high = bounds_of_types(find_dtypes((*args, *kwargs.values(), result)))
    return [_settle(each, low, high) for each in numbers]


def _settle(number: Any, low: int, high: int) -> Any:
    if not isinstance(number, torch.SymInt) or not number.node.has_hint():
        return number
    return number if number >= low and number <= high else int(number)


def find_dtypes(values: Any) -> Iterator[torch.dtype]:
    """The dtypes among arguments, and those of tensors."""
    for each in values:
        if isinstance(each, Tensor):
            yield each.dtype
        elif isinstance(each, torch.dtype):
            yield each
        elif isinstance(each, list | tuple):
            yield from find_dtypes(each)


def bounds_of_types(dtypes: Iterable[torch.dtype]) -> tuple[int, int]:
    """The smallest and the largest int that is a number of each of the types."""
    low, high = -(2**63), 2**63 - 1
    for dtype in dtypes:
        if dtype is torch.float16:
            low, high = max(low, -LARGEST_HALF), min(high, LARGEST_HALF)
        elif not (dtype.is_floating_point or dtype.is_complex or dtype is torch.bool):
            limits = torch.iinfo(dtype)
            low, high = max(low, limits.min), min(high, limits.max)
    return low, high


def numbers_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that are numbers to an operation, not sizes or dimensions; those of lists among them."""
    found = [args[position] for position, _ in number_places(func) if position < len(args)]
    found += [kwargs[name] for _, name in number_places(func) if name in kwargs]
    return [each for value in found for each in (value if isinstance(value, list | tuple) else (value,))]


@cache
def number_places(func: Any) -> list[tuple[int, str]]:
    """Positions and names of what may be a number: arguments of torch's type Scalar, second tensors."""
    return [
        (position, each.name)
        for position, each in enumerate(func._schema.arguments)
        if "number" in str(each.real_type) or (position and str(each.real_type) == "Tensor")
    ]


class WrongShapeRuleError(NotImplementedError):
    """A shape rule of torch's that cannot be followed."""


def _dtypes(result: Any) -> list[torch.dtype]:
    if isinstance(result, Tensor):
        return [result.dtype]
    return [each.dtype for each in result] if isinstance(result, list | tuple) else []


@cache
def is_tried(func: Any) -> bool:
    """Whether an operation's errors can be found on other sizes than the program's."""
    if func.namespace != "aten" or torch.Tag.nondeterministic_seeded in func.tags:
        return False
    return torch.Tag.pointwise in func.tags or func.overloadpacket.__name__.removesuffix("_") in TRIED


@cache
def may_lack_types(func: Any) -> bool:
    """Whether an operation runs on zeros of the program's sizes to see if it has the operands' dtypes."""
    return func.namespace == "aten" and func.overloadpacket.__name__ in TRIED_ON_ZEROS


@cache
def is_filling(func: Any) -> bool:
    """Whether an operation converts its number as a fill does."""
    name = func.overloadpacket.__name__.removesuffix("_")
    return func.namespace == "aten" and (name in MADE_OF_NUMBER or name in GIVEN_NUMBER)


class _NotTriedError(Exception):
    """An argument that has no small version."""


def _key(value: Any) -> Any:
    if isinstance(value, Tensor):
        if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
            raise _NotTriedError
        return value.dtype, _small_size(value)
    if isinstance(value, list | tuple):
        return tuple(map(_key, value))
    if isinstance(value, torch.SymInt) and value.node.has_hint():
        value = value.node.hint
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | torch.Generator):
        raise _NotTriedError
    return type(value), str(value)


def _small_size(tensor: Tensor) -> tuple[int, ...]:
    return tuple(min(size, SIZE) if type(size) is int else SIZE for size in tensor.shape)


def _sizes_at_hand(tensor: Tensor) -> list[int]:
    """A tensor's sizes, with this trace's values for those that vary."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided or tensor.is_quantized:
        raise _NotTriedError
    sizes: list[Any] = list(tensor.shape)
    if not all(type(size) is int or size.node.has_hint() for size in sizes):
        raise _NotTriedError
    return [size if type(size) is int else size.node.hint for size in sizes]


def _make_zeros(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.zeros(_sizes_at_hand(value), dtype=value.dtype)
    if isinstance(value, list | tuple):
        return [_make_zeros(item) for item in value]
    if isinstance(value, torch.SymInt) and value.node.has_hint():
        return value.node.hint
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool | torch.Generator):
        raise _NotTriedError
    return value


def _shrink(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.ones(_small_size(value), dtype=value.dtype)
    if isinstance(value, list | tuple):
        return [_shrink(item) for item in value]
    return value.node.hint if isinstance(value, torch.SymInt) else value
