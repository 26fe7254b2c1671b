"""Which results share memory is known of every operator: what is not marked is memory of its own."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from lamina.autograd.decompose import KEPT
from lamina.autograd.fake import below_autograd, storage_key
from lamina.autograd.import_graph import MAY_ALIAS
from lamina.eager.known_results import is_composite
from tests.parity.judge import Entry, choose_samples, list_entries, operators


class Watch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Runs a program's operators and notes the unmarked ones with a result in another tensor's memory."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func not in KEPT and not func._schema.is_mutable and is_composite(func):
            with self:
                result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        given = keys_of((args, kwargs))
        result = func(*args, **kwargs)
        made = keys_of(result)
        is_marked = func._schema.is_mutable or str(func) in MAY_ALIAS or func.is_view
        if not is_marked and (set(given) & set(made) or len(set(made)) < len(made)):
            self.found.add(str(func))
        return result


def keys_of(values: Any) -> list[int]:
    """The memory of the tensors that have some."""
    leaves = [each for each in pytree.tree_leaves(values) if isinstance(each, torch.Tensor)]
    return [storage_key(each) for each in leaves if each.layout is torch.strided and each.numel()]


ENTRIES = random.Random(0).sample([each for each in list_entries() if each.dtype == "float32"], 120)


@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_unmarked_results_are_fresh(entry: Entry) -> None:
    op, watch = operators()[entry.operator], Watch()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for args, kwargs in choose_samples(op, torch.float32, 1):
            try:
                with below_autograd(), watch:
                    op.op(*args, **kwargs)
            except Exception:
                continue
    assert not watch.found


def test_sharing_is_noticed() -> None:
    watch = Watch()
    with watch:
        torch.ops.aten.unsafe_split.Tensor(torch.ones(4), 2)
        torch.ops.aten._unsafe_view.default(torch.ones(4), [2, 2])
    assert not watch.found
    assert {"aten.unsafe_split.Tensor", "aten._unsafe_view.default"} <= MAY_ALIAS
