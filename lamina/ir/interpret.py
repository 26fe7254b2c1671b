"""The NumPy interpreter: what a program means, at the tensor, linalg and loop levels. The oracle of tests.

Tensors are arrays, buffers are `Buffer`s. Every operation rounds to its own type. Reading memory that was
never written gives nan (integers: 0x5A), indices out of range raise IndexError. Sizes are static.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from lamina.ir.affine import AffineExpr, AffineMap, Binary, Constant, Dim, evaluate
from lamina.ir.arrays import apply_elementwise, dtype_of, round_array
from lamina.ir.attributes import plain
from lamina.ir.core import Block, Operation, Region, Value, lookup
from lamina.ir.memory import GARBAGE, MEMORY, Buffer
from lamina.ir.ops import aten, is_elementwise, record
from lamina.ir.ops.cf import branch_operands
from lamina.ir.ops.linalg import indexing_maps, inputs_and_outputs, iterator_kinds
from lamina.ir.types import MemRefType, TensorType, Type, element_of

Array = Any
Library = Callable[[Operation, list[Any], dict[str, Any]], Sequence[Array]]
"""Runs a library operation on its arguments, operands being arrays; gives an array for each result."""


def interpret(
    function: Operation,
    arguments: Sequence[Array],
    *,
    module: Operation | None = None,
    library: Library | None = None,
) -> tuple[Array, ...]:
    """Run a `func.func`; gives its results.

    Arrays for tensor and memref arguments have the type's shape, and the dtype of `arrays.dtype_of` (bf16 as
    float32). What the function writes to a memref argument is in its array afterwards. module: where calls
    look functions up (the one that holds `function` otherwise). library: runs library operations.
    """
    return Interpreter(module or function.parent_op, library).call(function, arguments)


class Interpreter:
    def __init__(self, module: Operation | None = None, library: Library | None = None) -> None:
        self.module = module
        self.library = library
        self.values: dict[Value, Any] = {}

    def call(self, function: Operation, arguments: Sequence[Array]) -> tuple[Array, ...]:
        block = function.region.blocks[0]
        if len(arguments) != len(block.arguments):
            raise ValueError(f"{len(arguments)} arguments for {len(block.arguments)}")
        given: list[Any] = []
        for argument, array in zip(block.arguments, arguments, strict=True):
            is_buffer = isinstance(argument.type, MemRefType) and not isinstance(array, Buffer)
            given.append(_into_buffer(argument.type, array) if is_buffer else _checked(argument.type, array))
        results = self.run_region(function.region, given)
        for array, buffer in zip(arguments, given, strict=True):
            if isinstance(buffer, Buffer) and not isinstance(array, Buffer):
                array[...] = buffer.view()
        return results

    def run_region(self, region: Region, arguments: Sequence[Any] = ()) -> tuple[Any, ...]:
        """Run blocks from the entry on; gives the operands of the terminator that leaves the region."""
        block = region.blocks[0]
        while True:
            for argument, value in zip(block.arguments, arguments, strict=True):
                self.values[argument] = value
            for operation in block:
                if operation is not block.last:
                    self.run(operation)
            last = block.last
            if last is None or not _is_exit(last):
                if last is None:
                    return ()
                following = self._branch(last)
                if following is None:
                    self.run(last)
                    return ()
                block, arguments = following
                continue
            return tuple(self.values[value] for value in last.operands)

    def _branch(self, operation: Operation) -> tuple[Block, list[Any]] | None:
        if not operation.successors:
            return None
        choices = branch_operands(operation)
        is_false = operation.name == "cf.cond_br" and not bool(self.values[operation.operand(0)])
        target, values = choices[1 if is_false else 0]
        return target, [self.values[value] for value in values]

    def run(self, operation: Operation) -> None:
        """Run one operation that is not a terminator."""
        values = [self.values[value] for value in operation.operands]
        if is_elementwise(operation) or operation.name == "arith.constant":
            self.values[operation.result] = apply_elementwise(operation, values)
            return
        if operation.name in MEMORY:
            result = MEMORY[operation.name](operation, values)
            if operation.results:
                self.values[operation.result] = result
            return
        control = CONTROL.get(operation.name)
        if control is not None:
            self._give(operation, control(self, operation, values))
        elif aten.is_extern(operation):
            self._give(operation, self._library_call(operation))
        else:
            self.values[operation.result] = _structure(operation, values)

    def _give(self, operation: Operation, results: Sequence[Any]) -> None:
        for value, result in zip(operation.results, results, strict=True):
            self.values[value] = result

    def _library_call(self, operation: Operation) -> Sequence[Array]:
        if self.library is None:
            raise NotImplementedError(f"{operation.name}: give `library` to run library operations")
        arguments, keywords = aten.arguments(operation)
        results = self.library(operation, self._filled(arguments), self._filled(keywords))
        pairs = zip(operation.results, results, strict=True)
        return [_checked(value.type, result) for value, result in pairs]

    def _filled(self, entry: Any) -> Any:
        if isinstance(entry, Value):
            return self.values[entry]
        if isinstance(entry, list):
            return [self._filled(each) for each in entry]
        if isinstance(entry, Mapping):
            return {key: self._filled(each) for key, each in entry.items()}
        return entry

    # control flow

    def _kernel(self, operation: Operation, values: list[Any]) -> Sequence[Any]:
        return self.run_region(operation.region, values)

    def _call(self, operation: Operation, values: list[Any]) -> Sequence[Any]:
        if self.module is None:
            raise ValueError("a call needs a module to look the function up in")
        callee = lookup(self.module, plain(operation.attributes["callee"]))
        return Interpreter(self.module, self.library).call(callee, values)

    def _for(self, operation: Operation, values: list[Any]) -> Sequence[Any]:
        lower, upper, step, *carried = values
        for index in range(int(lower), int(upper), int(step)):
            carried = list(self.run_region(operation.region, [np.asarray(np.int64(index)), *carried]))
        return carried

    def _parallel(self, operation: Operation, values: list[Any]) -> Sequence[Any]:
        count = len(values) // 3
        bounds = zip(values[:count], values[count : 2 * count], values[2 * count :], strict=True)
        ranges = [range(int(lower), int(upper), int(step)) for lower, upper, step in bounds]
        for point in itertools.product(*ranges):
            self.run_region(operation.region, [np.asarray(np.int64(index)) for index in point])
        return ()

    def _if(self, operation: Operation, values: list[Any]) -> Sequence[Any]:
        region = operation.regions[0 if bool(values[0]) else 1]
        return self.run_region(region) if region.blocks else ()

    # linalg

    def _generic(self, operation: Operation, values: list[Any]) -> Sequence[Any]:
        """All parallel points at once, one step of the reductions after the other."""
        maps, kinds = indexing_maps(operation), iterator_kinds(operation)
        inputs = len(inputs_and_outputs(operation)[0])
        arrays = [value.view() if isinstance(value, Buffer) else value for value in values]
        arrays[inputs:] = [
            array if isinstance(value, Buffer) else np.array(array)
            for value, array in zip(values[inputs:], arrays[inputs:], strict=True)
        ]
        sizes = _domain(maps, [array.shape for array in arrays], len(kinds))
        for dims in self._points(operation, kinds, sizes):
            self._generic_step(operation, arrays, maps, inputs, dims)
        return [array for value, array in zip(operation.results, arrays[inputs:], strict=False)]

    def _points(self, operation: Operation, kinds: list[str], sizes: list[int]) -> Any:
        """For each step the index of every dimension: arrays over the parallel ones, numbers otherwise."""
        lanes = [k for k, kind in enumerate(kinds) if kind == "parallel"]
        if not _has_lanes(operation):
            lanes = []
        rest = [k for k in range(len(kinds)) if k not in lanes]
        shape = [sizes[k] for k in lanes]
        for point in itertools.product(*(range(sizes[k]) for k in rest)):
            dims: list[Any] = [None] * len(kinds)
            for place, k in enumerate(lanes):
                dims[k] = np.arange(shape[place]).reshape(
                    [-1 if p == place else 1 for p in range(len(shape))]
                )
                dims[k] = np.broadcast_to(dims[k], shape)
            for place, k in enumerate(rest):
                dims[k] = np.broadcast_to(np.int64(point[place]), shape)
            yield dims

    def _generic_step(
        self, operation: Operation, arrays: list[Array], maps: list[AffineMap], inputs: int, dims: list[Array]
    ) -> None:
        shape = dims[0].shape if dims else ()
        places = [
            tuple(np.broadcast_to(evaluate(expr, dims), shape) for expr in map_.results) for map_ in maps
        ]
        for argument, array, place in zip(operation.body.arguments, arrays, places, strict=True):
            self.values[argument] = np.asarray(array[place])
        for inner in operation.body:
            if inner.name == "linalg.index":
                self.values[inner.result] = np.asarray(dims[plain(inner.attributes["dim"])])
            elif inner is not operation.body.last:
                self.run(inner)
        results = [self.values[value] for value in operation.body.terminator.operands]
        for array, place, result in zip(arrays[inputs:], places[inputs:], results, strict=True):
            array[place] = result


CONTROL: dict[str, Callable[[Interpreter, Operation, list[Any]], Sequence[Any]]] = {
    "lamina.kernel": Interpreter._kernel,
    "func.call": Interpreter._call,
    "scf.for": Interpreter._for,
    "scf.parallel": Interpreter._parallel,
    "scf.if": Interpreter._if,
    "linalg.generic": Interpreter._generic,
}
EXITS = frozenset(
    {"func.return", "lamina.yield", "scf.yield", "scf.reduce", "linalg.yield", "program.return"}
)


def _is_exit(operation: Operation) -> bool:
    return operation.name in EXITS


def _has_lanes(operation: Operation) -> bool:
    """Whether a generic's body works on many points at once: no control flow in it."""
    return not any(inner.regions for inner in operation.body)


def _domain(maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]], rank: int) -> list[int]:
    """The size of every dimension, from the operand that a map ties it to directly."""
    sizes: list[int | None] = [None] * rank
    for map_, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(map_.results, shape, strict=True):
            if isinstance(expr, Dim) and sizes[expr.position] is None:
                sizes[expr.position] = size
    _solve_sums(maps, shapes, sizes)
    known = [size for size in sizes if size is not None]
    if len(known) != rank:
        raise ValueError(f"no operand tells the size of dimension {sizes.index(None)}")
    return known


def _solve_sums(
    maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]], sizes: list[int | None]
) -> None:
    """A dimension found only in `d0 * c + d1` has the size that lets the sum reach the operand's end."""
    for map_, shape in zip(maps, shapes, strict=True):
        for expr, size in zip(map_.results, shape, strict=True):
            terms = _terms(expr)
            unknown = [(dim, factor) for dim, factor in terms if dim >= 0 and sizes[dim] is None]
            if len(unknown) != 1 or unknown[0][1] <= 0:
                continue
            dim, factor = unknown[0]
            rest = sum(((sizes[d] or 1) - 1) * f if d >= 0 else f for d, f in terms if d != dim)
            sizes[dim] = (size - 1 - rest) // factor + 1


def _terms(expr: AffineExpr) -> list[tuple[int, int]]:
    """A sum as (dimension, factor); a constant has dimension -1."""
    match expr:
        case Dim(position):
            return [(position, 1)]
        case Constant(value):
            return [(-1, value)]
        case Binary("*", Dim(position), Constant(factor)):
            return [(position, factor)]
        case Binary("+", left, right):
            return _terms(left) + _terms(right)
    return []


def _structure(operation: Operation, values: list[Array]) -> Array:
    """Operations that place elements, and reductions: by the record's meaning."""
    type_ = operation.result.type
    if not isinstance(type_, TensorType):
        raise NotImplementedError(f"{operation.name} has no meaning in the interpreter")
    dtype = dtype_of(type_.element)
    if operation.name in ("tensor.collapse_shape", "tensor.expand_shape"):
        return values[0].reshape(type_.shape)
    if operation.name == "tensor.empty":
        return np.full(type_.shape, GARBAGE[dtype.kind], dtype)
    found = record(operation.name)
    if found is None or found.meaning is None:
        raise NotImplementedError(f"{operation.name} has no meaning in NumPy")
    attributes = {key: plain(operation.attributes[key]) for key in found.attributes}
    if operation.name in ("lamina.broadcast", "lamina.iota"):
        attributes["shape"] = type_.shape
    if operation.name == "lamina.iota":
        attributes["dtype"] = dtype
    with np.errstate(all="ignore"):
        return _checked(type_, round_array(found.meaning(*values, **attributes), type_.element))


def _checked(type_: Type, array: Any) -> Any:
    """An array of this type, or ValueError."""
    if isinstance(array, Buffer):
        return array
    result = np.asarray(array)
    shape = type_.shape if isinstance(type_, TensorType) else result.shape
    if result.shape != shape or result.dtype != dtype_of(element_of(type_)):
        raise ValueError(f"an array of {result.dtype} and shape {result.shape} is no {type_}")
    return result


def _into_buffer(type_: Type, array: Array) -> Buffer:
    assert isinstance(type_, MemRefType)
    if array.shape != type_.shape or array.dtype != dtype_of(type_.element):
        raise ValueError(f"an array of {array.dtype} and shape {array.shape} is no {type_}")
    return Buffer.allocate(type_, array)
