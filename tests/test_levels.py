"""The text of every level of every network parses back to an equal module, and a real MLIR accepts it."""

from __future__ import annotations

import pytest
import torch

from bench.workloads import NETWORKS, Workload
from lamina.capture import trace
from lamina.driver.levels import texts_by_level
from lamina.driver.site import kinds_of
from lamina.ir.compare import equal
from lamina.ir.text import parse_module, print_module
from lamina.ir.verify import verify
from lamina.options import Options
from tests.ir.upstream import HAS_MLIR, LEGAL_TABLES, UPSTREAM_LEVELS, judge


@pytest.mark.slow
@pytest.mark.parametrize("workload", NETWORKS, ids=lambda workload: workload.name)
def test_every_level_is_text(workload: Workload) -> None:
    function, args, kwargs = workload.build()
    with torch.no_grad():
        captured = trace(function, args, kwargs)
        inputs = captured.fetch_inputs(args, kwargs)
        kinds = kinds_of(captured, inputs)
        texts = texts_by_level(captured.graph_module, inputs, Options(), kinds)
    assert {"tensor", "fused", "program"} <= set(texts)
    for level, modules in texts.items():
        if level == "llvm_ir":
            continue
        for text in modules:
            module = parse_module(text)
            again = print_module(module, locations=True)
            assert equal(parse_module(again), module)
            assert again == text
            if level in LEGAL_TABLES:
                verify(module, LEGAL_TABLES[level])
    if HAS_MLIR:
        kernels = [text for level in UPSTREAM_LEVELS for text in texts.get(level, ())]
        shown = [print_module(parse_module(text)) for text in kernels]
        is_accepted, told = judge("".join(shown)) if shown else (True, "")
        assert is_accepted, told[:3000]
