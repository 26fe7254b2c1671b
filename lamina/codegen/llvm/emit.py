"""`llvm` dialect -> LLVM IR text.

Constants are written where they are used, block arguments become phi nodes, and every intrinsic that is
called gets its declaration. Vectors of 512 bits make a function ask for registers that wide.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import TypeAlias

from lamina.errors import CompilerBug
from lamina.ir.attributes import (
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DenseElementsAttr,
    FloatAttr,
    IntegerAttr,
    OpaqueAttr,
    StringAttr,
    SymbolRefAttr,
    TypeAttr,
    decode_scalar,
)
from lamina.ir.core import Block, Operation, Value, symbol_name
from lamina.ir.ops.arith import CMPF, CMPI
from lamina.ir.types import OpaqueType, ScalarType, Type, VectorType, i1, pointer

SCALARS = {"f32": "float", "f64": "double", "f16": "half", "bf16": "bfloat"}
BINARY = (
    "fadd", "fsub", "fmul", "fdiv", "frem", "add", "sub", "mul", "sdiv", "udiv", "srem", "urem", "and",
    "or", "xor", "shl", "ashr", "lshr",
)  # fmt: skip
CASTS = ("fpext", "fptrunc", "sext", "zext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast",
         "ptrtoint")  # fmt: skip


def emit(module: Operation) -> str:
    """The text of a module of `llvm.func` operations."""
    writer = _Writer()
    functions = [operation for operation in module.body if operation.name == "llvm.func"]
    parts = [_function(writer, function) for function in functions]
    declared = sorted(writer.declarations.values())
    return "\n".join([*parts, *declared, *writer.attribute_groups(), "!0 = !{i32 1}", ""])


def type_text(type_: Type) -> str:
    """`vector<16xf32>` -> `<16 x float>`."""
    if isinstance(type_, ScalarType):
        return SCALARS.get(type_.name, type_.name)
    if isinstance(type_, VectorType):
        return f"<{type_.shape[0]} x {type_text(type_.element)}>"
    if type_ is pointer:
        return "ptr"
    if isinstance(type_, OpaqueType) and type_.spelling.endswith("x!llvm.ptr>"):
        return f"<{_pointer_lanes(type_)} x ptr>"
    raise CompilerBug(f"{type_} has no LLVM type", stage="emit")


def _pointer_lanes(type_: OpaqueType) -> str:
    return type_.spelling.removeprefix("vector<").removesuffix("x!llvm.ptr>")


def suffix(type_: Type) -> str:
    """The part of an intrinsic's name that says a type: `v16f32`."""
    if isinstance(type_, VectorType):
        return f"v{type_.shape[0]}{type_.element.name}"
    if type_ is pointer:
        return "p0"
    if isinstance(type_, OpaqueType):
        return f"v{_pointer_lanes(type_)}p0"
    return str(type_)


def number(value: float | int | bool, type_: ScalarType) -> str:
    """A constant's text; floats by their bits, so that nothing is rounded on the way."""
    if type_ is i1:
        return "true" if value else "false"
    if not type_.is_float:
        return str(value)
    if type_.name == "f16":
        return f"0xH{int.from_bytes(struct.pack('<e', value), 'little'):04X}"
    if type_.name in ("f32", "f64"):
        return f"0x{int.from_bytes(struct.pack('<d', value), 'little'):016X}"
    raise CompilerBug(f"no constant of type {type_}", stage="emit")


def constant_text(attribute: Attribute) -> str:
    match attribute:
        case BoolAttr(value):
            return "true" if value else "false"
        case IntegerAttr(value, type_) | FloatAttr(value, type_):
            return number(value, type_)
        case DenseElementsAttr():
            return _dense(attribute)
    raise CompilerBug(f"no LLVM constant for {attribute}", stage="emit")


def _dense(attribute: DenseElementsAttr) -> str:
    element = attribute.type.element
    spelled, size = type_text(element), element.bytes
    pieces = [attribute.bytes_[at : at + size] for at in range(0, len(attribute.bytes_), size)]
    texts = [f"{spelled} {number(decode_scalar(piece, element), element)}" for piece in pieces]
    return f"splat ({texts[0]})" if attribute.is_splat else f"<{', '.join(texts)}>"


class _Writer:
    """Names of values and the declarations gathered on the way."""

    def __init__(self) -> None:
        self.names: dict[Value, str] = {}
        self.labels: dict[Block, str] = {}
        self.declarations: dict[str, str] = {}
        self._groups: dict[str, int] = {}

    def name(self, value: Value) -> str:
        found = self.names.get(value)
        if found is None:
            found = self.names[value] = f"%v{len(self.names)}"
        return found

    def typed(self, value: Value) -> str:
        return f"{type_text(value.type)} {self.name(value)}"

    def label(self, block: Block) -> str:
        return self.labels.setdefault(block, f"b{len(self.labels)}")

    def call(
        self, intrinsic: str, result: str, types: Iterable[str], arguments: Iterable[str], flags: str = ""
    ) -> str:
        """A call of an intrinsic, which gets declared."""
        self.declarations.setdefault(intrinsic, f"declare {result} @{intrinsic}({', '.join(types)})")
        return f"call {flags}{result} @{intrinsic}({', '.join(arguments)})"

    def group(self, text: str) -> str:
        return f"#{self._groups.setdefault(text, len(self._groups))}"

    def attribute_groups(self) -> list[str]:
        return [f"attributes #{position} = {{ {text} }}" for text, position in self._groups.items()]


def _function(writer: _Writer, function: Operation) -> str:
    name = symbol_name(function)
    result, types = signature(function)
    if not function.region.blocks:
        return f"declare {result} @{name}({', '.join(types)})"
    linkage = function.attributes.get("linkage")
    internal = "internal " if isinstance(linkage, OpaqueAttr) and "internal" in linkage.spelling else ""
    entry = function.region.blocks[0]
    parameters = ", ".join(map(writer.typed, entry.arguments))
    group = writer.group(_function_attributes(function))
    lines = [f"define {internal}{result} @{name}({parameters}) {group} {{"]
    incoming = _incoming(writer, function)
    for block in function.region.blocks:
        lines.append(f"{writer.label(block)}:")
        if block is not entry:
            lines += _phis(writer, block, incoming.get(block, []))
        lines += [f"  {text}" for text in (_operation(writer, operation) for operation in block) if text]
    return "\n".join([*lines, "}"])


def signature(function: Operation) -> tuple[str, list[str]]:
    """Result type and parameter types of a `llvm.func`, as LLVM spells them."""
    type_ = function.attributes["function_type"]
    assert isinstance(type_, TypeAttr)
    spelling = str(type_.value).removeprefix("!llvm.func<").removesuffix(")>")
    result, _, parameters = spelling.partition(" (")
    return _spelled(result), [_spelled(text) for text in parameters.split(", ") if text]


def _spelled(text: str) -> str:
    """`vector<16xf32>` -> `<16 x float>`, from inside of a function type."""
    if text.startswith("vector<"):
        lanes, _, element = text.removeprefix("vector<").removesuffix(">").partition("x")
        return f"<{lanes} x {_spelled(element)}>"
    return SCALARS.get(text, text)


def _function_attributes(function: Operation) -> str:
    values: list[Value] = list(function.region.blocks[0].arguments)
    for operation in function.walk():
        values += operation.results
    vectors = [value.type for value in values if isinstance(value.type, VectorType)]
    widest = max((type_.shape[0] * type_.element.bits for type_ in vectors), default=0)
    parts = ["nounwind"]
    if "no_inline" in function.attributes:
        parts.append("noinline")
    if widest >= 512:
        parts += ['"prefer-vector-width"="512"', '"min-legal-vector-width"="512"']
    return " ".join(parts)


def _incoming(writer: _Writer, function: Operation) -> dict[Block, list[tuple[Block, tuple[Value, ...]]]]:
    """For each block, where control comes from and the values it brings."""
    incoming: dict[Block, list[tuple[Block, tuple[Value, ...]]]] = {}
    for block in function.region.blocks:
        for target, values in _successors(block.terminator):
            incoming.setdefault(target, []).append((block, values))
    return incoming


def _successors(terminator: Operation) -> list[tuple[Block, tuple[Value, ...]]]:
    if terminator.name == "llvm.br":
        return [(terminator.successors[0], terminator.operands)]
    if terminator.name == "llvm.cond_br":
        sizes = terminator.attributes["operandSegmentSizes"]
        assert isinstance(sizes, DenseArrayAttr)
        end = 1 + int(sizes.values[1])
        then, otherwise = terminator.successors
        return [(then, terminator.operands[1:end]), (otherwise, terminator.operands[end:])]
    return []


def _phis(writer: _Writer, block: Block, incoming: list[tuple[Block, tuple[Value, ...]]]) -> list[str]:
    lines = []
    for position, argument in enumerate(block.arguments):
        sources = ", ".join(
            f"[ {writer.name(values[position])}, %{writer.label(source)} ]" for source, values in incoming
        )
        lines.append(f"  {writer.name(argument)} = phi {type_text(argument.type)} {sources}")
    return lines


def _operation(writer: _Writer, operation: Operation) -> str:
    """The line of one operation; empty for constants, which are written where they are used."""
    name = operation.name.removeprefix("llvm.")
    if name == "mlir.constant":
        writer.names[operation.results[0]] = constant_text(operation.attributes["value"])
        return ""
    if name in ("mlir.poison", "mlir.addressof"):
        symbol = operation.attributes.get("global_name")
        writer.names[operation.results[0]] = (
            f"@{symbol.name}" if isinstance(symbol, SymbolRefAttr) else "poison"
        )
        return ""
    formatter = FORMATTERS.get(name) or (_intrinsic if name.startswith("intr.") else None)
    if formatter is None:
        raise CompilerBug(f"{operation.name} has no LLVM text", stage="emit")
    text = formatter(writer, operation)
    return f"{writer.name(operation.results[0])} = {text}" if operation.results else text


def _flags(operation: Operation) -> str:
    """Fast-math and overflow flags, with a space after each."""
    text = ""
    fast = operation.attributes.get("fastmathFlags")
    if isinstance(fast, OpaqueAttr):
        names = fast.spelling.removeprefix("#llvm.fastmath<").removesuffix(">")
        text += "".join(f"{flag.strip()} " for flag in names.split(",") if flag != "none")
    overflow = operation.attributes.get("overflowFlags")
    if isinstance(overflow, IntegerAttr):
        text += "nsw " * (overflow.value & 1) + "nuw " * (overflow.value >> 1 & 1)
    return text


def _integer(operation: Operation, name: str, default: int = 0) -> int:
    value = operation.attributes.get(name)
    return value.value if isinstance(value, IntegerAttr) else default


def _binary(writer: _Writer, operation: Operation) -> str:
    a, b = operation.operands
    return f"{operation.name.removeprefix('llvm.')} {_flags(operation)}{writer.typed(a)}, {writer.name(b)}"


def _cast(writer: _Writer, operation: Operation) -> str:
    target = type_text(operation.result.type)
    return f"{operation.name.removeprefix('llvm.')} {writer.typed(operation.operand())} to {target}"


def _compare(writer: _Writer, operation: Operation) -> str:
    a, b = operation.operands
    is_float = operation.name == "llvm.fcmp"
    predicate = (CMPF if is_float else CMPI)[_integer(operation, "predicate")]
    return f"{'fcmp' if is_float else 'icmp'} {predicate} {writer.typed(a)}, {writer.name(b)}"


def _listed(name: str) -> Formatter:
    """An instruction whose operands are all written with their types: select, extractelement, ..."""
    return lambda writer, operation: f"{name} {', '.join(map(writer.typed, operation.operands))}"


def _shuffle(writer: _Writer, operation: Operation) -> str:
    mask = operation.attributes["mask"]
    assert isinstance(mask, DenseArrayAttr)
    lanes = ", ".join("i32 poison" if lane < 0 else f"i32 {lane}" for lane in mask.values)
    operands = ", ".join(map(writer.typed, operation.operands))
    return f"shufflevector {operands}, <{len(mask)} x i32> <{lanes}>"


def _address(writer: _Writer, operation: Operation) -> str:
    element = operation.attributes["elem_type"]
    assert isinstance(element, TypeAttr)
    flags = "inbounds " if _integer(operation, "noWrapFlags") & 1 else ""
    return (
        f"getelementptr {flags}{type_text(element.value)}, {', '.join(map(writer.typed, operation.operands))}"
    )


def _memory(operation: Operation) -> str:
    streaming = ", !nontemporal !0" if "nontemporal" in operation.attributes else ""
    return f", align {_integer(operation, 'alignment', 1)}{streaming}"


def _load(writer: _Writer, operation: Operation) -> str:
    return f"load {type_text(operation.result.type)}, {writer.typed(operation.operand())}{_memory(operation)}"


def _store(writer: _Writer, operation: Operation) -> str:
    value, address = operation.operands
    return f"store {writer.typed(value)}, {writer.typed(address)}{_memory(operation)}"


def _allocate(writer: _Writer, operation: Operation) -> str:
    element = operation.attributes["elem_type"]
    assert isinstance(element, TypeAttr)
    return f"alloca {type_text(element.value)}, {writer.typed(operation.operand())}{_memory(operation)}"


def _branch(writer: _Writer, operation: Operation) -> str:
    return f"br label %{writer.label(operation.successors[0])}"


def _branch_if(writer: _Writer, operation: Operation) -> str:
    then, otherwise = map(writer.label, operation.successors)
    return f"br {writer.typed(operation.operand())}, label %{then}, label %{otherwise}"


def _call(writer: _Writer, operation: Operation) -> str:
    callee = operation.attributes["callee"]
    assert isinstance(callee, SymbolRefAttr)
    result = type_text(operation.results[0].type) if operation.results else "void"
    return f"call {result} @{callee.name}({', '.join(map(writer.typed, operation.operands))})"


def _fence(writer: _Writer, operation: Operation) -> str:
    if _integer(operation, "ordering") != 7:
        raise CompilerBug("only a sequentially consistent fence has LLVM text here", stage="emit")
    return "fence seq_cst"


def _return(writer: _Writer, operation: Operation) -> str:
    return f"ret {writer.typed(operation.operands[0])}" if operation.operands else "ret void"


def _masked_load(writer: _Writer, operation: Operation) -> str:
    address, mask, otherwise = operation.operands
    kind = "gather" if operation.name.endswith("gather") else "load"
    result = operation.result.type
    arguments = [
        writer.typed(address),
        f"i32 {_integer(operation, 'alignment')}",
        writer.typed(mask),
        writer.typed(otherwise),
    ]
    types = [type_text(address.type), "i32", type_text(mask.type), type_text(result)]
    name = f"llvm.masked.{kind}.{suffix(result)}.{suffix(address.type)}"
    return writer.call(name, type_text(result), types, arguments)


def _masked_store(writer: _Writer, operation: Operation) -> str:
    value, address, mask = operation.operands
    kind = "scatter" if operation.name.endswith("scatter") else "store"
    arguments = [
        writer.typed(value),
        writer.typed(address),
        f"i32 {_integer(operation, 'alignment')}",
        writer.typed(mask),
    ]
    types = [type_text(value.type), type_text(address.type), "i32", type_text(mask.type)]
    name = f"llvm.masked.{kind}.{suffix(value.type)}.{suffix(address.type)}"
    return writer.call(name, "void", types, arguments)


IMMEDIATES = ("is_int_min_poison", "is_zero_poison")
"""Attributes that are a last `i1` argument in the text."""


def _intrinsic(writer: _Writer, operation: Operation) -> str:
    """`llvm.intr.fma` -> `llvm.fma.<type>`; reductions and lrint are named after operands."""
    base = operation.name.replace("llvm.intr.", "llvm.")
    operands = list(operation.operands)
    arguments, types = list(map(writer.typed, operands)), [type_text(value.type) for value in operands]
    for name in IMMEDIATES:
        value = operation.attributes.get(name)
        if isinstance(value, BoolAttr):
            arguments.append(f"i1 {'true' if value.value else 'false'}")
            types.append("i1")
    overload = suffix(operands[-1].type if base.startswith("llvm.vector.reduce") else operation.result.type)
    if base == "llvm.lrint":
        overload += f".{suffix(operands[-1].type)}"
    result = type_text(operation.result.type)
    return writer.call(f"{base}.{overload}", result, types, arguments, _flags(operation))


def _intrinsic_by_name(writer: _Writer, operation: Operation) -> str:
    """`llvm.call_intrinsic`: any intrinsic, by its full name."""
    name = operation.attributes["intrin"]
    assert isinstance(name, StringAttr)
    types = [type_text(value.type) for value in operation.operands]
    return writer.call(
        name.value, type_text(operation.result.type), types, map(writer.typed, operation.operands)
    )


Formatter: TypeAlias = Callable[[_Writer, Operation], str]
FORMATTERS: dict[str, Formatter] = {
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(CASTS, _cast),
    "fneg": _listed("fneg"),
    "fcmp": _compare,
    "icmp": _compare,
    "select": _listed("select"),
    "extractelement": _listed("extractelement"),
    "insertelement": _listed("insertelement"),
    "shufflevector": _shuffle,
    "getelementptr": _address,
    "load": _load,
    "store": _store,
    "alloca": _allocate,
    "br": _branch,
    "cond_br": _branch_if,
    "call": _call,
    "fence": _fence,
    "return": _return,
    "intr.masked.load": _masked_load,
    "intr.masked.gather": _masked_load,
    "intr.masked.store": _masked_store,
    "intr.masked.scatter": _masked_store,
    "call_intrinsic": _intrinsic_by_name,
}
