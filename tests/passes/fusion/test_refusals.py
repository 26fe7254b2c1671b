"""Why two operations were not fused: the reason, for one pair of each kind."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from lamina.ir.remarks import Remarks
from lamina.passes.fusion.fuse import fuse
from tests.passes.fusion.form import TARGET, check_module, kernels
from tests.passes.fusion.programs import Program, choice_2, floats, import_program, with_indices


def many_streams(*tensors):
    total = tensors[0].cos()
    for tensor in tensors[1:]:
        total = total + tensor
    return total


def transposed_and_not(a):
    b = a.cos().sum(dim=0).exp()
    c = b[:, None] * b[None, :]
    d = torch.mm(c, c)
    return d.sin() + d.sin().t()


CASES = {
    "library call": (
        lambda a: torch.mm(a.cos(), a),
        floats((10, 10)),
        "math.cos with aten.mm.default: aten.mm.default is a library call, its operands and results lie in memory",
    ),
    "cycle": (
        choice_2,
        floats((10, 10)),
        "math.cos, lamina.reduce with arith.addf: would make a cycle through aten.mm.default",
    ),
    "slice": (
        lambda a: (a.cos(), a.cos()[2:5].exp()),
        floats((10, 10)),
        "math.cos with math.exp: math.exp reads a slice of math.cos",
    ),
    "gather": (
        lambda a, b: a.cos()[b],
        with_indices((10, 10), 4, 10),
        "reads math.cos at computed positions",
    ),
    "pad": (
        lambda a: torch.nn.functional.pad(torch.softmax(a, 1), (1, 1)).exp(),
        floats((10, 10)),
        "lamina.pad reads arith.divf shifted: only a value in memory can be",
    ),
    "other dimensions": (
        lambda a: (a.sum(dim=0), a.sum(dim=1)),
        floats((1000, 1000)),
        "lamina.reduce with lamina.reduce: they reduce over different dimensions",
    ),
    "reduction of a reduction": (
        lambda a: a.exp().sum(dim=2).amax(dim=1),
        floats((10, 20, 30)),
        "with lamina.reduce: a reduction of a reduction over other dimensions",
    ),
    "broadcast beyond": (
        lambda a, b: a.exp().sum(dim=1)[:, None, None] * b,
        floats((10, 20), (10, 30, 40)),
        "math.exp, lamina.reduce with arith.mulf: their iteration spaces do not correspond: sizes [20] against [30, 40]",
    ),
    "two index maps": (
        transposed_and_not,
        floats((10, 10)),
        "math.sin with arith.addf: an intermediate value is read at two different index maps",
    ),
    "concatenation": (
        lambda a, b: torch.cat([a, b]).sum(dim=0),
        floats((10, 10), (10, 10)),
        "tensor.concat with lamina.reduce: tensor.concat only takes values in memory",
    ),
    "part that is written": (
        lambda a, b: (a.exp(), a.exp() + b),
        floats((10,), (20, 10)),
        "math.exp with arith.addf: math.exp is a part of the iteration space and must be written",
    ),
    "too many buffers": (
        many_streams,
        floats(*[(64,)] * 40),
        "buffers, more than 32",
    ),
    "nothing to compute": (
        lambda a: (a.cos(), a.sin()),
        floats((0, 4)),
        "math.cos with math.sin: there is nothing to compute: a size is 0",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_reason(name: str):
    function, inputs, expected = CASES[name]
    traced = function if name != "too many buffers" else trace_variadic(function, 40)
    module, _ = import_program(Program(name, traced, inputs, 0))
    remarks = Remarks()
    fuse(module, TARGET, remarks)
    check_module(module)
    texts = [remark.text for remark in remarks.query("fuse", "refused")]
    assert any(expected in text for text in texts), "\n".join(texts)
    assert all(remark.data["reason"] for remark in remarks.query("fuse", "refused"))


def trace_variadic(function, count: int) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    proxies = [torch.fx.Proxy(graph.placeholder(f"x{k}")) for k in range(count)]
    graph.output(function(*proxies).node)
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def test_expensive_producer_is_not_computed_again_for_each_use():
    """A wide broadcast of something expensive stays two kernels; of something cheap it becomes one."""
    slow = dataclasses.replace(TARGET, peak_flops=1e9)
    for target, expected in ((slow, 2), (TARGET, 1)):
        program = Program("broadcast", lambda a, b: (a * 2 + 1) * b, floats((64,), (512, 64)), 0)
        module, _ = import_program(program)
        remarks = Remarks()
        fuse(module, target, remarks)
        assert len(kernels(module)) == expected
        assert bool(remarks.query("fuse", "refused", "longer than two kernels")) == (expected == 2)


def test_a_reduction_to_one_element_leaves_parallel_work_alone():
    """Fusing a big elementwise result into a full sum would leave all but one core idle."""
    many_cores = dataclasses.replace(
        TARGET, cores=64, copy_bandwidth=64e10, cache_bandwidth=64e11, peak_flops=64e11
    )
    module, _ = import_program(Program("sum", lambda a: (a.tan(), a.tan().sum()), floats((2048, 512)), 0))
    remarks = Remarks()
    fuse(module, many_cores, remarks)
    assert len(kernels(module)) == 2
