"""Which strides the results of an ATen operation have where torch's shape rules may say others.

Rules are by operation: elementwise ones (torch's tag `pointwise`) follow torch's TensorIterator but for the
exceptions listed; the others listed write into memory of their own choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, TypeAlias

import torch

from lamina.eager.errors import WrongShapeRuleError
from lamina.eager.strides import (
    Ints,
    Layout,
    channels_last_strides,
    contiguous_strides,
    elementwise_strides,
    is_channels_last,
    is_contiguous,
    like_strides,
    suggests_channels_last,
    view_strides,
)

Tensor = torch.Tensor
aten = torch.ops.aten
Arguments: TypeAlias = Sequence[Any]
Rule: TypeAlias = Callable[[Arguments, Tensor], Ints | None]
"""(arguments in schema order, a result by torch's rule) -> strides of eager's result; None: torch's are
right."""

NUMBERS = (bool, int, float, complex)
SCALAR: Layout = Layout((), ())
"""A number that takes part as a tensor without dimensions."""


def layout_of(tensor: Tensor) -> Layout:
    """Sizes and strides of a tensor."""
    return Layout(tuple(tensor.shape), tensor.stride())


def _tensors(args: Arguments) -> list[Tensor]:
    return [each for each in args if isinstance(each, Tensor)]


def _like_first(args: Arguments, result: Tensor) -> Ints | None:
    """The kernel writes into `empty_like` of its first tensor."""
    first = layout_of(_tensors(args)[0])
    return like_strides(first) if first.size == result.shape else None


def _contiguous(args: Arguments, result: Tensor) -> Ints:
    return contiguous_strides(tuple(result.shape))


def _suggested(args: Arguments, result: Tensor) -> Ints:
    """The kernel writes channels last where its first tensor's strides suggest it, else in order."""
    is_last = suggests_channels_last(layout_of(args[0])) and result.dim() == args[0].dim()
    return (channels_last_strides if is_last else contiguous_strides)(tuple(result.shape))


def _channels_last(args: Arguments, result: Tensor) -> Ints | None:
    """The kernel writes channels last where its first tensor is, else in order."""
    first = layout_of(args[0])
    if len(first.size) > 4:
        return None
    if is_channels_last(first) and not is_contiguous(first) and result.dim() == 4:
        return channels_last_strides(tuple(result.shape))
    return contiguous_strides(tuple(result.shape))


def _elementwise(args: Arguments, result: Tensor) -> Ints | None:
    """TensorIterator over the tensors, each cast to the common dtype before."""
    return _iterate(_tensors(args), common_dtype(args, result), result)


def _with_number(args: Arguments, result: Tensor) -> Ints | None:
    """The same where a number becomes a tensor, which differs in shape from the others."""
    return _iterate(_tensors(args), common_dtype(args, result), result, SCALAR)


def _reversed(args: Arguments, result: Tensor) -> Ints | None:
    return _iterate(_tensors(args)[::-1], common_dtype(args, result), result)


def _where(args: Arguments, result: Tensor) -> Ints | None:
    """The condition is cast to bool, not to the dtype of the choices."""
    condition = layout_of(args[0])
    if args[0].dtype != torch.bool:
        condition = Layout(condition.size, like_strides(condition))
    numbers = [SCALAR for each in args[1:] if not isinstance(each, Tensor)]
    return _iterate(_tensors(args[1:]), result.dtype, result, *numbers, first=condition)


def _iterate(
    tensors: Sequence[Tensor],
    common: torch.dtype,
    result: Tensor,
    *others: Layout,
    first: Layout | None = None,
) -> Ints | None:
    operands = [] if first is None else [first]
    for tensor in tensors:
        layout = layout_of(tensor)
        if tensor.dtype != common:
            layout = Layout(layout.size, _remembered(like_strides, layout))
        operands.append(layout)
    strides = _remembered(elementwise_strides, (*operands, *others))
    return strides if len(strides) == result.dim() else None


def _remembered(function: Callable[[Any], Ints], argument: Any) -> Ints:
    """A result of before; symbolic sizes cannot be looked up."""
    try:
        return _remember(function, argument)
    except TypeError:
        return function(argument)


@lru_cache(maxsize=4096)
def _remember(function: Callable[[Any], Ints], argument: Any) -> Ints:
    return function(argument)


def common_dtype(args: Arguments, result: Tensor) -> torch.dtype:
    """The dtype that an elementwise operation computes in, which its operands are cast to."""
    if result.dtype != torch.bool:
        return result.dtype
    dtypes = {each.dtype for each in _tensors(args)}
    if len(dtypes) == 1 and not any(type(each) in NUMBERS for each in args):
        return dtypes.pop()
    with torch._C._DisableTorchDispatch():
        return _promote(args)


def _promote(args: Arguments) -> torch.dtype:
    """The common dtype of tensors and numbers, of which the former may be fakes."""
    found: Any = None
    for each in args:
        if isinstance(each, Tensor):
            each = torch.empty([0] * each.dim(), dtype=each.dtype)
        elif type(each) not in NUMBERS:
            continue
        if found is None:
            found = each
            continue
        has_dimensions = any(isinstance(value, Tensor) and value.dim() for value in (found, each))
        found = torch.empty([0] * has_dimensions, dtype=torch.result_type(found, each))
    dtype: torch.dtype = found.dtype
    return dtype


def _abs(args: Arguments, result: Tensor) -> Ints | None:
    return (_like_first if args[0].is_complex() else _elementwise)(args, result)


def _isinf(args: Arguments, result: Tensor) -> Ints | None:
    """`abs(x) == inf`, but for integers."""
    if args[0].is_complex():
        return None
    if not args[0].is_floating_point():
        return _like_first(args, result)
    layout = layout_of(args[0])
    inner = Layout(layout.size, elementwise_strides([layout]))
    return elementwise_strides([inner, SCALAR])


def _conjugate(args: Arguments, result: Tensor) -> Ints | None:
    return _like_first(args, result) if args[0].is_complex() else None


def _huber_loss(args: Arguments, result: Tensor) -> Ints | None:
    """The kernel writes into `empty_like` of its first tensor, where that has the size of the result."""
    return _like_first(args, result) or _elementwise(args, result)


def _glu(args: Arguments, result: Tensor) -> Ints | None:
    half = Layout(tuple(result.shape), args[0].stride())
    return elementwise_strides([half, half])


def _like_unless_reduced(args: Arguments, result: Tensor) -> Ints | None:
    return _like_first(args, result) if result.dim() else None


def _contiguous_unless_reduced(args: Arguments, result: Tensor) -> Ints | None:
    return contiguous_strides(tuple(result.shape)) if result.dim() else None


def _ldexp(args: Arguments, result: Tensor) -> Ints | None:
    """`x * pow(2, y)`, or a kernel over both: which one differs between dtypes and versions of torch."""
    size = tuple(args[1].shape)
    power = _iterate([args[0]], result.dtype, result, Layout(size, contiguous_strides(size)))
    if power != _elementwise(args, result):
        raise WrongShapeRuleError("the strides of eager's ldexp are not known")
    return power


def _loss_of_logits(args: Arguments, result: Tensor) -> Ints | None:
    """All is computed in the memory of `1 - target`, which is like the target's."""
    return like_strides(layout_of(args[1])) if result.dim() else None


def _contiguous_if_empty(args: Arguments, result: Tensor) -> Ints | None:
    return contiguous_strides(tuple(result.shape)) if result.numel() == 0 else None


def _prelu(args: Arguments, result: Tensor) -> Ints | None:
    """Memory like the first tensor's, given up where the result is larger."""
    return (_like_first if args[0].shape == result.shape else _elementwise)(args, result)


def _roll(args: Arguments, result: Tensor) -> Ints | None:
    """Without dimensions given it is rolled flat."""
    is_flat = len(args) < 3 or not args[2]
    return contiguous_strides(tuple(result.shape)) if is_flat and result.numel() == 0 else None


def _pixel_unshuffle(args: Arguments, result: Tensor) -> Ints | None:
    """Of no elements it is a clone, of the size that it had."""
    if result.numel():
        return _suggested(args, result)
    if args[0].shape != result.shape:
        raise WrongShapeRuleError("eager's pixel_unshuffle of no elements keeps the size")
    return _like_first(args, result)


def _view(args: Arguments, result: Tensor) -> Ints | None:
    return view_strides(layout_of(args[0]), tuple(result.shape))


def _measured(func: Any) -> Rule:
    """What a call on a tensor like the first one has: the order in memory is the library's own choice."""

    def rule(args: Arguments, result: Tensor) -> Ints | None:
        values = [_hint(value) for value in args[1:]]
        key = (_hint(args[0].shape), _hint(args[0].stride()), args[0].dtype, *map(str, values))
        if key not in known:
            with torch.utils._python_dispatch._disable_current_modes(), torch.no_grad():
                known[key] = func(torch.empty_strided(key[0], key[1], dtype=key[2]), *values).stride()
        if all(type(stride) is int for stride in result.stride()):
            return known[key]
        if known[key] != _hint(result.stride()):
            raise WrongShapeRuleError(f"the strides of eager's {func} are not torch's rule's")
        return None

    known: dict[Any, Ints] = {}
    return rule


def _hint(value: Any) -> Any:
    """A number, or tuple or list of numbers, with this trace's values for those that vary."""
    if isinstance(value, list | tuple):
        return tuple(map(_hint, value))
    if not isinstance(value, torch.SymInt):
        return value
    if not value.node.has_hint():
        raise WrongShapeRuleError("eager's strides depend on a size that is not known")
    return value.node.hint


LIKE_FIRST = (
    "_conj_physical",
    "deg2rad",
    "empty_like",
    "fill",
    "flip",
    "frexp",
    "full_like",
    "hardtanh",
    "index_fill",
    "nan_to_num",
    "ones_like",
    "rad2deg",
    "rand_like",
    "randint_like",
    "randn_like",
    "relu6",
    "sort",
    "zeros_like",
)
CONTIGUOUS = (
    "_log_softmax", "_softmax", "isin", "layer_norm", "linalg_vector_norm", "log_softmax", "masked_fill",
    "native_layer_norm", "norm", "renorm", "softmax", "tril", "triu",
)  # fmt: skip
REDUCED = ("all", "amax", "amin", "any", "mean", "nansum", "prod", "std", "sum", "var")
LIKE_CHANNELS = (
    "_batch_norm_with_update",
    "_batch_norm_with_update_functional",
    "_native_batch_norm_legit",
    "_native_batch_norm_legit_functional",
    "batch_norm",
    "native_batch_norm",
)
SUGGESTED = (
    "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d",
    "_upsample_nearest_exact3d",
    "channel_shuffle",
    "group_norm",
    "max_unpool2d",
    "native_group_norm",
    "pixel_shuffle",
    "upsample_bicubic2d",
    "upsample_bilinear2d",
    "upsample_nearest1d",
    "upsample_nearest2d",
    "upsample_nearest3d",
)
BY_NAME: Mapping[str, Rule] = {
    **dict.fromkeys(LIKE_FIRST, _like_first),
    **dict.fromkeys(CONTIGUOUS, _contiguous),
    **dict.fromkeys(REDUCED, _contiguous_if_empty),
    **dict.fromkeys(LIKE_CHANNELS, _channels_last),
    **dict.fromkeys(SUGGESTED, _suggested),
    "_prelu_kernel": _prelu,
    "abs": _abs,
    "binary_cross_entropy": _like_unless_reduced,
    "binary_cross_entropy_with_logits": _loss_of_logits,
    "conj_physical": _conjugate,
    "glu": _glu,
    "huber_loss": _huber_loss,
    "isinf": _isinf,
    "ldexp": _ldexp,
    "mse_loss": _elementwise,
    "native_dropout_backward": _elementwise,
    "nll_loss2d_forward": _contiguous_unless_reduced,
    "pixel_unshuffle": _pixel_unshuffle,
    "roll": _roll,
    "smooth_l1_loss": _elementwise,
    "where": _where,
}
"""By the name of the operation, whatever its overload."""
BY_OVERLOAD: Mapping[Any, Rule] = {
    aten.pow.Scalar: _contiguous,
    aten.rsub.Tensor: _reversed,
    aten.view.default: _view,
    aten._unsafe_view.default: _view,
    **{
        func: _measured(func)
        for func in (aten._fft_c2c.default, aten._fft_r2c.default, aten._fft_c2r.default)
    },
}
OTHERWISE = frozenset({"clone", "isfinite", "mvlgamma", "positive"})
"""Elementwise by torch's tag, right by torch's rules or made of other operations."""


@cache
def rule_of(func: Any) -> Rule | None:
    """The rule for the strides of an operation's results, None where torch's own are eager's."""
    if func._schema.is_mutable or func.namespace != "aten":
        return None
    if func in BY_OVERLOAD:
        return BY_OVERLOAD[func]
    name = func.overloadpacket.__name__
    if name in BY_NAME:
        return BY_NAME[name]
    if torch.Tag.pointwise not in func.tags or name in OTHERWISE:
        return None
    return _with_number if _takes_number_as_tensor(func) else _elementwise_of(func)


def _elementwise_of(func: Any) -> Rule:
    """A number in a tensor's place becomes a tensor: `x + 1` is `aten.add.Tensor(x, 1)`."""
    arguments = func._schema.arguments
    places = [place for place, each in enumerate(arguments) if str(each.real_type) == "Tensor"]

    def rule(args: Arguments, result: Tensor) -> Ints | None:
        own = [args[place] for place in places if place < len(args)]
        has_number = any(each is not None and not isinstance(each, Tensor) for each in own)
        return (_with_number if has_number else _elementwise)(args, result)

    return rule


NUMBER_IN_KERNEL = (aten.pow.Tensor_Scalar, aten.float_power.Tensor_Scalar, aten.lerp.Scalar)


def _takes_number_as_tensor(func: Any) -> bool:
    """Whether an overload wraps its number in a tensor: all but those whose kernel has it as a parameter."""
    overload = func._overloadname.lower()
    return "scalar" in overload and func not in NUMBER_IN_KERNEL


def strides_of(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Tensor) -> Ints | None:
    """The strides of eager's result, None where they are those of `result`."""
    rule = rule_of(func)
    if rule is None or _asks_for_format(kwargs):
        return None
    strides = rule((*args, *kwargs.values()), result)
    return None if strides is None or strides == result.stride() else strides


def _asks_for_format(kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("memory_format") not in (None, torch.preserve_format)
