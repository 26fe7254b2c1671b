"""An explanation draws its graphs, kernels, refusals, traffic and breaks, and goes to JSON whole."""

from __future__ import annotations

import json

from lamina.reports.render import render
from lamina.reports.report import Explanation, GraphReport, KernelReport, Traffic


def make_explanation() -> Explanation:
    kernels = [
        KernelReport(
            "kernel_0", "row reduction", ["math.exp", "math.exp", "arith.addf"], ["m.py:3"], 12, 3 << 20
        )
    ]
    remark = {
        "pass": "fuse",
        "kind": "refused",
        "file": "m.py",
        "line": 7,
        "text": "would make a cycle",
        "data": {},
    }
    graph = GraphReport(
        "graph 0", operations=40, kernels=kernels, externs={"aten.mm.default": 4},
        traffic=Traffic(40 << 20, 24 << 20, 23 << 20), remarks=[remark, remark], seconds={"capture": 0.25},
    )  # fmt: skip
    broken = {
        "code": "data-dependent",
        "location": "m.py:9",
        "message": "a branch on data",
        "hint": "use where",
    }
    return Explanation("model", [graph, GraphReport("graph 1", eager_reason="needs gradients")], [broken])


def test_text_names_everything() -> None:
    text = str(make_explanation())
    for part in (
        "2 graphs, 1 break", "40 operations became 12 kernel launches of 1 kernel and 4 library calls", "40.0 MiB",
        "math.exp x2", "m.py:7: fuse: would make a cycle (x2)", "break [data-dependent] at m.py:9", "help: use where",
        "graph 1: runs eagerly: needs gradients", "250 ms",
    ):  # fmt: skip
        assert part in text


def test_lines_fit_the_width() -> None:
    explanation = make_explanation()
    explanation.graphs[0].seconds = {f"stage {number}": 0.01 for number in range(40)}
    lines = render(explanation, width=80).splitlines()
    assert all(len(line) <= 80 for line in lines)
    (row,) = [line for line in lines if "stage 39" in line]
    assert "10 ms" in row and "2%" in row


def test_json_is_whole() -> None:
    plain = json.loads(make_explanation().to_json())
    assert plain["graphs"][0]["kernels"][0]["launches"] == 12
    assert plain["breaks"][0]["hint"] == "use where"
