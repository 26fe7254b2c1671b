"""Operations that take a Python number, as programs of a tensor and the number."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Program = Callable[[torch.Tensor, Any], Any]


def square(x: torch.Tensor) -> torch.Tensor:
    """A matrix of the tensor's numbers."""
    return torch.outer(x.reshape(-1)[:3], x.reshape(-1)[:3])


def other(x: torch.Tensor) -> torch.Tensor:
    """A second operand."""
    return x.flip(0) if x.dim() else x


def rows(x: torch.Tensor) -> torch.Tensor:
    """Two rows, for norms and losses."""
    return torch.stack([x.reshape(-1), other(x).reshape(-1)])


def images(x: torch.Tensor) -> torch.Tensor:
    """A batch of channels, for norms."""
    return rows(x).repeat(2, 1).reshape(2, 2, -1)


def heads(x: torch.Tensor) -> torch.Tensor:
    """A batch of one head, for attention."""
    return rows(x).reshape(1, 1, 2, -1)


def assign(x: torch.Tensor, k: Any) -> torch.Tensor:
    result = x.reshape(-1).clone()
    result[0] = k
    result[result > 1] = k
    return result


def put(x: torch.Tensor, k: Any) -> torch.Tensor:
    return x.reshape(-1).clone().index_put_((torch.tensor([0]),), torch.tensor(k, dtype=x.dtype))


def first(x: torch.Tensor) -> torch.Tensor:
    """Where to scatter to."""
    return torch.zeros(1, dtype=torch.int64)


def in_place(name: str) -> Program:
    """The method `name` on a copy of the tensor."""

    return lambda x, k: getattr(x.clone(), name)(k)


METHODS = (
    *("add", "sub", "mul", "div", "remainder", "fmod", "floor_divide", "pow", "eq", "ne", "lt", "le", "gt"),
    *("ge", "copysign", "xlogy", "clamp_min", "clamp_max", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("bitwise_left_shift", "bitwise_right_shift", "float_power", "new_tensor"),
)
IN_PLACE = (
    *("add_", "sub_", "mul_", "div_", "remainder_", "fmod_", "pow_", "clamp_min_", "clamp_max_", "fill_"),
    *("floor_divide_", "eq_", "bitwise_and_", "copysign_", "xlogy_"),
)
FOREACH = ("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max", "maximum", "minimum")
RIGHT: dict[str, Program] = {
    "k + x": lambda x, k: k + x,
    "k - x": lambda x, k: k - x,
    "k * x": lambda x, k: k * x,
    "k / x": lambda x, k: k / x,
    "k // x": lambda x, k: k // x,
    "k % x": lambda x, k: k % x,
    "k ** x": lambda x, k: k**x,
    "k < x": lambda x, k: k < x,
    "k & x": lambda x, k: k & x,
    "k << x": lambda x, k: k << x,
    "xlogy(k, x)": lambda x, k: torch.xlogy(k, x),
    "xlog1py(x, k)": lambda x, k: torch.special.xlog1py(x, k),
    "zeta(x, k)": lambda x, k: torch.special.zeta(x, k),
    "rsub": lambda x, k: torch.rsub(x, k),
    "rsub alpha": lambda x, k: torch.rsub(x, other(x), alpha=k),
}
FILLED: dict[str, Program] = {
    "full": lambda x, k: torch.full((2,), k),
    "full of dtype": lambda x, k: torch.full((2,), k, dtype=x.dtype),
    "full_like": lambda x, k: torch.full_like(x, k),
    "full_like of int8": lambda x, k: torch.full_like(x, k, dtype=torch.int8),
    "new_full": lambda x, k: x.new_full((2,), k),
    "scalar_tensor": lambda x, k: torch.scalar_tensor(k, dtype=x.dtype),
    "tensor": lambda x, k: torch.tensor(k),
    "tensor of dtype": lambda x, k: torch.tensor([k, 1], dtype=x.dtype),
    "as_tensor": lambda x, k: torch.as_tensor(k) + x,
    "fill": lambda x, k: torch.fill(x, k),
    "masked_fill": lambda x, k: x.masked_fill(other(x) == 1, k),
    "masked_fill_": lambda x, k: x.clone().masked_fill_(other(x) == 1, k),
    "masked_fill by tensor": lambda x, k: x.masked_fill(other(x) == 1, torch.tensor(k)),
    "index_fill": lambda x, k: x.reshape(-1).index_fill(0, first(x), k),
    "index_put": put,
    "assign": assign,
    "scatter": lambda x, k: x.reshape(-1).scatter(0, first(x), k),
    "scatter reduce": lambda x, k: x.reshape(-1).clone().scatter_(0, first(x), k, reduce="add"),
    "fill_diagonal": lambda x, k: square(x).fill_diagonal_(k),
    "where left": lambda x, k: torch.where(x == 1, k, x),
    "where right": lambda x, k: torch.where(x == 1, x, k),
    "where both": lambda x, k: torch.where(x == 1, k, 2),
    "pad": lambda x, k: F.pad(x.reshape(1, -1), (1, 2), value=k),
    "pad rows, then sum": lambda x, k: F.pad(rows(x), (1, 0, 0, 2), value=k).sum(-1),
    "constant_pad_nd": lambda x, k: torch.constant_pad_nd(x.reshape(-1), (1, -1), k),
    "arange": lambda x, k: torch.arange(k, k + 3),
    "linspace": lambda x, k: torch.linspace(k, 3, 4),
    "add into the left": lambda x, k: x.clone().add_(x > 0, alpha=k),
}
BOUNDED: dict[str, Program] = {
    "clamp min": lambda x, k: x.clamp(min=k),
    "clamp max": lambda x, k: x.clamp(max=k),
    "clamp both": lambda x, k: x.clamp(-1, k),
    "clamp both at k": lambda x, k: torch.clip(x, k, 1.0),
    "clamp_": lambda x, k: x.clone().clamp_(k, 2),
    "hardtanh": lambda x, k: F.hardtanh(x, -1.0, k),
    "relu6 of a product": lambda x, k: F.relu6(x * k),
    "nan_to_num": lambda x, k: torch.nan_to_num(x, k, k, k),
    "nan_to_num of nan": lambda x, k: torch.nan_to_num(x, k),
    "nan_to_num of infinities": lambda x, k: x.nan_to_num(0.0, posinf=k, neginf=1.0),
    "threshold": lambda x, k: F.threshold(x, k, 1),
    "threshold to": lambda x, k: F.threshold(x, 1, k),
    "histc": lambda x, k: torch.histc(x, 4, -1, k),
    "isin": lambda x, k: torch.isin(x, k),
    "isin of": lambda x, k: torch.isin(k, x),
    "bucketize": lambda x, k: torch.bucketize(k, torch.tensor([0.0, 1.0])),
    "searchsorted": lambda x, k: torch.searchsorted(x.reshape(-1).sort()[0], k),
}
SCALED: dict[str, Program] = {
    "add alpha": lambda x, k: torch.add(x, other(x), alpha=k),
    "sub alpha": lambda x, k: torch.sub(x, other(x), alpha=k),
    "add number alpha": lambda x, k: torch.add(x, 2, alpha=k),
    "lerp": lambda x, k: torch.lerp(x, other(x), k),
    "addcmul": lambda x, k: torch.addcmul(x, x, other(x), value=k),
    "addcdiv": lambda x, k: torch.addcdiv(x, x, other(x), value=k),
    "div floor": lambda x, k: torch.div(x, k, rounding_mode="floor"),
    "div trunc": lambda x, k: torch.div(x, k, rounding_mode="trunc"),
    "addmm beta": lambda x, k: torch.addmm(square(x), square(x), square(x), beta=k),
    "addmm alpha": lambda x, k: torch.addmm(square(x), square(x), square(x), alpha=k),
    "addmv alpha": lambda x, k: torch.addmv(square(x)[0], square(x), square(x)[0], alpha=k),
    "addr alpha": lambda x, k: torch.addr(square(x), square(x)[0], square(x)[0], alpha=k),
    "addr beta": lambda x, k: torch.addr(square(x), square(x)[0], square(x)[0], beta=k),
    "baddbmm": lambda x, k: torch.baddbmm(square(x)[None], square(x)[None], square(x)[None], beta=k),
    "addbmm": lambda x, k: torch.addbmm(square(x), square(x)[None], square(x)[None], alpha=k),
    "index_add": lambda x, k: x.reshape(-1).index_add(0, first(x), x.reshape(-1)[:1], alpha=k),
    "foreach lerp": lambda x, k: torch._foreach_lerp([x], [other(x)], k),
    "foreach addcmul": lambda x, k: torch._foreach_addcmul([x], [x], [other(x)], k),
    "foreach addcdiv": lambda x, k: torch._foreach_addcdiv([x], [x], [other(x)], k),
    "foreach add alpha": lambda x, k: torch._foreach_add([x], [other(x)], alpha=k),
    "foreach mul numbers": lambda x, k: torch._foreach_mul([x, x], [k, 2]),
    "trapezoid": lambda x, k: torch.trapezoid(x.reshape(-1), dx=k),
}
ACTIVATIONS: dict[str, Program] = {
    "leaky_relu": lambda x, k: F.leaky_relu(x, k),
    "elu": lambda x, k: F.elu(x, k),
    "celu": lambda x, k: F.celu(x, k),
    "softplus": lambda x, k: F.softplus(x, k),
    "softplus threshold": lambda x, k: F.softplus(x, 1, k),
    "softshrink": lambda x, k: F.softshrink(x, k),
    "hardshrink": lambda x, k: F.hardshrink(x, k),
    "logit": lambda x, k: torch.logit(x, k),
    "dropout": lambda x, k: F.dropout(x, k, training=True),
    "logit_": lambda x, k: x.clone().logit_(k),
    "dropout in place": lambda x, k: F.dropout(x.clone(), k, training=True, inplace=True),
    "dropout2d": lambda x, k: F.dropout2d(images(x)[:, :, None], k, training=True),
    "alpha_dropout": lambda x, k: F.alpha_dropout(x, k, training=True),
    "rrelu": lambda x, k: F.rrelu(x, 0.1, k),
    "bernoulli": lambda x, k: torch.bernoulli(x, k),
}
NORMS: dict[str, Program] = {
    "layer_norm": lambda x, k: F.layer_norm(rows(x), rows(x).shape[1:], eps=k),
    "rms_norm": lambda x, k: F.rms_norm(rows(x), rows(x).shape[1:], eps=k),
    "group_norm": lambda x, k: F.group_norm(images(x), 2, eps=k),
    "instance_norm": lambda x, k: F.instance_norm(images(x), eps=k),
    "batch_norm": lambda x, k: F.batch_norm(images(x), x.reshape(-1)[:2], x.reshape(-1)[1:3].abs(), eps=k),
    "batch_norm in training": lambda x, k: F.batch_norm(images(x), None, None, training=True, eps=k),
    "normalize": lambda x, k: F.normalize(rows(x), eps=k),
    "normalize p": lambda x, k: F.normalize(rows(x), k),
    "norm": lambda x, k: torch.norm(x, k),
    "norm of rows": lambda x, k: torch.norm(rows(x), k, -1),
    "vector_norm": lambda x, k: torch.linalg.vector_norm(x, k),
    "cosine_similarity": lambda x, k: F.cosine_similarity(rows(x), other(rows(x)), eps=k),
    "pairwise_distance": lambda x, k: F.pairwise_distance(rows(x), other(rows(x)), eps=k),
    "cdist": lambda x, k: torch.cdist(rows(x), rows(x), p=k),
    "dist": lambda x, k: torch.dist(x, other(x), k),
    "renorm": lambda x, k: torch.renorm(rows(x), 2, 0, k),
    "std correction": lambda x, k: torch.std(rows(x), 1, correction=k),
    "var correction": lambda x, k: torch.var(rows(x), 1, correction=k),
    "quantile": lambda x, k: torch.quantile(x, k),
    "isclose": lambda x, k: torch.isclose(x, other(x), k, k),
    "local_response_norm": lambda x, k: F.local_response_norm(images(x) / 1, 2, k),
    "attention": lambda x, k: F.scaled_dot_product_attention(heads(x), heads(x), heads(x), scale=k),
    "attention dropout": lambda x, k: F.scaled_dot_product_attention(
        heads(x), heads(x), heads(x), dropout_p=k
    ),
    "batch_norm momentum": lambda x, k: F.batch_norm(
        images(x), x.new_zeros(2), x.new_ones(2), training=True, momentum=k
    ),
    "local_response_norm k": lambda x, k: F.local_response_norm(images(x) / 1, 2, 0.1, 0.7, k),
    "gumbel_softmax": lambda x, k: F.gumbel_softmax(rows(x), k),
    "lp_pool": lambda x, k: F.lp_pool1d(images(x).float(), k, 2),
}
LOSSES: dict[str, Program] = {
    "smooth_l1": lambda x, k: F.smooth_l1_loss(x, other(x), beta=k),
    "smooth_l1 kept": lambda x, k: F.smooth_l1_loss(x, other(x), beta=k, reduction="none"),
    "huber": lambda x, k: F.huber_loss(x, other(x), delta=k),
    "cross_entropy": lambda x, k: F.cross_entropy(rows(x), torch.tensor([0, 1]), label_smoothing=k),
    "cross_entropy of shares": lambda x, k: F.cross_entropy(rows(x), rows(x).softmax(-1), label_smoothing=k),
    "margin_ranking": lambda x, k: F.margin_ranking_loss(x, other(x), torch.sign(x), margin=k),
    "hinge_embedding": lambda x, k: F.hinge_embedding_loss(x, torch.sign(other(x)), margin=k),
    "multi_margin": lambda x, k: F.multi_margin_loss(rows(x), torch.tensor([0, 1]), margin=k),
    "cosine_embedding": lambda x, k: F.cosine_embedding_loss(
        rows(x), other(rows(x)), torch.tensor([1, -1]), margin=k
    ),
    "triplet_margin": lambda x, k: F.triplet_margin_loss(rows(x), other(rows(x)), rows(x) * 2, margin=k),
    "triplet_margin with a distance": lambda x, k: F.triplet_margin_with_distance_loss(
        rows(x), other(rows(x)), rows(x) * 2, margin=k
    ),
    "multi_margin p": lambda x, k: F.multi_margin_loss(rows(x), torch.tensor([0, 1]), p=k),
    "poisson_nll in full": lambda x, k: F.poisson_nll_loss(x.abs(), other(x).abs(), False, True, eps=k),
    "poisson_nll": lambda x, k: F.poisson_nll_loss(x, other(x), full=False, log_input=False, eps=k),
}
TABLES: dict[str, dict[str, Program]] = {
    "methods": {name: lambda x, k, name=name: getattr(x, name)(k) for name in METHODS},  # type: ignore[misc]
    "in place": {name: in_place(name) for name in IN_PLACE},
    "foreach": {
        f"foreach {name}": lambda x, k, name=name: getattr(torch, f"_foreach_{name}")([x, other(x)], k)  # type: ignore[misc]
        for name in FOREACH
    },
    "right": RIGHT,
    "filled": FILLED,
    "bounded": BOUNDED,
    "scaled": SCALED,
    "activations": ACTIVATIONS,
    "norms": NORMS,
    "losses": LOSSES,
}
OPERATIONS: dict[str, Program] = dict(itertools.chain(*(table.items() for table in TABLES.values())))
EXACT = frozenset((*METHODS, *IN_PLACE, *RIGHT, *FILLED, *BOUNDED))
"""Operations that round each element at most once: a zero of theirs has eager's sign."""
