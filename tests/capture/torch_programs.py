"""Small torch programs: (function, arguments) pairs whose capture must equal eager in value, aliasing and effects."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import functools
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

SCALE = 3.0
TABLE = {"relu": torch.relu, "tanh": torch.tanh}
BIAS = torch.arange(4.0)
CALLS = {"count": 0}


def x4():
    return torch.arange(12.0).reshape(3, 4) / 7 - 0.5


def add_one(x):
    return x + 1


def arithmetic(x):
    y = 2 * x - x / 3 + x**2
    y = -y % 5 // 1
    return abs(y), x @ x.T, 1 - x, 2**x, x > 0, ~(x > 0), (x > 0) & (x < 1)


def in_place(x):
    y = x.clone()
    y += 1
    y.mul_(2)
    y[0] = 5
    y[1:, ::2] -= 1
    return y


def mutates_argument(x):
    x.add_(1)
    x[0, 0] = 100
    return x.sum()


def mutates_through_view(x):
    v = x[1:].t()
    v.mul_(2)
    v[0] += 1
    return v.sum(), x.mean()


def returns_argument(x):
    return x, x.view(-1), {"same": x}


def dropout_returns_input(x):
    y = F.dropout(x, 0.5, False)
    y += y
    return y


def control_on_shape(x):
    if x.shape[0] > 2 and x.dim() == 2:
        return x.reshape(-1)
    return x


def loops(x):
    total = torch.zeros_like(x)
    for i, row in enumerate(x):
        total = total + row * i
    while total.dim() > 1:
        total = total.sum(0)
    return total


def comprehension(x):
    return (
        torch.stack([x * i for i in range(3)]),
        {str(i): x[i] for i in range(2)},
        [c.sum() for c in x.chunk(2, 1)],
    )


def closure(x):
    w = x * 2

    def inner(y, k=w):
        nonlocal w
        w = w + y
        return w * k

    return inner(x) + inner(x), w


def star_arguments(x):
    def f(*args, **kwargs):
        return sum(args) * kwargs["scale"]

    return f(x, x, scale=2), f(*[x, 1], **{"scale": 3})


def global_values(x):
    return TABLE["tanh"](x) * SCALE + BIAS


def global_mutation(x):
    CALLS["count"] += 1
    CALLS["shape"] = tuple(x.shape)
    return x * CALLS["count"]


def factories(x):
    a = torch.arange(4, dtype=x.dtype)
    b = torch.full((3, 4), 0.5)
    c = torch.tensor([1.0, 2.0, 3.0]).unsqueeze(1)
    d = torch.ones(3, 1) * torch.eye(3, 4)
    return (
        x + a + b + c + d,
        torch.linspace(0, 1, 5),
        torch.empty(2, 3).shape,
        x.new_zeros(2),
        torch.zeros_like(x),
    )


def generator_inside(x):
    def steps():
        y = x
        for i in range(3):
            y = y + i
            yield y

    return list(steps()), sum(steps())


def exceptions_inside(x):
    try:
        if x.shape[0] != 99:
            raise ValueError("bad")
    except ValueError as error:
        y = x * len(str(error))
    finally:
        z = x + 1
    return y + z


class OwnError(Exception):
    pass


def exception_through_callee(x):
    def deep(t):
        if t.ndim == 2:
            raise OwnError(t.shape[1])
        return t

    try:
        return deep(x)
    except OwnError as error:
        return x * error.args[0]


def no_grad_inside(x):
    with torch.no_grad():
        y = x * 2
    with torch.enable_grad():
        z = x * 3
    return y, z, torch.is_grad_enabled(), y.requires_grad, z.requires_grad


@torch.no_grad()
def no_grad_decorated(x):
    return x * 2, torch.is_grad_enabled()


@contextlib.contextmanager
def scaled(values):
    values.append("in")
    yield 4
    values.append("out")


def user_context(x):
    log = []
    with scaled(log) as k:
        y = x * k
    return y, log


def autocast_inside(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
    return y, x @ x.T


class Point(NamedTuple):
    a: torch.Tensor
    b: int = 3


@dataclasses.dataclass
class Result:
    value: torch.Tensor
    extra: dict = dataclasses.field(default_factory=dict)
    note: str = "n"


def structured_results(x):
    o = collections.OrderedDict(first=x + 1)
    o["second"] = [x, (x * 2, None)]
    d = collections.defaultdict(list)
    d["k"].append(x - 1)
    return Point(x + 1), Result(x * 2, {"shape": x.shape}), o, d, {1, 2}, slice(1, None), x.max(0)


def structured_arguments(p, r, items):
    items.append(p.a + r.value)
    r.extra["sum"] = items[0] + 1
    r.note = f"{r.note}!"
    return p.b * r.value, items


def pop_and_extend(items, x):
    first = items.pop(0)
    items.extend([x * 2, first])
    items[0] = first + 1
    del items[1]
    return len(items)


def dict_argument(d):
    d["new"] = d["a"] + 1
    d.pop("b")
    d.setdefault("c", []).append(3)
    return {**d, "z": 1}


class Accumulator:
    kind = "plain"

    def __init__(self):
        self.total = None
        self.steps = 0

    def update(self, x):
        self.total = x if self.total is None else self.total + x
        self.steps += 1
        return self

    @property
    def mean(self):
        return self.total / self.steps

    def __len__(self):
        return self.steps

    def __getitem__(self, i):
        return self.total[i]


def object_argument(acc, x):
    acc.update(x).update(x * 2)
    acc.last = x + 1
    return acc.mean, len(acc), acc[0], bool(acc)


def object_made_inside(x):
    acc = Accumulator()
    for _ in range(2):
        acc.update(x)
    return acc, acc.total


def returns_closure(x):
    y = x * 2

    def apply(z):
        return y + z

    return apply


def partial_result(x):
    return functools.partial(torch.add, x * 2)


def string_dispatch(x):
    match x.dim():
        case 1:
            return "vector"
        case 2 if x.shape[0] == 3:
            return f"matrix {x.shape[0]}x{x.size(1)} {x.dtype}"
    return None


def tensor_metadata(x):
    return (
        x.shape, x.dtype, x.device, x.ndim, x.numel(), x.stride(), x.is_contiguous(), x.T.is_contiguous(), x.requires_grad,
        x.is_floating_point(), len(x), x.element_size(), x.storage_offset(), x[1].storage_offset(), isinstance(x, torch.Tensor),
        type(x) is torch.Tensor, torch.is_tensor(x), x.layout, torch.finfo(x.dtype).max, x.size(-1), x.nelement(),
    )  # fmt: skip


def indexing(x):
    i = torch.tensor([0, 2])
    return (
        x[i],
        x[..., None],
        x[0],
        x[:, 1],
        x[1:, :-1],
        x[i, i + 1],
        x[x.shape[0] - 1, -1],
        x[None, ..., 0],
        x[[0, 1]],
    )


def where_and_masks(x):
    m = x > 0
    return torch.where(m, x, 0.0), x.masked_fill(m, -1), torch.clamp(x, min=0), x * m


def unpacking_results(x):
    values, indices = x.max(dim=1)
    q, r = torch.linalg.qr(x)
    a, *b = x.unbind(0)
    return values, indices, q, r, a, b, torch.topk(x, 2), x.split([1, 3], dim=1)


def aliases_in_containers(x):
    y = x + 1
    box = [y]
    both = {"a": box, "b": box}
    box.append(x)
    return both, both["a"] is both["b"]


def nested_tuple_arguments(pair, scale=2.0):
    (a, b), c = pair
    return a * scale + b - c


def none_and_flags(x, mask=None, flag=False):
    if mask is not None:
        x = x + mask
    return x if not flag else -x


def many_ops(x):
    y = F.softmax(x, dim=-1)
    y = F.layer_norm(y, (4,))
    y = F.gelu(y, approximate="tanh") + F.silu(x)
    return (
        F.scaled_dot_product_attention(y[None], x[None], x[None]),
        torch.cat([x, y], 1),
        F.pad(x, (1, 1)),
        F.cross_entropy(x, torch.tensor([0, 1, 3])),
    )


def einsum_and_view(x):
    return (
        torch.einsum("ij,kj->ik", x, x),
        x.view(2, 6).transpose(0, 1).contiguous(),
        x.expand(2, 3, 4),
        x.permute(1, 0),
    )


def out_argument(x):
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    return y


def operator_module(x):
    import operator

    return operator.add(x, 1), operator.getitem(x, 0), functools.reduce(operator.mul, [x, x, x])


def map_and_sorted(x):
    return (
        list(map(lambda t: t * 2, x)),
        sorted({"b": 1, "a": 2}),
        list(zip(x, range(3)))[2][0],
        [*filter(None, [0, 1])],
    )


def local_class(x):
    state = {}

    class Keeper:
        def keep(self, name, value):
            state[name] = value
            return self

    Keeper().keep("a", x).keep("b", x + 1)
    return state


CAPTURED_DICT = {}


def closure_dict_through_local_class(x):
    class Keeper:
        def keep(self, value):
            CAPTURED_DICT["v"] = value

    Keeper().keep(x + 1)
    return len(CAPTURED_DICT)


def printing(x):
    print("shape", x.shape[0], sep="=")
    return x + 1


def isinstance_checks(x):
    return (
        isinstance(x, (int, torch.Tensor)),
        isinstance(x, nn.Parameter),
        isinstance(3, int),
        hasattr(x, "shape"),
        hasattr(x, "nope"),
    )


def compiling_flag(x):
    return x + 1 if torch.compiler.is_compiling() else x + 1


def integer_arithmetic(x):
    n = torch.arange(4, dtype=torch.int64) * 10**9
    return (
        n * 7,
        torch.bmm(torch.ones(1, 2, 2, dtype=torch.int8), torch.ones(1, 2, 2, dtype=torch.int8)),
        x.to(torch.int32),
    )


def dtype_view(x):
    y = x.clone()
    v = y.view(torch.int32)
    y.zero_()
    return v, y


def iterators(x):
    rows = iter(x)
    first = next(rows)
    return first, list(rows), next(iter([x])), next(iter(()), None)


def chained_comparison(x):
    return 1 < x.shape[0] <= 3 < x.shape[1], x.shape == (3, 4), x.shape[0] in (3, 5), x is x, not x.shape


def fibonacci_chain(x):
    a, b = x, x + 1
    for _ in range(12):
        a, b = b, a * b + a
    return b


def set_and_frozen(x):
    names = {"a", "b"}
    names.add("c")
    return sorted(names), frozenset(names) == {"a", "b", "c"}, x if "a" in names else -x


def custom_autocast_dtype(x):
    return x.to(torch.float64).to(x.dtype), x.double(), x.half().float(), x.type(torch.float64), x.type_as(x)


def random_free_module_call(x):
    layer = STATIC_LAYER
    return (
        layer(x),
        layer.weight.shape,
        [p.shape for p in layer.parameters()],
        dict(layer.named_parameters()).keys() == {"weight", "bias"},
    )


STATIC_LAYER = nn.Linear(4, 2)


def functional_with_kwargs(x):
    w = torch.ones(2, 4)
    return (
        F.linear(x, weight=w, bias=None),
        torch.nn.functional.normalize(x, p=2.0, dim=1),
        x.sum(dim=(0, 1), keepdim=True),
    )


def ellipsis_and_newaxis(x):
    y = x.clone()
    y[..., 0] = x[..., -1]
    y[None][0, 1] = 7
    return y


def delete_and_rebind(x):
    y = x * 2
    z = y
    del y
    x = z + x
    return x


def walrus(x):
    if (n := x.shape[0]) > 2:
        return x * n
    return n


P4 = [(f, (x4,)) for f in (
    add_one, arithmetic, in_place, mutates_argument, mutates_through_view, returns_argument, dropout_returns_input,
    control_on_shape, loops, comprehension, closure, star_arguments, global_values, global_mutation, factories,
    generator_inside, exceptions_inside, exception_through_callee, no_grad_inside, no_grad_decorated, user_context,
    autocast_inside, structured_results, object_made_inside, string_dispatch, tensor_metadata, indexing, where_and_masks,
    unpacking_results, aliases_in_containers, none_and_flags, many_ops, einsum_and_view, out_argument, operator_module,
    map_and_sorted, local_class, closure_dict_through_local_class, printing, isinstance_checks, compiling_flag,
    integer_arithmetic, dtype_view, iterators, chained_comparison, fibonacci_chain, set_and_frozen, custom_autocast_dtype,
    random_free_module_call, functional_with_kwargs, ellipsis_and_newaxis, delete_and_rebind, walrus,
)]  # fmt: skip
PROGRAMS = [
    *P4,
    (structured_arguments, (lambda: Point(x4(), 2), lambda: Result(x4()), lambda: [x4()])),
    (pop_and_extend, (lambda: [x4(), x4() + 1, x4() * 2], x4)),
    (dict_argument, (lambda: {"a": x4(), "b": 2},)),
    (object_argument, (Accumulator, x4)),
    (nested_tuple_arguments, (lambda: ((x4(), x4() + 1), 3.5),)),
    (none_and_flags, (x4, x4, lambda: True)),
]
"""Every argument is a maker, so that each run gets fresh ones."""
