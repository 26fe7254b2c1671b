"""Kernels of this process: built once for each text, kept in memory and on disk.

A kernel's identity is its tensor-level text under a neutral name, with the target and the options that
change code. Twelve equal layers thus share one kernel, and a second process loads what the first one built.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lamina.codegen.llvm.build import build
from lamina.driver.watch import Watch, counters
from lamina.ir.attributes import StringAttr
from lamina.ir.core import Operation, symbol_name
from lamina.ir.machine import Target
from lamina.ir.passes import Context
from lamina.ir.text import print_module
from lamina.options import Options
from lamina.pipeline import is_kernel, lower_kernel
from lamina.runtime.cache import Cache, key_of
from lamina.runtime.devices.cpu.library import Library

Kernel = Callable[[int, int], None]
NEUTRAL_NAME = "kernel"


@dataclass(slots=True)
class KernelStore:
    """Loaded kernels by identity. Thread safe."""

    loaded: dict[str, Kernel] = field(default_factory=dict)
    libraries: list[Library] = field(default_factory=list)
    lock: Any = field(default_factory=threading.RLock)

    def kernels(
        self, functions: Mapping[str, Operation], context: Context, cache: Cache, watch: Watch
    ) -> dict[str, Kernel]:
        """Callable kernels for tensor-level kernel functions, by name."""
        with self.lock:
            with watch.stage("kernel keys"):
                keys = {
                    name: kernel_key(function, context.target, context.options)
                    for name, function in functions.items()
                }
            missing: dict[str, str] = {}
            for name, key in keys.items():
                if (
                    key not in self.loaded
                    and key not in missing
                    and not self._load_from_disk(key, cache, watch)
                ):
                    missing[key] = name
            for key, name in missing.items():
                self._build(key, functions[name], context, cache, watch)
            return {name: self.loaded[key] for name, key in keys.items()}

    def _load_from_disk(self, key: str, cache: Cache, watch: Watch) -> bool:
        with watch.stage("cache"):
            payload = cache.get("kernel", key)
            if payload is None:
                return False
            try:
                header, object_code = payload.split(b"\n", 1)
                symbol = json.loads(header)["symbol"]
                self._add(key, Library(object_code, [symbol]), symbol)
            except Exception as error:
                cache.reject("kernel", key, f"not loadable ({type(error).__name__})")
                return False
            counters.cache_hits += 1
            return True

    def _build(self, key: str, function: Operation, context: Context, cache: Cache, watch: Watch) -> None:
        with watch.stage("loops"):
            lowered = lower_kernel(function, context)
        with watch.stage("codegen"):
            built = build([lowered], context.target, contract=context.options.numerics != "eager")
            counters.kernel_compilations += 1
            symbol = built.symbols[0]
            self._add(key, Library(built.object_code, built.symbols), symbol)
        cache.put("kernel", key, json.dumps({"symbol": symbol}).encode() + b"\n" + built.object_code)

    def _add(self, key: str, library: Library, symbol: str) -> None:
        self.libraries.append(library)
        self.loaded[key] = library.function(symbol)

    def clear(self) -> None:
        """Forget the kernels; those that programs hold stay loaded."""
        with self.lock:
            self.loaded = {}


STORE = KernelStore()


def kernel_key(function: Operation, target: Target, options: Options) -> str:
    """The identity of a tensor-level kernel function."""
    name = function.attributes["sym_name"]
    function.attributes["sym_name"] = StringAttr(NEUTRAL_NAME)
    try:
        text = print_module(function)
    finally:
        function.attributes["sym_name"] = name
    return key_of(text, target.isa, ",".join(target.features), options.cache_key())


def kernel_functions(module: Operation) -> dict[str, Operation]:
    """The kernel functions of a module, by name."""
    return {symbol_name(each) or "": each for each in module.body if is_kernel(each)}
