"""Kernels of this process: built once for each text, kept in memory and on disk.

A kernel's identity is its tensor-level text under a neutral name, with the target and the options that
change code. Twelve equal layers thus share one kernel, and a second process loads what the first one built.
Kernels that are missing together are compiled together, into one object file.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lamina.driver.watch import Watch, counters
from lamina.ir.attributes import StringAttr
from lamina.ir.core import Operation
from lamina.ir.machine import Target
from lamina.ir.passes import Context
from lamina.ir.sizes import NOTHING, deciding
from lamina.ir.text import print_module
from lamina.options import Options
from lamina.runtime.cache import Cache, key_of
from lamina.runtime.devices.cpu.library import Library
from lamina.runtime.devices.cpu.resident import note_use

Kernel = Callable[[int, int], None]
NEUTRAL_NAME = "kernel"


@dataclass(slots=True)
class KernelStore:
    """Loaded kernels by identity, and the object files they are in. Thread safe."""

    loaded: dict[str, Kernel] = field(default_factory=dict)
    libraries: dict[str, Library] = field(default_factory=dict)
    lock: Any = field(default_factory=threading.RLock)

    def make(
        self, functions: Mapping[str, Operation], context: Context, cache: Cache, watch: Watch
    ) -> dict[str, str]:
        """Build or load what is missing of tensor-level kernel functions; the identity of each, by name."""
        with self.lock:
            with watch.stage("kernel keys"):
                keys = {
                    name: kernel_key(function, context.target, context.options)
                    for name, function in functions.items()
                }
            missing: dict[str, str] = {}
            for name, key in keys.items():
                if key not in missing and not self.load([key], cache, watch):
                    missing[key] = name
            if missing:
                self._build({key: functions[name] for key, name in missing.items()}, context, cache, watch)
            return keys

    def load(self, keys: Iterable[str], cache: Cache, watch: Watch) -> bool:
        """Whether all these kernels are in this process now, loaded from disk where they were not."""
        with self.lock, watch.stage("cache"):
            return all(key in self.loaded or self._load_from_disk(key, cache) for key in keys)

    def callables(self, keys: Mapping[str, str]) -> dict[str, Kernel]:
        """Loaded kernels by the names that a program has for them."""
        with self.lock:
            return {name: self.loaded[key] for name, key in keys.items()}

    def _load_from_disk(self, key: str, cache: Cache) -> bool:
        payload = cache.get("kernel", key)
        if payload is None:
            return False
        try:
            found = json.loads(payload)
            name, symbol = found["object"], found["symbol"]
            if name not in self.libraries:
                object_code = cache.get("object", name)
                if object_code is None:
                    return False
                self.libraries[name] = Library(object_code, found["symbols"])
            self.loaded[key] = self.libraries[name].function(symbol)
        except Exception as error:
            cache.reject("kernel", key, f"not loadable ({type(error).__name__})")
            return False
        counters.cache_hits += 1
        return True

    def _build(
        self, functions: Mapping[str, Operation], context: Context, cache: Cache, watch: Watch
    ) -> None:
        # LLVM and the loop passes are needed only here: a process that loads all its kernels is spared them.
        from lamina.codegen.llvm.build import build
        from lamina.pipeline import lower_kernel

        # A kernel is for all sizes: nothing is decided by those at hand.
        with watch.stage("loops"), deciding(NOTHING):
            lowered = [lower_kernel(function, context) for function in functions.values()]
        with watch.stage("codegen"):
            note_use()
            built = build(lowered, context.target, contract=context.options.numerics != "eager")
            counters.kernel_compilations += len(lowered)
            name = hashlib.sha256(built.object_code).hexdigest()
            # Kernels loaded before may lie in an equal object: it stays, or their code would be unmapped.
            library = self.libraries.get(name) or Library(built.object_code, built.symbols)
            self.libraries[name] = library
        cache.put("object", name, built.object_code)
        for key, symbol in zip(functions, built.symbols, strict=True):
            self.loaded[key] = library.function(symbol)
            found = {"object": name, "symbol": symbol, "symbols": built.symbols}
            cache.put("kernel", key, json.dumps(found).encode())

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
