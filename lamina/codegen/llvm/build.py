"""The whole back end in one call: loop-level functions -> one object file."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from lamina.codegen.llvm.compile import compile_text
from lamina.codegen.llvm.emit import emit
from lamina.codegen.llvm.to_llvm import to_llvm
from lamina.ir.core import Operation, symbol_name
from lamina.ir.machine import Target


@dataclass(frozen=True, slots=True)
class Built:
    """Machine code of some kernels.

    object_code: a relocatable object file; symbols: the kernels in it, each `void (ptr args, i64 threads)`;
    text: the LLVM text it was made from; seconds: by stage.
    """

    object_code: bytes
    symbols: tuple[str, ...]
    text: str
    seconds: dict[str, float]


def build(functions: Sequence[Operation], target: Target | str, *, contract: bool = True) -> Built:
    """Compile loop-level functions (without `math` operations that need `expand_math`) into one object file.

    target: what to compile for, or only its instruction set. contract: see `to_llvm`.
    """
    started = time.perf_counter()
    module = to_llvm(functions, contract=contract)
    lowered = time.perf_counter()
    text = emit(module)
    emitted = time.perf_counter()
    compiled = compile_text(text, target if isinstance(target, str) else target.isa)
    seconds = {"to_llvm": lowered - started, "emit": emitted - lowered, **compiled.seconds}
    symbols = tuple(symbol_name(function) or "" for function in functions)
    return Built(compiled.object_code, symbols, text, seconds)
