"""Products whose number of rows varies: one program with packed weights from 16 rows up, one without below."""

from __future__ import annotations

import pytest
import torch

import lamina
from lamina.driver.dispatch import state_of
from lamina.runtime.library_calls import available_libraries


@pytest.mark.skipif("mkldnn" not in available_libraries(), reason="oneDNN is what packs")
def test_weights_are_packed_once_for_all_numbers_of_rows() -> None:
    layer = torch.nn.Linear(64, 128).requires_grad_(False)
    fast = lamina.compile(lambda x: torch.relu(layer(x)) * 2, fullgraph=True)
    lamina.reset()
    packed = []
    for rows in (40, 48, 17, 300, 3, 15, 16, 2):
        x = torch.randn(rows, 64)
        torch.testing.assert_close(fast(x), torch.relu(layer(x)) * 2)
        packed.append(lamina.counters()["packed_bytes"])
    assert lamina.counters()["graphs"] == 2
    assert len(set(packed[1:])) == 1 and packed[1] // layer.weight.nbytes == 2
    (program, *_) = (entry.compiled.report for entry in state_of(fast).root.entries if entry.captured.varying)
    assert program.externs == {"mkldnn._linear_pointwise.default": 1}


def test_changed_weights_are_packed_anew() -> None:
    layer = torch.nn.Linear(64, 128).requires_grad_(False)
    fast = lamina.compile(layer, fullgraph=True)
    for rows in (40, 48, 17, 64):
        x = torch.randn(rows, 64)
        torch.testing.assert_close(fast(x), layer(x))
        layer.weight.mul_(1.5)
