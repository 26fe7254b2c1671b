"""Fake results have eager's strides and dtypes, fake calls eager's errors, for every operation with a rule."""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from lamina.autograd.fake import below_autograd, to_fakes
from lamina.eager.errors import is_tried
from lamina.eager.logs import quiet_fakes
from lamina.eager.mode import EagerFakeMode
from lamina.eager.results import rule_of
from tests.eager.calls import make_call, overloads

CALLS = 6
MADE_OF_OTHERS = {"isfinite", "mvlgamma"}
"""Composites that are rules' business part by part."""
STRICTER = {
    "hardtanh", "where", "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "log_softmax",
}  # fmt: skip
"""Fakes refuse a condition of another dtype than bool, bool shifts, bounds in the wrong order, the logarithm of no
integers: such calls run eagerly.
"""
SIZES = {"binary_cross_entropy", "_native_batch_norm_legit"}
"""Whose kernel asks more, or less, of its arguments than its shape rule does."""

aten = torch.ops.aten
TESTED = [
    func
    for func in sorted(overloads(), key=str)
    if not func._schema.is_mutable
    and (rule_of(func) is not None or is_tried(func))
    and torch.Tag.nondeterministic_seeded not in func.tags
    and "backward" not in func.name()
    and str(func._schema.arguments[0].type) in ("Tensor", "number")
    and all(str(each.type) == "Tensor" for each in func._schema.returns)
]


def run_both(func: Any, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Of eager's call and of the one on fakes: the metadata of the results, or the error."""
    leaves, spec = pytree.tree_flatten((args, kwargs))
    mode = EagerFakeMode()
    fake_args, fake_kwargs = pytree.tree_unflatten(to_fakes(mode, leaves), spec)

    def run_fake() -> Any:
        with mode:
            return mode.dispatch(func, (), tuple(fake_args), fake_kwargs)

    with quiet_fakes(), below_autograd(), torch.no_grad():
        return describe(lambda: func(*args, **kwargs)), describe(run_fake)


def describe(run: Any) -> Any:
    try:
        result = run()
    except Exception as error:
        return error
    return [(tuple(each.shape), each.stride(), each.dtype) for each in pytree.tree_leaves(result)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("func", TESTED, ids=str)
def test_fakes_are_like_eager(func: Any) -> None:
    rng = random.Random(str(func))
    name = func.overloadpacket.__name__
    for _ in range(CALLS):
        call = make_call(func, rng)
        if call is None:
            return
        eager, fake = run_both(func, *call)
        if isinstance(eager, Exception):
            is_free = name in SIZES or not is_tried(func)
            assert isinstance(fake, Exception) or is_free, f"{call}: raises nothing, not {eager}"
        elif isinstance(fake, Exception):
            assert isinstance(fake, NotImplementedError) or name in STRICTER | SIZES, f"{call}: raises {fake}"
        elif name not in MADE_OF_OTHERS:
            assert fake == eager, call


def test_many_operations_are_tested() -> None:
    assert len(TESTED) > 200


@pytest.mark.parametrize(
    ("func", "args", "kwargs"),
    [
        (aten.rsub.Scalar, (torch.ones(2), False), {}),
        (aten.sub.Scalar, (torch.ones(2), True), {}),
        (aten.add.Tensor, (torch.ones(2), torch.ones(2)), {"alpha": True}),
        (aten.sub.Tensor, (torch.ones(2, dtype=torch.bool), torch.ones(2)), {}),
        (aten.linear.default, (torch.ones(0, 3, dtype=torch.float64), torch.ones(5, 3)), {}),
        (aten.gelu.default, (torch.ones(2, dtype=torch.int64),), {}),
        (aten.full.default, ([2], 300), {"dtype": torch.uint8}),
        (aten.full_like.default, (torch.ones(2), 1e39), {}),
        (aten.fill_.Scalar, (torch.ones(2), -1e39), {}),
        (aten.new_full.default, (torch.ones(2, dtype=torch.float16), [2], 65520.0), {}),
        (aten.where.ScalarOther, (torch.ones(2) > 0, torch.ones(2), 1e39), {}),
        (aten.index_fill.int_Scalar, (torch.ones(2).char(), 0, torch.tensor([0]), -129), {}),
        (aten.constant_pad_nd.default, (torch.ones(2), [1, 1], 1e39), {}),
    ],
    ids=str,
)
def test_errors_are_eagers(func: Any, args: Any, kwargs: Any) -> None:
    eager, fake = run_both(func, list(args), kwargs)
    assert isinstance(eager, Exception)
    assert type(fake) is type(eager) and str(fake) == str(eager)


@pytest.mark.parametrize(
    ("size", "stride", "new"),
    [
        ((1,), (5,), (1, 1)),
        ((3, 1, 1), (1, 3, 1), (1, 3, 1)),
        ((2, 0, 3), (7, 9, 1), (0, 6)),
        ((2, 0, 3), (7, 9, 1), (2, 0, 3)),
        ((2, 3, 4), (24, 8, 2), (6, 4)),
        ((), (), (1, 1)),
    ],
)
def test_views_have_eagers_strides(size: Any, stride: Any, new: Any) -> None:
    eager, fake = run_both(aten.view.default, [torch.ones(60).as_strided(size, stride), list(new)], {})
    assert fake == eager


EMPTY = torch.ones(0).as_strided((1, 0, 2, 2), (8, 9, 6, 1))
SINGLE = torch.ones(144).as_strided((1, 4, 6, 6), (6, 36, 6, 1))
GAPS = torch.ones(30).as_strided((2, 1, 3), (1, 10, 2))
CHANNELS_LAST = torch.ones(2, 4, 2, 2).to(memory_format=torch.channels_last)
OUTWARDS = (
    torch.ones(60).as_strided((1, 2, 1, 2), (3, 1, 6, 2)),
    torch.ones(60).as_strided((1, 3, 1, 1), (10, 2, 6, 6)),
    torch.ones(60).as_strided((1, 1, 1, 2), (11, 1, 9, 2)),
    torch.ones(60).as_strided((2, 3, 2, 2), (25, 1, 8, 4)),
)
"""Strides that are, or look like, those of channels last with gaps."""


@pytest.mark.parametrize(
    ("func", "args"),
    [
        (aten.roll.default, (EMPTY, [1])),
        (aten.roll.default, (EMPTY, [1], [2])),
        *(
            (func, (tensor, factor))
            for func in (aten.pixel_shuffle.default, aten.pixel_unshuffle.default)
            for tensor in (EMPTY, SINGLE, CHANNELS_LAST, CHANNELS_LAST.contiguous())
            for factor in (1, 2)
            if (func, tensor is EMPTY, factor) != (aten.pixel_unshuffle.default, True, 2)
        ),
        *((aten.max_unpool2d.default, (each, torch.zeros_like(each).long(), [4, 5])) for each in OUTWARDS),
        *((aten.upsample_nearest2d.default, (each, [4, 5])) for each in OUTWARDS),
        *((aten.upsample_bilinear2d.default, (each, [4, 5], False)) for each in OUTWARDS),
        (aten.upsample_nearest1d.default, (torch.ones(12).as_strided((2, 3, 2), (2, 4, 1)), [4])),
        (aten.upsample_nearest3d.default, (torch.ones(2, 3, 2, 2, 2).transpose(1, 4), [4, 4, 4])),
        (aten.sort.default, (torch.ones(3, 2, 1, 2).permute(3, 1, 0, 2),)),
        (aten.tril.default, (torch.ones(3, 2).t(),)),
        (aten.copysign.Tensor, (torch.ones(3, 2).t(), torch.ones(()))),
        (aten.floor_divide.default, (torch.ones(3, 2).t(), torch.ones(()))),
        (aten.huber_loss.default, (GAPS, GAPS, 0)),
        (aten.huber_loss.default, (GAPS, torch.ones(2, 3, 1), 0)),
        (aten.float_power.Tensor_Scalar, (GAPS, 2)),
        (aten._conj_physical.default, (torch.ones(9).as_strided((1, 1), (5, 8)),)),
        (aten.index_fill.int_Scalar, (torch.zeros(2, 5)[:1, 0], 0, torch.tensor([0]), 1.0)),
        (aten.index_fill.int_Scalar, (torch.zeros(3, 4, 2).permute(2, 0, 1), 0, torch.tensor([0]), 1.0)),
        (aten.index_fill.int_Scalar, (torch.zeros(1, 4)[:, ::2], 0, torch.tensor([0]), 1.0)),
    ],
    ids=str,
)
def test_strides_are_eagers(func: Any, args: Any) -> None:
    eager, fake = run_both(func, list(args), {})
    assert fake == eager


def test_a_wrong_size_is_refused() -> None:
    eager, fake = run_both(aten.pixel_unshuffle.default, [EMPTY, 2], {})
    assert eager[0][0] == (1, 0, 2, 2)
    assert isinstance(fake, NotImplementedError)


def test_a_corrected_view_is_a_view() -> None:
    mode = EagerFakeMode()
    with mode:
        base = torch.empty_strided((1,), (5,))
        view = base.view(1, 1)
    assert view.stride() == (5, 5)
    assert view.untyped_storage()._cdata == base.untyped_storage()._cdata


def test_a_mode_reads_no_source_files():
    EagerFakeMode()  # the first one of a process imports torch's settings, which read their own files
    linecache.clearcache()
    EagerFakeMode()
    assert not linecache.cache


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "rfft2", "fft2", "ihfftn", "irfftn"])
def test_transforms_lie_in_memory_as_eagers(name: str) -> None:
    transform = getattr(torch.fft, name)
    dims = (0, 1) if name[-1] in "2n" else 0
    for x in (torch.rand(3, 4, 5), torch.rand(5, 4, 3).permute(2, 1, 0), torch.rand(3, 1, 1).expand(3, 4, 5)):
        mode = EagerFakeMode()
        (fake,) = to_fakes(mode, [x])
        with mode:
            found = transform(fake, dim=dims)
        assert found.stride() == transform(x, dim=dims).stride()
