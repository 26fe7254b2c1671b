"""LLVM text -> optimised object code, by llvmlite, in this process.

The text already has explicit vectors and loops in rotated form, so only a few cheap passes run before code
generation. Nothing of a compile outlives it: a TargetMachine keeps half a megabyte for each kind of function
that it has seen, a context each constant. llvmlite runs one call at a time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from functools import cache

import llvmlite.binding as llvm

from lamina.errors import CompilerBug, UserError

INSTRUCTION_SETS = ("scalar", "neon", "avx2", "avx512")
_LOCK = threading.Lock()
OPTIMISATION_LEVEL = 3


@dataclass(frozen=True, slots=True)
class Compiled:
    """Object code, and the seconds that each stage took."""

    object_code: bytes
    seconds: dict[str, float] = field(default_factory=dict)


@cache
def _initialise() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


def features(isa: str) -> str:
    """LLVM's feature list: this processor's, without what lies above `isa`. UserError for an unknown one."""
    if isa not in INSTRUCTION_SETS:
        raise UserError(f"unknown instruction set {isa!r}", hint=f"allowed: {', '.join(INSTRUCTION_SETS)}")
    found = llvm.get_host_cpu_features()
    left_out = () if isa in ("avx512", "neon") else ("avx512", "avx10", "evex512")
    return ",".join(
        f"{'+' if has and not name.startswith(left_out or '#') else '-'}{name}"
        for name, has in sorted(found.items())
    )


def machine(isa: str) -> llvm.TargetMachine:
    """A code generator for an instruction set, made in a millisecond or two."""
    _initialise()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features(isa), opt=OPTIMISATION_LEVEL, reloc="pic",
        codemodel="default",
    )  # fmt: skip


def compile_text(text: str, isa: str) -> Compiled:
    """Object code of a module's text."""
    with _LOCK:
        started = time.perf_counter()
        code_generator = machine(isa)
        module = _parse(text, code_generator)
        parsed = time.perf_counter()
        _optimise(module, code_generator)
        optimised = time.perf_counter()
        object_code = code_generator.emit_object(module)
        done = time.perf_counter()
    seconds = {"parse": parsed - started, "optimise": optimised - parsed, "codegen": done - optimised}
    return Compiled(object_code, seconds)


def assembly(text: str, isa: str) -> str:
    """The machine code as assembler text, for explaining."""
    with _LOCK:
        code_generator = machine(isa)
        module = _parse(text, code_generator)
        _optimise(module, code_generator)
        listing: str = code_generator.emit_assembly(module)
    return listing


def optimised_text(text: str, isa: str) -> str:
    """The module's text after LLVM's passes."""
    with _LOCK:
        code_generator = machine(isa)
        module = _parse(text, code_generator)
        _optimise(module, code_generator)
        return str(module)


def _parse(text: str, code_generator: llvm.TargetMachine) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompilerBug(f"LLVM rejects the text: {error}", stage="compile") from None
    module.triple = code_generator.triple
    module.data_layout = str(code_generator.target_data)
    return module


def _optimise(module: llvm.ModuleRef, code_generator: llvm.TargetMachine) -> None:
    options = llvm.create_pipeline_tuning_options(speed_level=1)
    options.loop_vectorization = False
    options.slp_vectorization = False
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(code_generator, options)
    passes = llvm.create_new_module_pass_manager()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.run(module, builder)
