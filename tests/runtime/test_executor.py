"""The executor obeys the program: kernels, views, library calls, arena, results, mutations.

Kernels here are Python functions over the table of addresses, so no code generation is involved.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from lamina.ir.attributes import UNIT, DenseElementsAttr, integers
from lamina.ir.core import Block, Builder, Operation, Region, Value, lookup, make_module
from lamina.ir.ops.program import object_type
from lamina.ir.types import FunctionType, TensorType, Type, f32, i64
from lamina.passes.program import insert_frees, plan_memory, reinplace, to_program, write_into, write_over
from lamina.runtime.executor import Executor


def tensor(*shape: int) -> TensorType:
    return TensorType.get(shape, f32)


def kernel_over(*shapes: tuple[int, ...], compute: Callable[..., Any]) -> Callable[[int, int], None]:
    """A kernel of contiguous f32 buffers, the last of them the output: `out[:] = compute(*inputs)`."""

    def run(table: int, threads: int) -> None:
        addresses = (ctypes.c_int64 * len(shapes)).from_address(table)
        arrays = []
        for address, shape in zip(addresses, shapes, strict=True):
            buffer = (ctypes.c_float * int(np.prod(shape))).from_address(address)
            arrays.append(np.frombuffer(buffer, np.float32).reshape(shape))
        arrays[-1][:] = compute(*arrays[:-1])

    return run


class Program:
    """Builds @main by hand and runs it."""

    def __init__(self, *inputs: Type) -> None:
        self.module = make_module()
        self.block = Block(inputs)
        self.build = Builder(self.block)
        self.kernels: dict[str, Callable[[int, int], None]] = {}

    def kernel(self, name: str, operand: Value, compute: Callable[..., Any]) -> Value:
        type_ = operand.type
        assert isinstance(type_, TensorType)
        signature = FunctionType.get((type_,), (type_,))
        region = Region([Block([type_])])
        attributes = {"sym_name": name, "function_type": signature, "reduced": integers()}
        self.module.body.append(Operation("func.func", attributes=attributes, regions=[region]))
        shape = type_.sizes
        self.kernels[name] = kernel_over(shape, shape, compute=compute)
        return self.build.value("func.call", [operand], type_, {"callee": name})

    def finish(self, *results: Value, **attributes: Any) -> Executor:
        self.build.op("func.return", results)
        inputs = tuple(argument.type for argument in self.block.arguments)
        signature = FunctionType.get(inputs, tuple(value.type for value in results))
        named = {f"lamina.{key}": value for key, value in attributes.items()}
        main = {"sym_name": "main", "function_type": signature, **named}
        self.module.body.append(Operation("func.func", attributes=main, regions=[Region([self.block])]))
        program = to_program.run(self.module)
        reinplace.run(self.module, program)
        write_over.run(self.module, program)
        write_into.run(program)
        insert_frees.run(program)
        plan_memory.run(program)
        return Executor(lookup(self.module, "program"), self.kernels)


def test_kernel_view_and_library_call() -> None:
    program = Program(tensor(4, 8), tensor(4, 5))
    x, w = program.block.arguments
    doubled = program.kernel("double", x, lambda a: a * 2)
    turned = program.build.value("lamina.permute", [doubled], tensor(8, 4), {"perm": [1, 0]})
    product = program.build.value("aten.mm.default", [turned, w], tensor(8, 5), {"args": [UNIT, UNIT]})
    run = program.finish(product)
    for _ in range(3):
        a, b = torch.randn(4, 8), torch.randn(4, 5)
        (result,) = run([a, b])
        torch.testing.assert_close(result, (a * 2).t() @ b)
    assert run.arena_bytes == 4 * 8 * 4


def test_results_are_the_callers_memory() -> None:
    program = Program(tensor(3, 3))
    (x,) = program.block.arguments
    doubled = program.kernel("double", x, lambda a: a * 2)
    turned = program.build.value("lamina.permute", [doubled], tensor(3, 3), {"perm": [1, 0]})
    run = program.finish(doubled, turned, x)
    a = torch.randn(3, 3)
    first = run([a])
    kept = [value.clone() for value in first]
    run([torch.randn(3, 3)])
    for value, copy in zip(first, kept, strict=True):
        assert torch.equal(value, copy)
    assert len({value.untyped_storage().data_ptr() for value in [*first, a]}) == 4


def test_mutation_is_copied_back() -> None:
    program = Program(tensor(2, 3))
    (x,) = program.block.arguments
    doubled = program.kernel("double", x, lambda a: a * 2)
    run = program.finish(doubled, mutations=[[0, 0]], kept=[])
    a = torch.ones(2, 3)
    assert run([a]) == []
    assert torch.equal(a, torch.full((2, 3), 2.0))


def test_wrong_strides_of_a_library_result_are_mended() -> None:
    """The program was planned for row-major; the library gives a transposed result here."""
    program = Program(tensor(2, 3))
    (x,) = program.block.arguments
    attributes = {"args": [UNIT, 0, 1], "result_strides": [[2, 1]]}
    turned = program.build.value("aten.transpose.int", [x], tensor(3, 2), attributes)
    run = program.finish(program.kernel("double", turned, lambda a: a * 2))
    a = torch.randn(2, 3)
    assert torch.equal(run([a])[0], a.t() * 2)


def test_opaque_values_pass_from_call_to_call() -> None:
    program = Program(tensor(2, 3))
    (x,) = program.block.arguments
    dense = program.build.value("aten.to_mkldnn.default", [x], tensor(2, 3), {"args": [UNIT], "opaque": True})
    back = program.build.value("aten.to_dense.default", [dense], tensor(2, 3), {"args": [UNIT]})
    run = program.finish(back)
    assert dense.type is not object_type
    a = torch.randn(2, 3)
    assert torch.equal(run([a])[0], a)


@pytest.mark.parametrize("offset", [0, 2])
def test_view_of_an_argument_with_an_offset(offset: int) -> None:
    program = Program(tensor(6))
    (x,) = program.block.arguments
    slices = {"static_offsets": [offset], "static_sizes": [3], "static_strides": [1]}
    part = program.build.value("tensor.extract_slice", [x], tensor(3), slices)
    run = program.finish(program.kernel("double", part, lambda a: a * 2))
    a = torch.randn(8)[2:]
    assert torch.equal(run([a])[0], a[offset : offset + 3] * 2)


def test_a_cache_is_updated_in_place() -> None:
    """`index_copy` into an argument that only it reads writes there at once; otherwise it may not."""
    for is_read_after in (False, True):
        program = Program(tensor(5, 3), TensorType.get((1,), i64), tensor(1, 3))
        cache, place, row = program.block.arguments
        args = {"args": [UNIT, 0, UNIT, UNIT]}
        new = program.build.value("aten.index_copy.default", [cache, place, row], tensor(5, 3), args)
        results = [new, program.kernel("double", cache if is_read_after else new, lambda a: a * 2)]
        run = program.finish(*results, mutations=[[0, 0]], kept=[1])
        assert ("copy_(" in run.source) == is_read_after
        a, where, values = torch.randn(5, 3), torch.tensor([2]), torch.randn(1, 3)
        old = a.clone()
        (doubled,) = run([a, where, values])
        assert torch.equal(a, old.index_copy(0, where, values))
        assert torch.equal(doubled, (old if is_read_after else a) * 2)


def test_a_result_is_not_the_updated_argument() -> None:
    program = Program(tensor(5, 3), TensorType.get((1,), i64), tensor(1, 3))
    cache, place, row = program.block.arguments
    args = {"args": [UNIT, 0, UNIT, UNIT]}
    new = program.build.value("aten.index_copy.default", [cache, place, row], tensor(5, 3), args)
    run = program.finish(new, mutations=[[0, 0]])
    a = torch.randn(5, 3)
    (result,) = run([a, torch.tensor([1]), torch.randn(1, 3)])
    assert torch.equal(a, result)
    assert a.data_ptr() != result.data_ptr()


def test_a_pointwise_kernel_writes_over_its_argument() -> None:
    program = Program(tensor(4))
    (x,) = program.block.arguments
    run = program.finish(program.kernel("double", x, lambda a: a * 2), mutations=[[0, 0]], kept=[])
    a = torch.ones(4)
    run([a])
    assert torch.equal(a, torch.full((4,), 2.0))
    assert run.arena_bytes == 0
    assert "copy_(" not in run.source


@pytest.mark.parametrize("shape", [(), (1,), (2, 3), (0, 3)])
def test_constants(shape: tuple[int, ...]) -> None:
    program = Program(tensor(3))
    constant = DenseElementsAttr.splat(2.5, tensor(*shape))
    value = program.build.value("arith.constant", (), tensor(*shape), {"value": constant})
    run = program.finish(value)
    first = run([torch.zeros(3)])[0]
    assert torch.equal(first, torch.full(shape, 2.5))
    first.zero_()
    assert torch.equal(run([torch.zeros(3)])[0], torch.full(shape, 2.5))


def test_a_kernel_writes_over_an_intermediate() -> None:
    """The second kernel lies over the first one's buffer, and over the product where that has no other user."""
    for is_needed_later in (False, True):
        program = Program(tensor(4, 4))
        (x,) = program.block.arguments
        product = program.build.value("aten.mm.default", [x, x], tensor(4, 4), {"args": [UNIT, UNIT]})
        once = program.kernel("double", product, lambda a: a * 2)
        twice = program.kernel("again", once, lambda a: a * 2)
        other = product if is_needed_later else x
        run = program.finish(
            program.build.value("aten.mm.default", [twice, other], tensor(4, 4), {"args": [UNIT, UNIT]})
        )
        assert run.arena_bytes == (128 if is_needed_later else 64)
        a = torch.randn(4, 4)
        kept = a.clone()
        torch.testing.assert_close(run([a])[0], (a @ a * 4) @ (a @ a if is_needed_later else a))
        assert torch.equal(a, kept)
