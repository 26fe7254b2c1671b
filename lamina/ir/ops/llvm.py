"""`llvm`: the operations that machine code is made from, as upstream defines them. The last level.

One record a operation, made from lists: they all take what LLVM's instruction of that name takes.
"""

from __future__ import annotations

from lamina.ir.record import (
    COMMUTATIVE,
    CONSTANT,
    ISOLATED,
    PURE,
    READS,
    SYMBOL,
    TERMINATOR,
    WRITES,
    OpRecord,
)

COMMUTING = ("fadd", "fmul", "add", "mul", "and", "or", "xor")
BINARY = ("fsub", "fdiv", "frem", "sub", "sdiv", "udiv", "srem", "urem", "shl", "ashr", "lshr")
UNARY = (
    "fneg", "fpext", "fptrunc", "sext", "zext", "trunc", "sitofp", "uitofp", "fptosi", "fptoui", "bitcast",
    "ptrtoint",
)  # fmt: skip
INTRINSICS = {
    "fabs": 1, "ceil": 1, "floor": 1, "trunc": 1, "round": 1, "roundeven": 1, "sqrt": 1, "copysign": 2,
    "fma": 3, "maximum": 2, "minimum": 2, "maxnum": 2, "minnum": 2, "smax": 2, "smin": 2, "umax": 2,
    "umin": 2, "abs": 1, "ctpop": 1, "ctlz": 1, "cttz": 1, "lrint": 1,
}  # fmt: skip
"""Pure intrinsics and how many operands they take."""
REDUCTIONS = (
    "add",
    "mul",
    "and",
    "or",
    "xor",
    "smax",
    "smin",
    "umax",
    "umin",
    "fmaximum",
    "fminimum",
    "fmax",
    "fmin",
)


def _pure(name: str, operands: int, *traits: str, attributes: tuple[str, ...] = ()) -> OpRecord:
    return OpRecord(f"llvm.{name}", operands, 1, frozenset({PURE, *traits}), attributes)


RECORDS = (
    OpRecord("llvm.func", 0, 0, frozenset({SYMBOL, ISOLATED}), ("sym_name", "function_type"), 1),
    OpRecord("llvm.return", None, 0, frozenset({TERMINATOR})),
    OpRecord("llvm.br", None, 0, frozenset({TERMINATOR})),
    OpRecord("llvm.cond_br", None, 0, frozenset({TERMINATOR}), ("operandSegmentSizes",)),
    OpRecord("llvm.call", None, None),
    OpRecord("llvm.fence", 0, 0, frozenset({READS, WRITES}), ("ordering",)),
    OpRecord("llvm.mlir.constant", 0, 1, frozenset({PURE, CONSTANT}), ("value",)),
    OpRecord("llvm.mlir.poison", 0, 1, frozenset({PURE})),
    OpRecord("llvm.mlir.addressof", 0, 1, frozenset({PURE}), ("global_name",)),
    OpRecord("llvm.alloca", 1, 1, frozenset(), ("elem_type",)),
    OpRecord("llvm.getelementptr", None, 1, frozenset({PURE}), ("elem_type", "rawConstantIndices")),
    OpRecord("llvm.load", 1, 1, frozenset({READS})),
    OpRecord("llvm.store", 2, 0, frozenset({WRITES})),
    OpRecord("llvm.intr.masked.load", 3, 1, frozenset({READS}), ("alignment",)),
    OpRecord("llvm.intr.masked.gather", 3, 1, frozenset({READS}), ("alignment",)),
    OpRecord("llvm.intr.masked.store", 3, 0, frozenset({WRITES}), ("alignment",)),
    OpRecord("llvm.intr.masked.scatter", 3, 0, frozenset({WRITES}), ("alignment",)),
    *(_pure(name, 2, COMMUTATIVE) for name in COMMUTING),
    *(_pure(name, 2) for name in BINARY),
    *(_pure(name, 1) for name in UNARY),
    OpRecord("llvm.call_intrinsic", None, 1, frozenset({PURE}), ("intrin", "operandSegmentSizes")),
    _pure("icmp", 2, attributes=("predicate",)),
    _pure("fcmp", 2, attributes=("predicate",)),
    _pure("select", 3),
    _pure("extractelement", 2),
    _pure("insertelement", 3),
    _pure("shufflevector", 2, attributes=("mask",)),
    *(_pure(f"intr.{name}", operands) for name, operands in INTRINSICS.items()),
    *(_pure(f"intr.vector.reduce.{name}", 1) for name in REDUCTIONS),
    *(_pure(f"intr.vector.reduce.{name}", 2) for name in ("fadd", "fmul")),
)
