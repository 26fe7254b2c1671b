"""What the chosen loops look like: counts of operations, not their text."""

from __future__ import annotations

import dataclasses
from collections import Counter

from lamina.ir.core import Operation, Value
from lamina.ir.machine import Target
from lamina.ir.types import TensorType, f32, i64
from tests.passes.loops.check import loops_of, target_of
from tests.passes.loops.kernels import KernelBuilder, kernel, matrix, pointwise, reduction, softmax

LARGE_CACHE = 1 << 30


def count(function: Operation, isa: str = "avx512", **changes: object) -> Counter[str]:
    target: Target = dataclasses.replace(target_of(isa), l2_bytes=LARGE_CACHE, **changes)  # type: ignore[arg-type]
    return Counter(operation.name for operation in loops_of(function, target).walk())


def test_no_masks_when_sizes_divide() -> None:
    for function in (softmax(64, 1024), pointwise((64, 1024)), reduction(64, 1024, "add", f32, 0)):
        counts = count(function)
        assert counts["vector.create_mask"] == 0
        assert counts["vector.load"] > 0
        assert counts["memref.load"] == 0


def test_tails_are_masked_not_scalar() -> None:
    counts = count(softmax(64, 1000))
    assert counts["vector.create_mask"] == 3
    assert counts["memref.load"] == 0


def test_scalar_code_without_vectors() -> None:
    counts = count(softmax(64, 1000), "scalar")
    assert not [name for name in counts if name.startswith("vector.")]


def test_one_parallel_loop() -> None:
    assert count(softmax(64, 1024))["scf.parallel"] == 1
    assert count(pointwise((1 << 20,)))["scf.parallel"] == 1


def test_small_work_stays_in_one_thread() -> None:
    assert count(pointwise((8,)), launch_seconds=1e-5)["scf.parallel"] == 0
    assert count(pointwise((8,)), cores=1)["scf.parallel"] == 0


def test_softmax_computes_each_exponential_once() -> None:
    """The second walk keeps them for the third: 4 copies side by side at most, none after the sum."""
    counts = count(softmax(64, 1024))
    assert counts["memref.alloca"] == 1
    assert counts["math.exp"] <= 4


def test_lanes_walk_what_is_contiguous() -> None:
    for function in (
        softmax(64, 512, 0),
        softmax(512, 64, 1, [[1, 512]]),
        reduction(512, 64, "max", f32, 0),
        pointwise((64, 64), f32, [[1, 64], [1, 64]], [[1, 64]]),
    ):
        counts = count(function)
        assert counts["vector.gather"] == 0


def test_transposed_reads_are_turned() -> None:
    counts = count(pointwise((64, 64), f32, [[1, 64], [64, 1]]))
    assert counts["vector.gather"] == counts["vector.scatter"] == 0
    assert counts["vector.shuffle"] == 64


def test_embedding_rows_are_read_as_vectors() -> None:
    def build(b: KernelBuilder, table: Value, rows: Value) -> Value:
        return b.apply("arith.negf", b.structure("lamina.index", [table, rows], (32, 256), dims=[0]))

    counts = count(kernel([matrix(1000, 256), TensorType.get((32,), i64)], build))
    assert counts["vector.gather"] == 0
    assert counts["vector.load"] > 0


def test_pad_and_concat_have_no_selects() -> None:
    """Each range reads its own source."""

    def build(b: KernelBuilder, x: Value) -> Value:
        padded = b.structure("lamina.pad", [x, b.splat(0.0, ())], (66, 64), low=[1, 0], high=[1, 0])
        return b.structure("tensor.concat", [padded, padded], (66, 128), dim=1)

    counts = count(kernel([matrix(64, 64)], build))
    assert counts["arith.select"] == counts["vector.gather"] == 0


def test_large_results_go_around_the_caches() -> None:
    function = loops_of(pointwise((1 << 20,)), dataclasses.replace(target_of("avx512"), l2_bytes=1 << 10))
    stores = [operation for operation in function.walk() if operation.name == "vector.store"]
    assert any("nontemporal" in store.attributes for store in stores)
    assert any("nontemporal" not in store.attributes for store in stores)
    assert count(pointwise((1 << 20,)))["scf.if"] == 0
