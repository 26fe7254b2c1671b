"""Results of operations on fakes that were seen before are what torch's fake mode gives."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

from lamina.driver.earlier_results import earlier_results
from lamina.eager import known_results
from lamina.eager.mode import EagerFakeMode
from lamina.options import Options


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_results, "_KNOWN", {})


def describe(value: Any, inputs: list[FakeTensor]) -> Any:
    """Metadata, and which inputs' memory a tensor has."""
    if not isinstance(value, FakeTensor):
        return value
    storage = value.untyped_storage()
    shared = [
        position for position, each in enumerate(inputs) if each.untyped_storage()._cdata == storage._cdata
    ]
    return (
        value.shape,
        value.stride(),
        value.storage_offset(),
        value.dtype,
        value.device,
        value.is_conj(),
        value.is_neg(),
        value._is_view(),
        storage.nbytes(),
        str(torch._C._dispatch_key_set(value)),
        shared,
    )


def run(mode: FakeTensorMode, function: Any, args: Any, kwargs: Any) -> Any:
    """What a call gives on fakes of its arguments, in plain data."""
    made = tree_map(
        lambda each: mode.from_tensor(each) if isinstance(each, torch.Tensor) else each, (args, kwargs)
    )
    inputs = [each for each in tree_leaves(made) if isinstance(each, FakeTensor)]
    try:
        with mode, torch.no_grad():
            result = function(*made[0], **made[1])
    except Exception as error:
        return type(error).__name__
    return [describe(each, inputs) for each in tree_leaves(result)]


DENSE = [each for each in op_db if torch.float32 in each.dtypes and "sparse" not in each.name]
OPERATORS = random.Random(7).sample(DENSE, 40)


@pytest.mark.parametrize("operator", OPERATORS, ids=lambda each: f"{each.name}-{each.variant_test_name}")
def test_a_result_seen_before_is_the_same(operator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for sample, _ in zip(operator.sample_inputs("cpu", torch.float32), range(4), strict=False):
            args = (sample.input, *sample.args)
            with monkeypatch.context() as patched:
                patched.setattr("lamina.eager.mode.key_of", lambda *_: None)
                plain = run(EagerFakeMode(), operator.op, args, sample.kwargs)
            first = run(EagerFakeMode(), operator.op, args, sample.kwargs)
            known_results.read(known_results.write(known_results._KNOWN))
            second = run(EagerFakeMode(), operator.op, args, sample.kwargs)
            assert first == plain
            assert second == plain


def test_values_that_are_equal_but_of_other_kinds_are_told_apart() -> None:
    ints = torch.ones(3, dtype=torch.int64)
    for number, dtype in ((1, torch.int64), (1.0, torch.float32), (True, torch.int64), (1, torch.int64)):
        assert run(EagerFakeMode(), torch.add, (ints, number), {})[0][3] == dtype
    torch.set_default_dtype(torch.float64)
    try:
        assert run(EagerFakeMode(), torch.add, (ints, 1.0), {})[0][3] == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_views_share_memory_and_version() -> None:
    mode = EagerFakeMode()
    base = mode.from_tensor(torch.zeros(4, 6))
    with mode, torch.no_grad():
        for _ in range(2):
            view = base[1:].t()
            before = base._version
            view.add_(1)
            assert base._version == before + 1
            assert view.untyped_storage()._cdata == base.untyped_storage()._cdata
            assert view.shape == (6, 3) and view.stride() == (1, 6) and view.storage_offset() == 6


def test_what_depends_on_data_or_writes_is_not_kept() -> None:
    aten = torch.ops.aten
    kept = (aten.add.Tensor, aten.view.default, aten.native_batch_norm.default, aten.index.Tensor)
    other = (
        *(aten.add_.Tensor, aten.nonzero.default, aten._unsafe_view.default, aten.lift_fresh.default),
        *(aten.masked_select.default, aten._local_scalar_dense.default, aten.reshape.default),
    )
    assert all(map(known_results.name_of, kept))
    assert not any(map(known_results.name_of, other))
    mask = torch.tensor([True, False, True])
    with pytest.raises(Exception, match="nonzero"):
        mode = EagerFakeMode()
        with mode:
            mode.from_tensor(torch.ones(3))[mode.from_tensor(mask)]
    assert not any("index" in key[0] for key in known_results._KNOWN)


def test_a_later_process_is_given_them(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    options = Options(cache_dir=str(tmp_path))
    call = (torch.nn.functional.batch_norm, (torch.ones(2, 3), torch.zeros(3), torch.ones(3)), {})
    with earlier_results("model", options):
        expected = run(EagerFakeMode(), *call)
    known_results._KNOWN.clear()
    asked: list[Any] = []
    dispatch = FakeTensorMode.dispatch
    monkeypatch.setattr(
        FakeTensorMode,
        "dispatch",
        lambda self, func, *rest: asked.append(func) or dispatch(self, func, *rest),
    )
    with earlier_results("model", options):
        assert run(EagerFakeMode(), *call) == expected
    assert torch.ops.aten.native_batch_norm.default not in asked


def test_a_file_that_is_not_readable_is_left(tmp_path: Any) -> None:
    options = Options(cache_dir=str(tmp_path))
    with earlier_results("model", options):
        run(EagerFakeMode(), torch.exp, (torch.ones(2),), {})
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.warns(UserWarning, match="rebuilt"), earlier_results("model", options):
        assert run(EagerFakeMode(), torch.exp, (torch.ones(2),), {})[0][0] == (2,)
