"""Floats that vary among the arguments of torch's operations: which operations may keep them open.

An operation that gives the same sizes, type and aliasing whatever the float is may: `x.clamp(max=k)`. Others
take this call's value, and the capture holds only where it is the same.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch

from lamina.capture.values.sizes import NumberValue, decide, is_unknown
from lamina.capture.values.tensor import TensorValue
from lamina.eager.doubles import doubles_of
from lamina.eager.errors import LARGEST_HALF, LARGEST_WIDE

ANY_FLOAT = frozenset(
    {
        "add",
        "sub",
        "mul",
        "div",
        "truediv",
        "iadd",
        "isub",
        "imul",
        "itruediv",
        "add_",
        "sub_",
        "mul_",
        "div_",
    }
    | {"eq", "ne", "lt", "le", "gt", "ge", "eq_", "ne_", "lt_", "le_", "gt_", "ge_"}
)
"""Operations of tensors and floats that take any float, unless there are tensors of float16."""
MIXING = (
    *("clamp", "clamp_min", "clamp_max", "clip", "pow", "remainder", "fmod", "floor_divide", "subtract"),
    *("multiply", "divide", "true_divide", "copysign", "xlogy", "special_xlog1py", "special_zeta"),
)
IN_TYPE = (
    *(
        "lerp",
        "addcmul",
        "addcdiv",
        "addmm",
        "addmv",
        "addbmm",
        "baddbmm",
        "addr",
        "leaky_relu",
        "elu",
        "celu",
    ),
    *("hardtanh", "threshold", "masked_fill", "fill", "index_fill", "index_add", "scatter", "fill_diagonal"),
    "renorm",
    *(f"_foreach_{name}" for name in ("add", "sub", "mul", "div", "lerp", "pow", "addcmul", "addcdiv")),
    *("_foreach_clamp_min", "_foreach_clamp_max", "_foreach_maximum", "_foreach_minimum"),
)
MIXES = frozenset(
    {*MIXING, *(f"{name}_" for name in MIXING), "ipow", "mod", "imod", "floordiv", "ifloordiv", "rsub"}
)
"""Operations whose float may raise the type of their result."""
CONVERTS = frozenset(
    {*IN_TYPE, *(f"{name}_" for name in IN_TYPE), "_threshold", "softplus", "softshrink", "hardshrink"}
    | {"pad", "constant_pad_nd", "local_response_norm", "gumbel_softmax", "multi_margin_loss", "rrelu"}
    | {"triplet_margin_with_distance_loss"}
    | {"norm", "linalg_vector_norm", "linalg_norm", "dist", "isin", "searchsorted"}
    | {"normalize", "where", "full", "full_like", "new_full", "scalar_tensor", "setitem", "__setitem__"}
)
"""Operations that convert their float to the type of a tensor, of floats."""
WIDE = (torch.float32, torch.float64, torch.bfloat16)
FLOATS = (*WIDE, torch.float16)
CHECKED: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], bool]] = {
    **dict.fromkeys(
        ("batch_norm", "instance_norm"),
        lambda args, kwargs: outcome(operator.gt, pick(args, kwargs, 7, "eps", 1e-5), 0),
    ),
    "bernoulli": lambda args, kwargs: is_share(pick(args, kwargs, 1, "p", 0.5)),
    "cdist": lambda args, kwargs: is_odd_order(pick(args, kwargs, 2, "p", 2.0)),
    "celu": lambda args, kwargs: has_inverse(pick(args, kwargs, 1, "alpha", 1.0)),
    "cosine_similarity": lambda args, kwargs: outcome(operator.ge, pick(args, kwargs, 3, "eps", 1e-8), 0),
    "cross_entropy": lambda args, kwargs: is_share(pick(args, kwargs, 7, "label_smoothing", 0.5)),
    **dict.fromkeys(
        ("dropout", "dropout1d", "dropout2d", "dropout3d", "feature_dropout"),
        lambda args, kwargs: is_share(pick(args, kwargs, 1, "p", 0.5)),
    ),
    "huber_loss": lambda args, kwargs: outcome(operator.gt, pick(args, kwargs, 3, "delta", 1.0), 0),
    "isclose": lambda args, kwargs: (
        outcome(operator.gt, pick(args, kwargs, 2, "rtol", 1e-5), 0)
        and outcome(operator.gt, pick(args, kwargs, 3, "atol", 1e-8), 0)
    ),
    "multi_margin_loss": lambda args, kwargs: type(pick(args, kwargs, 2, "p", 1)) is not NumberValue,
    **dict.fromkeys(
        ("pow", "ipow"),
        lambda args, kwargs: is_small_exponent(pick(args, kwargs, 1, "exponent", 2)),
    ),
    "quantile": lambda args, kwargs: is_share(pick(args, kwargs, 1, "q", 0.5)),
    "renorm": lambda args, kwargs: (
        outcome(operator.gt, pick(args, kwargs, 1, "p", 2), 0)
        and outcome(operator.ge, pick(args, kwargs, 3, "maxnorm", 1), 0)
    ),
    "scaled_dot_product_attention": lambda args, kwargs: (
        (share := pick(args, kwargs, 4, "dropout_p", 0)) == 0 or is_share(share)
    ),
    "smooth_l1_loss": lambda args, kwargs: outcome(operator.gt, pick(args, kwargs, 5, "beta", 1.0), 0),
    "softshrink": lambda args, kwargs: outcome(operator.ge, pick(args, kwargs, 1, "lambd", 0.5), 0),
    "hardtanh": lambda args, kwargs: outcome(
        operator.le, pick(args, kwargs, 1, "min_val", -1.0), pick(args, kwargs, 2, "max_val", 1.0)
    ),
    "triplet_margin_loss": lambda args, kwargs: outcome(operator.gt, pick(args, kwargs, 3, "margin", 1.0), 0),
    "triplet_margin_with_distance_loss": lambda _, kwargs: outcome(operator.gt, kwargs.get("margin", 1.0), 0),
}
"""What eager asks of a float, else it raises: True where it is so, and guarded."""


def has_inverse(number: Any) -> bool:
    """Whether 1 / number fits f32; guarded."""
    return outcome(operator.gt, number, 1e-38) or outcome(operator.lt, number, -1e-38)


def is_share(number: Any) -> bool:
    """Whether a number lies between 0 and 1, of which either is a case of its own; guarded."""
    return outcome(operator.gt, number, 0) and outcome(operator.lt, number, 1)


def is_small_exponent(number: Any) -> bool:
    """Whether an exponent keeps its parity in f32; guarded."""
    if type(number) is not NumberValue:
        return True
    return outcome(operator.lt, number, 2**24) and outcome(operator.gt, number, -(2**24))


def is_odd_order(number: Any) -> bool:
    """Whether a norm of this order is none that has a way of its own; guarded."""
    return outcome(operator.gt, number, 0) and outcome(operator.ne, number, 2)


def follows_floats(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether floats among the arguments may stay open."""
    name = getattr(target, "__name__", target)
    if name in CONVERTS:
        if not all(dtype in FLOATS for dtype in types_filled(name, args, kwargs)):
            return False
    elif name not in ANY_FLOAT and name not in MIXES and not doubles_of(name):
        return False
    check = CHECKED.get(name.removesuffix("_"))
    return (check is None or check(args, kwargs)) and are_ordinary(name, args, kwargs)


def are_ordinary(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether no float that varies is too large for a type of the tensors; guarded where it is so."""
    values = (*args, *kwargs.values())
    halves = torch.float16 in types_filled(name, args, kwargs) or any(
        type(each) is TensorValue and each.fake.dtype is torch.float16 for each in values
    )
    if name in ANY_FLOAT and not halves and "alpha" not in kwargs:
        return True
    limit = LARGEST_HALF if halves else LARGEST_WIDE
    numbers = [each for each in values if type(each) is NumberValue and each.kind is float]
    return all(is_between(number, limit) for number in numbers if not number.is_unknown)


def is_between(number: NumberValue, limit: float) -> bool:
    """Whether a float is no larger than `limit` and no nan; guarded."""
    if not -limit <= number.hint <= limit:
        return False
    if number.builder.world.guards.is_new("ordinary float", (id(number.node), limit)):
        decide(operator.le, number, limit)
        decide(operator.ge, number, -limit)
    return True


def types_filled(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.dtype]:
    """The types that a float among the arguments is converted to."""
    if kwargs.get("dtype") is not None:
        return [kwargs["dtype"]]
    if name == "full" or name == "scalar_tensor":
        return [torch.get_default_dtype()]
    values = args[1:] if name == "where" else args[:1]
    if values and type(values[0]) in (list, tuple):
        values = values[0]
    return [each.fake.dtype for each in values if type(each) is TensorValue]


def pick(args: tuple[Any, ...], kwargs: dict[str, Any], position: int, name: str, default: Any) -> Any:
    return args[position] if len(args) > position else kwargs.get(name, default)


def outcome(native: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """A comparison, guarded where one of the numbers varies; False where it cannot be known."""
    if is_unknown(left) or is_unknown(right):
        return False
    is_open = NumberValue in (type(left), type(right))
    return decide(native, left, right) if is_open else native(left, right)


def stand_in(value: Any) -> Any:
    """An argument of an operation that does not look at the value of a number: any value does for it."""
    return value.kind(2) if type(value) is NumberValue and value.is_unknown else value


def fix_floats(value: Any) -> Any:
    """An argument of an operation that may look at the value of a float: dynamic floats become constants."""
    kind = type(value)
    if kind is NumberValue and value.kind is float:
        return value.specialize()
    if kind is tuple or kind is list:
        return kind(fix_floats(item) for item in value)
    return value
