"""The strides that kernels state are those their buffers have, when @main runs on strided NumPy arrays."""

from __future__ import annotations

import random

import numpy as np
import pytest

from lamina.ir.attributes import plain
from lamina.ir.core import Operation, Value, lookup
from lamina.ir.interpret import Interpreter, interpret
from lamina.ir.remarks import Remarks
from lamina.passes.fusion.fuse import fuse
from lamina.passes.fusion.graph import shape_of
from tests.passes.fusion.form import TARGET
from tests.passes.fusion.random_programs import Maker
from tests.passes.fusion.test_random import negate

Array = np.ndarray
VIEWS = {
    "lamina.permute": lambda x, op: np.transpose(x, plain(op.attributes["perm"])),
    "lamina.broadcast": lambda x, op: broadcast(x, plain(op.attributes["dims"]), shape_of(op.result)),
    "tensor.collapse_shape": lambda x, op: x.reshape(shape_of(op.result)),
    "tensor.expand_shape": lambda x, op: x.reshape(shape_of(op.result)),
}


def broadcast(array: Array, dims: list[int], shape: tuple[int, ...]) -> Array:
    wide = [1] * len(shape)
    for position, dim in enumerate(dims):
        wide[dim] = array.shape[position]
    return np.broadcast_to(array.reshape(wide), shape)


def permuted_in_memory(array: Array, chosen: random.Random) -> Array:
    """The same numbers, with dimensions in another memory order."""
    order = list(range(array.ndim))
    chosen.shuffle(order)
    inverse = [order.index(k) for k in range(array.ndim)]
    return np.array(array.transpose(order), order="C").transpose(inverse)


def steps(array: Array) -> list[int]:
    return [step // array.itemsize for step in array.strides]


def laid_out(array: Array, strides: list[int]) -> Array:
    """The same numbers at these strides."""
    reach = sum((size - 1) * step for size, step in zip(array.shape, strides, strict=True)) + 1
    buffer = np.zeros(max(reach, 1), array.dtype)
    view = np.lib.stride_tricks.as_strided(buffer, array.shape, [step * array.itemsize for step in strides])
    view[...] = array
    return view


def assert_strides(stated: list[int], array: Array) -> None:
    pairs = zip(array.shape, stated, steps(array), strict=True)
    assert all(size == 1 or one == other for size, one, other in pairs), (array.shape, stated, steps(array))


def run_on_memory(function: Operation, inputs: list[Array]) -> list[Array]:
    """Views stay views as far as NumPy can; each kernel's arguments are held against `arg_strides`."""
    values: dict[Value, Array] = dict(zip(function.body.arguments, inputs, strict=True))
    for operation in function.body:
        operands = [values[value] for value in operation.operands]
        if operation.name == "func.return":
            return operands
        if operation.name in VIEWS:
            values[operation.result] = VIEWS[operation.name](operands[0], operation)
        elif operation.name == "tensor.extract_slice":
            columns = [
                plain(operation.attributes[f"static_{name}"]) for name in ("offsets", "sizes", "strides")
            ]
            parts = zip(*columns, strict=True)
            cut = tuple(slice(start, start + (n - 1) * step + 1, step) for start, n, step in parts)
            values[operation.result] = operands[0][cut]
        elif operation.name == "lamina.kernel":
            for stated, array in zip(plain(operation.attributes["arg_strides"]), operands, strict=True):
                assert_strides(stated, array)
            results = Interpreter(library=negate).run_region(operation.region, operands)
            stated = plain(operation.attributes["result_strides"])
            for value, array, strides in zip(operation.results, results, stated, strict=True):
                values[value] = laid_out(np.asarray(array), strides)
        else:
            interpreter = Interpreter(library=negate)
            interpreter.values.update(values)
            interpreter.run(operation)
            for value in operation.results:
                values[value] = np.array(interpreter.values[value], order="C")
    raise AssertionError("no return")


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_stated_strides_are_true(seed: int):
    chosen = random.Random(seed)
    maker = Maker(seed)
    module = maker.module()
    function = lookup(module, "main")
    inputs = [permuted_in_memory(array, chosen) for array in maker.inputs()]
    returned = function.body.terminator.operands
    wanted = [steps(permuted_in_memory(np.zeros(shape_of(value), np.float32), chosen)) for value in returned]
    function.attributes["lamina.arg_strides"] = attribute_of([steps(array) for array in inputs])
    function.attributes["lamina.result_strides"] = attribute_of(wanted)
    expected = interpret(function, inputs, library=negate)
    fuse(module, TARGET, Remarks())
    for one, other in zip(expected, run_on_memory(function, inputs), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)


def attribute_of(entries: list[list[int]]):
    return Operation("test", attributes={"strides": entries}).attributes["strides"]


def test_a_result_is_written_in_the_order_eager_has():
    """A transposed result: the kernel writes it so that the returned value has the stated strides."""
    maker = Maker(0, inputs=1, steps=0)
    (x,) = maker.block.arguments
    maker.values = [maker.builder.value("math.sin", (x,), x.type)]
    module = maker.module()
    function = lookup(module, "main")
    shape = shape_of(x)
    strides = list(np.cumprod((1, *shape[:-1])).tolist())
    function.attributes["lamina.result_strides"] = attribute_of([strides])
    fuse(module, TARGET, Remarks())
    (result,) = run_on_memory(function, maker.inputs())
    assert_strides(strides, result)
