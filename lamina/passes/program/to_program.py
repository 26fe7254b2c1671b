"""Turn the tensor-level @main of kernels and library calls into a program of buffers.

    %0 = func.call @kernel_0(%x) : tensor<4x8xf32>      %0 = program.alloc {space = "arena"}
    %1 = lamina.permute %0 {perm = [1, 0]}         =>   program.launch @kernel_0(%x, %0)
    %2 = aten.mm.default(%1, %w)                        %1 = program.view %0
    func.return %2                                      %2 = program.call "aten.mm.default"(%1, %w)
                                                        program.return %2

A buffer that reaches a returned result is allocated in the "output" space, all others in the arena.
`lamina.mutations` of @main lists [argument, result] pairs: the result is copied into the argument at the
end; `lamina.kept` lists the results
that are returned (all where it is absent). Each returned result is memory of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from lamina.errors import CompilerBug
from lamina.ir.attributes import ArrayAttr, attribute, plain
from lamina.ir.core import Block, Builder, Operation, OpResult, Region, Value, lookup, symbol_name
from lamina.ir.ops.aten import is_extern
from lamina.ir.ops.func import function_type
from lamina.ir.ops.program import object_type
from lamina.ir.sizes import SymbolicSize
from lamina.ir.types import FunctionType, MemRefType, TensorType, Type, element_count
from lamina.passes.program.placements import Placement, find_placements, piece_types
from lamina.passes.program.sharing import work_of
from lamina.passes.program.views import has_equal_strides, is_view, view_of

NAME = "to_program"


def run(module: Operation, source: str = "main", name: str = "program") -> Operation:
    """Add `program.func @name` made from `func.func @source` to the module, and return it."""
    function = lookup(module, source)
    lowering = _Lowering(module, function)
    program = lowering.lower(name)
    module.body.insert(program, function)
    return program


def strides_attribute(function: Operation, key: str, position: int) -> tuple[int, ...] | None:
    """Strides that a function states for an argument or result; None is row-major."""
    found = function.attributes.get(key)
    if not isinstance(found, ArrayAttr):
        return None
    strides = plain(found.elements[position])
    return None if strides is None or not isinstance(strides, list) else tuple(strides)


def buffer_type(type_: Type, strides: tuple[int, ...] | None = None) -> MemRefType:
    if not isinstance(type_, TensorType):
        raise TypeError(f"no buffer for {type_}")
    return MemRefType.get(type_.shape, type_.element, strides)


@dataclass(slots=True)
class _Lowering:
    module: Operation
    function: Operation
    values: dict[Value, Value] = field(default_factory=dict)
    escaping: set[Value] = field(default_factory=set)
    placements: dict[Value, Placement] = field(default_factory=dict)
    kernels: dict[str, Operation] = field(default_factory=dict)

    def lower(self, name: str) -> Operation:
        body = self.function.body
        inputs = tuple(self._argument_type(position) for position in range(len(body.arguments)))
        block = Block(inputs)
        for old, new in zip(body.arguments, block.arguments, strict=True):
            self.values[old] = new
        returned = body.terminator.operands
        self.escaping = {_root(returned[position]) for position in self._kept(len(returned))}
        self.kernels = {symbol_name(each) or "": each for each in self.module.body}
        self.placements = find_placements(self.function, self._kernel_buffer)
        builder = Builder(block)
        for operation in body:
            builder.location = operation.location
            self._operation(operation, builder)
        results = tuple(value.type for value in block.terminator.operands)
        attributes: dict[str, Any] = {"sym_name": name, "function_type": FunctionType.get(inputs, results)}
        if "lamina.arg_kinds" in self.function.attributes:
            attributes["arg_kinds"] = self.function.attributes["lamina.arg_kinds"]
        return Operation("program.func", attributes=attributes, regions=[Region([block])])

    def _argument_type(self, position: int) -> Type:
        type_ = function_type(self.function).inputs[position]
        opaque = self.function.attributes.get("lamina.opaque_args")
        if opaque is not None and position in plain(opaque):
            return object_type
        return buffer_type(type_, strides_attribute(self.function, "lamina.arg_strides", position))

    def _operation(self, operation: Operation, builder: Builder) -> None:
        if operation.name == "func.call":
            self._kernel(operation, builder)
        elif operation.name == "func.return":
            self._return(operation, builder)
        elif operation.name == "arith.constant":
            type_ = buffer_type(operation.result.type)
            attributes = {"value": operation.attributes["value"]}
            self.values[operation.result] = builder.value("program.constant", (), type_, attributes)
        elif operation.name == "tensor.concat":
            self._concat(operation, builder)
        elif is_extern(operation):
            self._extern(operation, builder)
        elif is_view(operation):
            self._view(operation, builder)
        else:
            raise CompilerBug(f"{operation.name} reached the program level outside a kernel")

    def _kernel_buffer(self, value: Value) -> MemRefType | None:
        """The buffer that a kernel writes for a result; None for values that no kernel makes."""
        call = value.defining_op
        if call is None or call.name != "func.call" or not isinstance(value, OpResult):
            return None
        kernel = self.kernels[plain(call.attributes["callee"])]
        return buffer_type(value.type, strides_attribute(kernel, "lamina.result_strides", value.position))

    def _kernel(self, operation: Operation, builder: Builder) -> None:
        kernel = self.kernels[plain(operation.attributes["callee"])]
        outputs = []
        for result in operation.results:
            outputs.append(self._output(result, builder))
            self.values[result] = outputs[-1]
        inputs = []
        for position, value in enumerate(operation.operands):
            buffer = self.values[value]
            wanted = buffer_type(value.type, strides_attribute(kernel, "lamina.arg_strides", position))
            inputs.append(buffer if buffer.type is wanted else self._restride(buffer, wanted, builder))
        attributes = {"kernel": operation.attributes["callee"], "outputs": len(outputs)}
        if "lamina.sizes" in kernel.attributes:
            names = plain(kernel.attributes["lamina.sizes"])
            attributes["sizes"] = attribute([SymbolicSize.get(name) for name in names])
            attributes["work"] = attribute(list(work_of(kernel)))
        builder.op("program.launch", [*inputs, *outputs], (), attributes)

    def _output(self, result: Value, builder: Builder) -> Value:
        """The buffer for a kernel's result: of its own, or a place in a concatenation's."""
        type_ = self._kernel_buffer(result)
        assert type_ is not None
        placement = self.placements.get(result)
        if placement is None:
            space = "output" if result in self.escaping else "arena"
            return builder.value("program.alloc", (), type_, {"space": space})
        whole = self._concat_buffer(placement.concat, builder)
        return builder.value("program.view", (whole,), type_, {"offset": placement.offset})

    def _concat_buffer(self, concat: Operation, builder: Builder) -> Value:
        found = self.values.get(concat.result)
        if found is None:
            space = "output" if concat.result in self.escaping else "arena"
            type_ = buffer_type(concat.result.type)
            found = self.values[concat.result] = builder.value("program.alloc", (), type_, {"space": space})
        return found

    def _concat(self, concat: Operation, builder: Builder) -> None:
        """Pieces that no kernel wrote in place are copied."""
        whole = self._concat_buffer(concat, builder)
        for value, (type_, offset) in zip(concat.operands, piece_types(concat), strict=True):
            placement = self.placements.get(_root(value))
            if placement is None or placement != Placement(concat, offset):
                piece = builder.value("program.view", (whole,), type_, {"offset": offset})
                builder.op("program.copy", (self.values[value], piece))

    def _restride(self, buffer: Value, wanted: MemRefType, builder: Builder) -> Value:
        """The same values in other strides: equal strides up to sizes of 1 are a view, else a copy."""
        assert isinstance(buffer.type, MemRefType)
        if has_equal_strides(buffer.type, wanted):
            return builder.value("program.view", (buffer,), wanted, {"offset": 0})
        copy = builder.value("program.alloc", (), wanted, {"space": "arena"})
        builder.op("program.copy", (buffer, copy))
        return copy

    def _view(self, operation: Operation, builder: Builder) -> None:
        source = self.values[operation.operand()]
        assert isinstance(source.type, MemRefType)
        found = view_of(operation, source.type)
        if found is None:
            contiguous = self._restride(
                source, MemRefType.get(source.type.shape, source.type.element), builder
            )
            assert isinstance(contiguous.type, MemRefType)
            found = view_of(operation, contiguous.type)
            source = contiguous
        if found is None:
            raise CompilerBug(f"{operation.name} of a contiguous buffer must be a view")
        self.values[operation.result] = builder.value(
            "program.view", (source,), found[0], {"offset": found[1]}
        )

    def _extern(self, operation: Operation, builder: Builder) -> None:
        strides = operation.attributes.get("result_strides")
        opaque = plain(operation.attributes["opaque"]) if "opaque" in operation.attributes else False
        types: list[Type] = []
        for position, result in enumerate(operation.results):
            if opaque or not isinstance(result.type, TensorType):
                types.append(object_type)
                continue
            stated = plain(strides.elements[position]) if isinstance(strides, ArrayAttr) else None
            types.append(buffer_type(result.type, tuple(stated) if isinstance(stated, list) else None))
        attributes: dict[str, Any] = {
            key: value
            for key, value in operation.attributes.items()
            if key in ("args", "kwargs", "effects", "aliases", "returned")
        }
        attributes["callee"] = operation.name
        operands = [self.values[value] for value in operation.operands]
        if "lamina.in_place" in operation.attributes:
            dialect, packet, overload = operation.name.split(".")
            attributes["callee"] = f"{dialect}.{packet}_.{overload}"
            builder.op("program.call", operands, types, attributes)
            self.values[operation.result] = operands[0]
            return
        call = builder.op("program.call", operands, types, attributes)
        self.values.update(zip(operation.results, call.results, strict=True))

    def _kept(self, count: int) -> list[int]:
        kept = self.function.attributes.get("lamina.kept")
        return list(range(count)) if kept is None else list(plain(kept))

    def _return(self, operation: Operation, builder: Builder) -> None:
        owned: set[Value] = set()
        returned = []
        for position in self._kept(len(operation.operands)):
            value = operation.operand(position)
            strides = strides_attribute(self.function, "lamina.result_strides", position)
            returned.append(self._result(self.values[value], value, strides, owned, builder))
        mutations = self.function.attributes.get("lamina.mutations")
        for argument, position in plain(mutations) if mutations is not None else ():
            source, target = self.values[operation.operand(position)], builder.block.arguments[argument]
            if source is not target:
                builder.op("program.copy", (source, target))
        builder.op("program.return", returned)

    def _result(
        self,
        buffer: Value,
        value: Value,
        strides: tuple[int, ...] | None,
        owned: set[Value],
        builder: Builder,
    ) -> Value:
        """The buffer in eager's strides, in memory that no argument and no other result has."""
        if not isinstance(buffer.type, MemRefType):
            return buffer
        wanted = buffer.type if strides is None else buffer_type(value.type, strides)
        root = buffer_root(buffer)
        is_own = root not in owned and _is_fresh(root) and _is_dense(buffer, root)
        if _repeats_elements(wanted):
            # Nothing can be written there: only @prepare gives such values, and only to @main.
            is_own = True
        if is_own and has_equal_strides(buffer.type, wanted):
            owned.add(root)
            return (
                buffer
                if buffer.type is wanted
                else builder.value("program.view", (buffer,), wanted, {"offset": 0})
            )
        fresh = builder.value("program.alloc", (), wanted, {"space": "output"})
        builder.op("program.copy", (buffer, fresh))
        return fresh


def _is_fresh(root: Value) -> bool:
    """Whether the memory was made by this call for the caller alone."""
    owner = root.defining_op
    if owner is None:
        return False
    is_output = owner.name == "program.alloc" and plain(owner.attributes["space"]) == "output"
    return is_output or owner.name == "program.call"


def _repeats_elements(type_: MemRefType) -> bool:
    return any(
        isinstance(step, int) and step == 0 and size > 1
        for size, step in zip(type_.sizes, type_.steps, strict=True)
    )


def _is_dense(buffer: Value, root: Value) -> bool:
    """Whether a view keeps no more memory alive than it shows."""
    assert isinstance(buffer.type, MemRefType)
    return isinstance(root.type, MemRefType) and element_count(root.type) == element_count(buffer.type)


def _root(value: Value) -> Value:
    """The value whose buffer this is a view of."""
    operation = value.defining_op
    while operation is not None and (
        is_view(operation) or "aliases" in operation.attributes or "lamina.in_place" in operation.attributes
    ):
        value = operation.operand()
        operation = value.defining_op
    return value


def buffer_root(value: Value) -> Value:
    """At program level: the value that owns the memory, behind views and calls that may alias."""
    operation = value.defining_op
    while operation is not None and (operation.name == "program.view" or "aliases" in operation.attributes):
        value = operation.operand()
        operation = value.defining_op
    return value
