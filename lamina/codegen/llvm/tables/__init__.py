"""What the back end knows, one file a dialect; an operation that no table holds is named before lowering."""

from __future__ import annotations

from lamina.codegen.llvm.lowering import Rule
from lamina.codegen.llvm.tables import arith, math, memref, scf, vector

TABLE: dict[str, Rule] = {**arith.TABLE, **math.TABLE, **memref.TABLE, **vector.TABLE, **scf.TABLE}
