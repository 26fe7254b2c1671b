"""Imported graphs, run by the NumPy interpreter, against eager: op x dtype x shape x layout, odd values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import fx

from lamina.autograd.import_graph import import_graph
from lamina.autograd.lower import LOWERINGS
from lamina.autograd.lower.emitter import reassociate
from lamina.autograd.trace import trace_inference
from lamina.ir.core import Operation
from lamina.ir.interpret import interpret
from lamina.ir.ops.aten import is_extern
from lamina.ir.text import parse, print_module
from lamina.ir.verify import verify

Tensor = torch.Tensor
Program = Callable[..., Any]

SPECIAL = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 1e-30, 88.0, -104.0]
FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
INTEGERS = [torch.int64, torch.int32, torch.int8]
ALL = [*FLOATS, *INTEGERS, torch.bool]


def import_program(program: Program, inputs: list[Tensor]) -> Operation:
    graph = fx.Graph()
    nodes = tuple(graph.placeholder(f"x{index}") for index in range(len(inputs)))
    graph.output(graph.call_function(program, nodes))
    module = import_graph(trace_inference(fx.GraphModule(torch.nn.Module(), graph), inputs))
    verify(module, "tensor")
    return module


def library_calls(module: Operation) -> list[str]:
    return [operation.name for operation in module.walk() if is_extern(operation)]


def to_numpy(x: Tensor) -> Any:
    return (x.float() if x.dtype is torch.bfloat16 else x).contiguous().numpy()


def run(module: Operation, inputs: list[Tensor]) -> list[Tensor]:
    assert module.body.first is not None
    with np.errstate(all="ignore"):
        results = interpret(module.body.first, [to_numpy(x) for x in inputs])
    return [torch.from_numpy(np.array(result)) for result in results]


def check(program: Program, *inputs: Tensor, library: bool = False) -> None:
    """The imported program computes eager's values and dtypes; by default without library calls."""
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(program(*inputs))
    module = import_program(program, list(inputs))
    if library:
        assert library_calls(module)
        return
    assert library_calls(module) == []
    for got, want in zip(run(module, list(inputs)), expected, strict=True):
        got = got.to(want.dtype) if want.dtype is torch.bfloat16 else got
        tolerance = {torch.bfloat16: 8e-3, torch.float16: 1e-3, torch.float32: 2e-6}.get(want.dtype, 1e-7)
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance * 0.1, equal_nan=True)


def values(shape: tuple[int, ...], dtype: torch.dtype, seed: int = 0, special: bool = True) -> Tensor:
    """Numbers of both signs, odd ones among them where the dtype has those."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator, dtype=torch.float64) * 3
    if dtype.is_floating_point and special and x.numel() > len(SPECIAL):
        flat = x.reshape(-1)
        places = torch.randperm(x.numel(), generator=generator)[: len(SPECIAL)]
        flat[places] = torch.tensor(SPECIAL, dtype=torch.float64)
        x = flat.reshape(shape)
    return (x > 0) if dtype is torch.bool else x.to(dtype)


def layouts(dtype: torch.dtype, seed: int = 0, special: bool = True) -> Iterator[Tensor]:
    """Rank 0, empty, a prime length, a transposed and a strided matrix."""
    for shape in [(), (0,), (37,)]:
        yield values(shape, dtype, seed, special)
    yield values((7, 5), dtype, seed, special).t()
    yield values((6, 9), dtype, seed, special)[::2, 1:8]


UNARY = [
    *(torch.abs, torch.neg, torch.sign, torch.floor, torch.ceil, torch.trunc, torch.round, torch.frac),
    *(torch.sqrt, torch.rsqrt, torch.exp, torch.expm1, torch.log, torch.log2, torch.log10, torch.log1p),
    *(
        torch.sin,
        torch.cos,
        torch.tan,
        torch.asin,
        torch.acos,
        torch.atan,
        torch.sinh,
        torch.cosh,
        torch.tanh,
    ),
    *(torch.asinh, torch.acosh, torch.atanh, torch.erf, torch.erfc, torch.reciprocal, torch.sigmoid),
    *(torch.isnan, torch.isinf, torch.isfinite, torch.logical_not, torch.bitwise_not, torch.relu, torch.exp2),
    *(
        F.silu,
        F.mish,
        F.softplus,
        F.elu,
        F.hardswish,
        F.hardsigmoid,
        F.hardtanh,
        F.relu6,
        F.leaky_relu,
    ),
    *(F.logsigmoid, F.softshrink, F.hardshrink, F.selu, F.softsign, torch.square, torch.nan_to_num),
    *(torch.deg2rad, torch.rad2deg),
]


def accepts(function: Program, *inputs: Tensor) -> bool:
    try:
        function(*inputs)
    except (RuntimeError, TypeError, IndexError):
        return False
    return True


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("function", UNARY, ids=lambda f: f.__name__)
def test_unary(function: Program, dtype: torch.dtype) -> None:
    if not accepts(function, values((3,), dtype)):
        pytest.skip("not an op of eager's")
    if dtype is torch.bool and function in (torch.abs, torch.round):
        pytest.skip("stays a library call")
    for x in layouts(dtype):
        check(function, x)


BINARY = [
    *(torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum, torch.fmax, torch.fmin),
    *(torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge, torch.atan2, torch.copysign),
    *(torch.logical_and, torch.logical_or, torch.logical_xor),
    *(torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor),
    *(torch.logaddexp, torch.xlogy, torch.heaviside),
]


@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int64, torch.int8, torch.bool], ids=str
)
@pytest.mark.parametrize("function", BINARY, ids=lambda f: f.__name__)
def test_binary_promotes_as_eager(function: Program, dtype: torch.dtype, other: torch.dtype) -> None:
    if not accepts(function, values((3,), dtype), values((3,), other)):
        pytest.skip("not an op of eager's")
    if function is torch.heaviside and dtype is torch.bool:
        pytest.skip("stays a library call")
    for x in layouts(dtype, 1):
        check(function, x, values(tuple(x.shape), other, 2))
    check(function, values((4, 1, 3), dtype, 3), values((5, 1), other, 4))
    check(function, values((6,), dtype, 5), values((), other, 6))


NUMBERS = [
    lambda x: x + 0.3,
    lambda x: 2 - x,
    lambda x: x * 0.1,
    lambda x: x / 3,
    lambda x: 1.5 / x,
    lambda x: torch.add(x, x, alpha=2),
    lambda x: torch.rsub(x, 3, alpha=2),
    lambda x: x > 0.3,
    lambda x: x != 1,
    lambda x: x**2,
    lambda x: x**3,
    lambda x: x**0,
    lambda x: torch.where(x > 1, x, 0.5),
    lambda x: torch.where(x > 1, 0, x),
    lambda x: x.masked_fill(x > 1, -1),
    lambda x: x.clamp(-1, 2),
    lambda x: x.clamp(min=0.5),
    lambda x: x.clamp(max=x.flatten()[:1].sum()),
    lambda x: torch.maximum(x, torch.ones((), dtype=x.dtype)),
    lambda x: x.to(torch.int32) * 2,
    lambda x: x.to(torch.float16).to(torch.float64),
    lambda x: x.to(torch.bool).to(torch.bfloat16),
    lambda x: x.float() * x,
]


@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("program", NUMBERS)
def test_with_numbers(program: Program, dtype: torch.dtype) -> None:
    if not accepts(program, values((3,), dtype)):
        pytest.skip("not an op of eager's")
    for x in layouts(dtype, special=False):
        if accepts(program, x) and not (dtype is torch.bool and x.dim() == 0):
            module = import_program(program, [x])
            check(program, x, library=bool(library_calls(module)))
            assert not library_calls(module) or dtype is torch.bool


FLOAT_ONLY = [
    lambda x: x**0.5,
    lambda x: x**-1,
    lambda x: x.abs() ** 1.7,
    lambda x: 2.0**x,
    lambda x: torch.addcmul(x, x, x, value=0.3),
    lambda x: torch.addcdiv(x, x, x * x + 1, value=0.3),
    lambda x: torch.lerp(x, x * 2, 0.3),
    lambda x: F.threshold(x, 0.3, 0.7),
    lambda x: F.celu(x, 0.7),
    lambda x: x.sum(),
    lambda x: x.mean(),
    lambda x: x.to(torch.int64),
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("program", FLOAT_ONLY)
def test_of_floats(program: Program, dtype: torch.dtype) -> None:
    for x in layouts(dtype, special=False):
        check(program, x)


DIVISIONS = [
    lambda x, y: torch.div(x, y, rounding_mode="floor"),
    lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    torch.remainder,
    torch.fmod,
    torch.floor_divide,
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("program", DIVISIONS)
def test_float_division_has_pythons_signs(program: Program, dtype: torch.dtype) -> None:
    x = torch.tensor([7.0, -7.0, 7.5, -7.5, 0.0, -0.0, 1e9, 0.3, 5.0], dtype=dtype)
    y = torch.tensor([2.0, 2.0, -2.0, -2.0, 3.0, 0.0, 0.1, 0.1, math.inf], dtype=dtype)
    check(program, x, y)
    check(lambda a: program(a, 0.7), x)


@pytest.mark.parametrize("program", DIVISIONS)
def test_integer_division_by_numbers(program: Program) -> None:
    x = torch.arange(-12, 13)
    for divisor in (3, -3, 5):
        check(lambda a, d=divisor: program(a, d), x)
    # Eager raises on a zero among the divisors: torch's own kernel must see them.
    check(program, x, torch.full_like(x, 3), library=True)


def test_shifts_beyond_the_width() -> None:
    x, y = torch.tensor([1, -1, 5, -5, 7]), torch.tensor([1, 63, 64, -1, 2])
    check(torch.bitwise_left_shift, x, y)
    check(torch.bitwise_right_shift, x, y)


REDUCTIONS = [
    *(torch.sum, torch.mean, torch.prod, torch.amax, torch.amin, torch.argmax, torch.argmin),
    *(torch.any, torch.all, torch.var, torch.std, torch.logsumexp, torch.nansum),
    lambda x, *a, **k: torch.max(x, *a, **k),
    lambda x, *a, **k: torch.min(x, *a, **k),
    lambda x, *a, **k: torch.linalg.vector_norm(x, 2, *a, **k),
    lambda x, *a, **k: torch.linalg.vector_norm(x, math.inf, *a, **k),
]


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dtype", ALL, ids=str)
@pytest.mark.parametrize("function", REDUCTIONS)
def test_reductions(function: Program, dtype: torch.dtype, keepdim: bool) -> None:
    if not accepts(lambda x: function(x, 0), values((3,), dtype)):
        pytest.skip("not an op of eager's")
    if function is torch.logsumexp and dtype.itemsize == 2:
        pytest.skip("eager rounds its steps, ours is rounded once")
    inputs = [values((4, 5, 3), dtype, 7), values((3, 5, 4), dtype, 8).permute(2, 1, 0), values((1,), dtype)]
    for x in inputs:
        for dim in range(-1, x.dim()):
            program = lambda x, d=dim: function(x, d, keepdim=keepdim)  # noqa: E731
            module = import_program(program, [x])
            is_position = dtype is torch.bool and library_calls(module) != []
            check(program, x, library=is_position)


def test_moments() -> None:
    x = values((4, 5), torch.float32, special=False)
    check(lambda x: torch.var_mean(x, 0), x)
    check(lambda x: torch.std_mean(x, (0, 1), correction=0, keepdim=True), x)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: F.layer_norm(x, (6,)),
        lambda x: F.group_norm(x, 3),
        lambda x: F.rms_norm(x, (6,)),
        lambda x: F.batch_norm(x, x[0], x[1]),
    ],
    ids=["layer_norm", "group_norm", "rms_norm", "batch_norm"],
)
def test_norms_of_f32_stay_in_f32(program: Program) -> None:
    module = import_program(program, [torch.ones(4, 6)])
    assert library_calls(module) == []
    assert "f64" not in print_module(module)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_batch_norm_scales_by_weights_alone(dtype: torch.dtype) -> None:
    x, parameters = values((2, 3, 4), dtype, 1, special=False), values((4, 3), dtype, 2, special=False)

    def program(x: Tensor, p: Tensor) -> Tensor:
        return F.batch_norm(x, p[0], p[1].abs(), p[2], p[3])

    module = import_program(program, [x, parameters])
    (got,) = run(module, [x, parameters])
    # Over half types eager rounds the scale in between; ours is the float result, rounded once.
    want = program(x.double(), parameters.double()).to(dtype)
    torch.testing.assert_close(got.to(dtype), want, rtol=8e-3 if dtype.itemsize == 2 else 1e-5, atol=1e-3)


def test_reductions_of_everything_and_of_nothing() -> None:
    x = values((3, 4), torch.float32, special=False)
    for program in (torch.sum, torch.prod, torch.amax, torch.argmax, torch.any, torch.std, torch.norm):
        check(program, x)
    empty = torch.ones(0, 3)
    for program in (torch.sum, torch.prod, torch.any, torch.all, torch.mean):
        check(program, empty)
    check(lambda x: x.sum((0, 1), dtype=torch.float64), x)
    check(lambda x: x.cumsum(0), x, library=True)


VIEWS = [
    lambda x: x.reshape(-1),
    lambda x: x.reshape(6, 2, 2),
    lambda x: x.view(2, 1, 12),
    lambda x: x.unsqueeze(0).unsqueeze(-1).squeeze(),
    lambda x: x.permute(2, 0, 1),
    lambda x: x.transpose(-1, 0).reshape(8, 3),
    lambda x: x[None, :, 1:, ::2],
    lambda x: x[1],
    lambda x: x[..., -1],
    lambda x: x.expand(3, 2, 3, 4),
    lambda x: x[:1].expand(5, 3, 4),
    lambda x: torch.cat([x, x[:, :1], x * 2], 1),
    lambda x: torch.cat([torch.empty(0, dtype=x.dtype), x.reshape(-1)]),
    lambda x: torch.stack([x, x], -1),
    lambda x: F.pad(x, (1, 2, 0, 1)),
    lambda x: F.pad(x, (-1, 2), value=1),
    lambda x: x.flip(0, -1),
    lambda x: x.roll((1, -2), (0, 2)),
    lambda x: x.repeat(2, 1, 1, 3),
    lambda x: x.tril(1),
    lambda x: x.triu(-1),
    lambda x: x.diagonal(1, 0, 2),
    lambda x: x.unbind(1),
    lambda x: x.split(2, 2),
    lambda x: x.chunk(3, 1),
    lambda x: x.flatten(1).t(),
    lambda x: x.movedim(0, 2).contiguous(),
    lambda x: x.repeat_interleave(2, 1),
    lambda x: x.index_select(1, torch.tensor([2, 0, 2])),
    lambda x: torch.zeros_like(x) + torch.ones(4, dtype=x.dtype),
    lambda x: torch.arange(3, 21, 4) + x.sum().to(torch.int64),
    lambda x: torch.eye(3, 4, dtype=x.dtype) + x,
    lambda x: torch.full((2, 2), 3, dtype=x.dtype) * x[0, 0, 0],
    lambda x: F.pixel_shuffle(x.reshape(1, 4, 3, 2), 2),
    lambda x: F.interpolate(x[None], scale_factor=2),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("program", VIEWS)
def test_views_and_copies(program: Program, dtype: torch.dtype) -> None:
    if not accepts(program, values((2, 3, 4), dtype)):
        pytest.skip("not an op of eager's")

    def copied(x: Tensor) -> list[Tensor]:
        return [part.clone() for part in torch.utils._pytree.tree_leaves(program(x))]

    check(copied, values((2, 3, 4), dtype))
    if accepts(program, values((4, 3, 2), dtype).permute(2, 1, 0)):
        check(copied, values((4, 3, 2), dtype).permute(2, 1, 0))


def write_slices(x: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] = 7
    y[0] += 1
    y[..., -1].neg_()
    return y


NORMS = [
    lambda x: F.softmax(x, -1),
    lambda x: F.softmax(x, 0),
    lambda x: F.log_softmax(x, 1),
    lambda x: F.softmax(x, 1, dtype=torch.float32),
    lambda x: F.layer_norm(x, (4,), x[0, 0], x[0, 1]),
    lambda x: F.layer_norm(x, (3, 4)),
    lambda x: F.group_norm(x.reshape(1, 4, 6), 2, x[0, 0], x[0, 1]),
    lambda x: F.rms_norm(x, (4,), x[0, 0]),
    lambda x: F.rms_norm(x, (4,), eps=1e-3),
    lambda x: F.normalize(x, dim=-1),
    lambda x: F.glu(x, 0),
    lambda x: F.prelu(x, x[0, :, 0]),
    lambda x: F.adaptive_avg_pool2d(x, 1),
    write_slices,
]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("program", NORMS)
def test_norms_and_composites(program: Program, dtype: torch.dtype) -> None:
    check(program, values((2, 3, 4), dtype, 9, special=False))


LOSSES = [
    F.mse_loss,
    F.l1_loss,
    F.smooth_l1_loss,
    F.huber_loss,
    F.binary_cross_entropy_with_logits,
    lambda x, y: F.mse_loss(x, y, reduction="none"),
    lambda x, y: F.smooth_l1_loss(x, y, reduction="sum", beta=0.3),
]


@pytest.mark.parametrize("approximate", ["none", "tanh"])
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gelu(dtype: torch.dtype, approximate: str) -> None:
    """Against float64: eager's own digits are few where 1 + erf cancels, and it makes nan of infinity."""
    x = torch.linspace(-6, 9, 41).to(dtype)
    (got,) = run(import_program(lambda x: F.gelu(x, approximate=approximate), [x]), [x])
    want = F.gelu(x.double(), approximate=approximate)
    tolerance = {torch.bfloat16: 8e-3, torch.float16: 1e-3}.get(dtype, 2e-6)
    torch.testing.assert_close(got.double(), want, rtol=tolerance, atol=1e-6)


@pytest.mark.parametrize("program", LOSSES)
def test_losses(program: Program) -> None:
    check(
        program,
        values((5, 3), torch.float32, 1, special=False),
        values((5, 3), torch.float32, 2, special=False),
    )


def test_cross_entropy_asserts_its_targets() -> None:
    x, target = values((6, 5), torch.float32, 1, special=False), torch.tensor([0, 4, -100, 2, 1, 3])
    module = import_program(F.cross_entropy, [x, target])
    assert library_calls(module) == ["aten._assert_async.msg"]

    def assertion(operation: Operation, args: list[Any], kwargs: dict[str, Any]) -> tuple[()]:
        assert args[0].all()
        return ()

    assert module.body.first is not None
    (loss,) = interpret(module.body.first, [x.numpy(), target.numpy()], library=assertion)
    assert float(loss) == pytest.approx(F.cross_entropy(x, target).item(), rel=1e-6)


def test_index_is_a_load_with_an_assertion_unless_known_in_bounds() -> None:
    x, index = values((6, 5), torch.float32), torch.tensor([0, -1, 3])
    assert library_calls(import_program(lambda x, i: x[:, i], [x, index])) == ["aten._assert_async.msg"]
    check(lambda x: x[:, torch.arange(2, 5)], x)
    check(lambda x: x[torch.tensor([[0, 5], [2, 2]])], x)


def test_library_calls_keep_arguments_strides_and_effects() -> None:
    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.mm(x.t(), x), torch.rand(2, dtype=torch.float64)

    module = import_program(program, [torch.ones(3, 4)])
    calls = [operation for operation in module.walk() if is_extern(operation)]
    text = print_module(module)
    assert print_module(parse(text)) == text
    assert [call.name for call in calls] == ["aten.mm.default", "aten.rand.default"]
    assert "result_strides = [[4, 1]]" in text and 'effects = "random"' in text
    assert "lamina.result_strides = [[4, 1], [1]]" in text and "dtype = f64" in text


def test_unsigned_and_complex_stay_library_calls() -> None:
    module = import_program(lambda x: (x + 1).to(torch.float32) * 2, [torch.ones(3, dtype=torch.uint8)])
    assert library_calls(module) == ["aten.add.Tensor", "aten._to_copy.default"]
    spectrum = import_program(lambda x: torch.fft.rfft(x).abs() + 1, [torch.ones(6)])
    assert library_calls(spectrum) == ["aten._fft_r2c.default", "aten.abs.default"]


def test_every_lowering_names_an_op_of_torch() -> None:
    for name in LOWERINGS:
        _, packet, overload = name.split(".")
        assert overload in getattr(torch.ops.aten, packet).overloads(), name


@pytest.mark.parametrize(
    ("source", "target", "groups"),
    [
        ((6, 4), (24,), [([0, 1], [0])]),
        ((24,), (2, 3, 4), [([0], [0, 1, 2])]),
        ((2, 6, 5), (3, 4, 5), [([0, 1], [0, 1]), ([2], [2])]),
        ((1, 5), (5, 1), [([0, 1], [0]), ([], [1])]),
        ((), (1, 1), []),
    ],
)
def test_reassociate(source: tuple[int, ...], target: tuple[int, ...], groups: list[Any]) -> None:
    found = reassociate(source, target)
    for left, right in found:
        assert math.prod(source[k] for k in left) == math.prod(target[k] for k in right)
    assert [k for left, _ in found for k in left] in (list(range(len(source))), [])
    if all(left for left, _ in groups):
        assert found == groups
