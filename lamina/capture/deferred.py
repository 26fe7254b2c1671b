"""Keeps torch's own compiler out of the process until somebody asks for it.

FakeTensorMode imports `torch._dynamo.config`, and with it the whole of `torch._dynamo` and sympy: about a
second, of which capture needs two flags. Here the package object is made without running its body; the first
attribute that is missing runs it, so that `torch.compile` in the same process finds everything as usual.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys
import threading
import types
from typing import Any

PACKAGE = "torch._dynamo"
_lock = threading.RLock()


class DeferredPackage(types.ModuleType):
    """A package whose body runs when anything but its configuration is asked for, submodules included."""

    def _load(self) -> None:
        with _lock:
            if type(self) is not DeferredPackage:
                return
            specification = self.__spec__
            assert specification is not None and specification.loader is not None
            self.__class__ = types.ModuleType  # type: ignore[assignment]
            self.__dict__["__path__"] = list(specification.submodule_search_locations or ())
            specification.loader.exec_module(self)

    @property
    def __path__(self) -> Any:  # type: ignore[override]
        # The import machinery reads it before it looks for a submodule.
        self._load()
        return self.__dict__["__path__"]

    def disable(self, function: Any = None, recursive: bool = True, **options: Any) -> Any:
        """torch's marker for code that its compiler leaves alone: nothing to do until that is loaded."""
        if function is None:
            self._load()
            return self.__dict__["disable"](function, recursive, **options)
        marked: list[Any] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            if type(self) is DeferredPackage:
                return function(*args, **kwargs)
            if not marked:
                marked.append(self.__dict__["disable"](function, recursive, **options))
            return marked[0](*args, **kwargs)

        return call

    def __getattr__(self, name: str) -> Any:
        # Import machinery and inspection ask for special names; they are no reason to load.
        if name.startswith("__"):
            raise AttributeError(name)
        self._load()
        return getattr(self, name)


def defer_compiler_import() -> None:
    """Register the deferred package with its configuration, unless torch's compiler is loaded already."""
    with _lock:
        if PACKAGE in sys.modules:
            return
        specification = importlib.util.find_spec(PACKAGE)
        if specification is None or specification.loader is None or specification.origin is None:
            return
        module = DeferredPackage(PACKAGE)
        module.__spec__ = specification
        module.__loader__ = specification.loader
        module.__file__ = specification.origin
        module.__package__ = PACKAGE
        sys.modules[PACKAGE] = module
        sys.modules["torch"].__dict__["_dynamo"] = module
        try:
            module.__dict__["config"] = load_configuration(specification.origin)
        except Exception:
            # Another layout of torch's files: import the package as everybody does.
            sys.modules.pop(f"{PACKAGE}.config", None)
            module._load()


def load_configuration(package_file: str) -> types.ModuleType:
    """`torch._dynamo.config`, which needs nothing else of its package."""
    name = f"{PACKAGE}.config"
    file = pathlib.Path(package_file).with_name("config.py")
    specification = importlib.util.spec_from_file_location(name, file)
    assert specification is not None and specification.loader is not None
    configuration = importlib.util.module_from_spec(specification)
    sys.modules[name] = configuration
    specification.loader.exec_module(configuration)
    return sys.modules[name]
