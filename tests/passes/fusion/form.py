"""Checks that hold for every fused module: the form of kernels, one kernel an operation, no cycle."""

from __future__ import annotations

from lamina.ir.attributes import plain
from lamina.ir.core import Operation, lookup
from lamina.ir.machine import Target
from lamina.ir.ops import is_elementwise
from lamina.ir.ops.aten import is_extern
from lamina.ir.verify import verify
from lamina.passes.fusion.graph import VIEWS, shape_of

TARGET = Target(
    name="test", isa="avx2", vector_bits=256, features=("fma",), cores=2, l1_bytes=1 << 15, l2_bytes=1 << 19,
    l3_bytes=1 << 24, copy_bandwidth=2e10, cache_bandwidth=1e11, peak_flops=1.5e11, launch_seconds=3e-6,
)  # fmt: skip
OUTSIDE = {"lamina.kernel", "func.call", "func.return", "arith.constant", "tensor.concat", *VIEWS}


def check_module(module: Operation, source: str = "main") -> None:
    """The module verifies, @main holds only what stays outside kernels, each kernel has the agreed form."""
    verify(module, "fused")
    for operation in lookup(module, source).body:
        assert operation.name in OUTSIDE or is_extern(operation), f"{operation.name} is in no kernel"
        if operation.name == "lamina.kernel":
            check_kernel(operation)


def check_kernel(kernel: Operation) -> None:
    domain = tuple(plain(kernel.attributes["domain"]))
    reduced = plain(kernel.attributes["reduced"])
    parallel = tuple(size for k, size in enumerate(domain) if k not in reduced)
    assert 1 not in domain
    strides = plain(kernel.attributes["arg_strides"])
    assert [len(entry) for entry in strides] == [len(shape_of(value)) for value in kernel.operands]
    results = plain(kernel.attributes["result_strides"])
    assert [len(entry) for entry in results] == [len(shape_of(value)) for value in kernel.results]
    is_bundle = plain(kernel.attributes["nests"]) > 1
    for operation in kernel.body:
        if operation.name == "lamina.yield":
            continue
        shape = shape_of(operation.result)
        if operation.name == "lamina.reduce":
            assert is_bundle or shape_of(operation.operand()) == domain
            assert is_bundle or (plain(operation.attributes["dims"]), shape) == (reduced, parallel)
        elif operation.name in ("lamina.pad", "lamina.reverse", "lamina.index"):
            assert operation.operand() in kernel.body.arguments
        else:
            allowed = ("lamina.broadcast", "lamina.iota", "arith.constant")
            assert is_elementwise(operation) or operation.name in allowed, operation.name
            assert is_bundle or is_part(shape, domain)
    for value in kernel.results:
        assert is_bundle or shape_of(value) in (domain, parallel)


def is_part(shape: tuple[int, ...], domain: tuple[int, ...]) -> bool:
    """Whether the sizes are a subsequence of the domain's."""
    rest = iter(domain)
    return all(size in rest for size in shape)


def kernels(module: Operation, source: str = "main") -> list[Operation]:
    return [operation for operation in lookup(module, source).body if operation.name == "lamina.kernel"]
