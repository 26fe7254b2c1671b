"""What is legal at each level of the IR: a table, checked after every pass in tests."""

from __future__ import annotations

from dataclasses import dataclass

from lamina.ir.core import Operation
from lamina.ir.ops import record
from lamina.ir.ops.aten import RECORD as LIBRARY
from lamina.ir.ops.aten import is_extern
from lamina.ir.types import MemRefType, TensorType, Type, VectorType


@dataclass(frozen=True, slots=True)
class Level:
    """`dialects` are legal but for the operations in `without`; library calls where `has_library_calls`."""

    name: str
    dialects: frozenset[str]
    without: frozenset[str] = frozenset()
    forbidden_types: tuple[type[Type], ...] = ()
    has_library_calls: bool = False

    def objection(self, operation: Operation) -> str:
        """Why an operation is illegal here; empty when it is legal."""
        dialect = operation.name.split(".", 1)[0]
        if operation.name in self.without:
            return f"{operation.name} is not legal at level {self.name}"
        if dialect not in self.dialects:
            if self.has_library_calls and is_extern(operation) and record(operation.name) is LIBRARY:
                return ""
            allowed = ", ".join(sorted(self.dialects))
            return f"{operation.name} is not legal at level {self.name}, which has {allowed}"
        for value in operation.results:
            if isinstance(value.type, self.forbidden_types):
                return f"{value.type} is not legal at level {self.name}"
        return ""


KERNEL_REGIONS = frozenset({"lamina.kernel", "lamina.yield"})
TENSOR = frozenset({"builtin", "func", "arith", "math", "tensor", "lamina"})
SCALAR = frozenset({"builtin", "func", "arith", "math", "memref"})

LEVELS: dict[str, Level] = {
    level.name: level
    for level in (
        Level("tensor", TENSOR, KERNEL_REGIONS, (MemRefType, VectorType), has_library_calls=True),
        Level("fused", TENSOR, frozenset(), (MemRefType, VectorType), has_library_calls=True),
        Level("linalg", SCALAR | {"linalg", "scf"}, frozenset(), (TensorType, VectorType)),
        Level("loops", SCALAR | {"scf", "vector"}, frozenset(), (TensorType,)),
        Level("llvm", frozenset({"builtin", "llvm"}), frozenset(), (TensorType, MemRefType)),
        Level("program", frozenset({"builtin", "program"}), frozenset(), (TensorType, VectorType)),
    )
}
