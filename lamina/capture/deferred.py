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
VALIDATOR = "torch.fx.experimental.validator"
_lock = threading.RLock()


class DeferredModule(types.ModuleType):
    """A module whose body runs when something is asked for that it does not have yet."""

    def __getattr__(self, name: str) -> Any:
        # Import machinery and inspection ask for special names; they are no reason to load.
        if name.startswith("__"):
            raise AttributeError(name)
        load(self)
        return getattr(self, name)


def load(module: types.ModuleType) -> None:
    """Run the body of a deferred module, which makes a usual one of it."""
    with _lock:
        if not isinstance(module, DeferredModule):
            return
        specification = module.__spec__
        assert specification is not None and specification.loader is not None
        module.__class__ = types.ModuleType  # type: ignore[assignment]
        if specification.submodule_search_locations is not None:
            module.__dict__["__path__"] = list(specification.submodule_search_locations)
        specification.loader.exec_module(module)


class DeferredValidator(DeferredModule):
    """torch's check of its size algebra, which is off: loaded where somebody switches it on."""

    def translation_validation_enabled(self) -> bool:
        from torch.fx.experimental import _config

        if isinstance(self, DeferredValidator) and not _config.translation_validation:
            return False
        load(self)
        return bool(self.__dict__["translation_validation_enabled"]())


class DeferredPackage(DeferredModule):
    """A package whose body runs when anything but its configuration is asked for, submodules included."""

    @property
    def __path__(self) -> Any:  # type: ignore[override]
        # The import machinery reads it before it looks for a submodule.
        load(self)
        return self.__dict__["__path__"]

    def disable(self, function: Any = None, recursive: bool = True, **options: Any) -> Any:
        """torch's marker for code that its compiler leaves alone: nothing to do until that is loaded."""
        if function is None:
            load(self)
            return self.__dict__["disable"](function, recursive, **options)
        marked: list[Any] = []

        def call(*args: Any, **kwargs: Any) -> Any:
            if type(self) is DeferredPackage:
                return function(*args, **kwargs)
            if not marked:
                marked.append(self.__dict__["disable"](function, recursive, **options))
            return marked[0](*args, **kwargs)

        return call


def defer_compiler_import() -> None:
    """Register the deferred modules, unless torch's compiler is loaded already."""
    with _lock:
        if PACKAGE in sys.modules:
            return
        package = register(PACKAGE, DeferredPackage)
        register(VALIDATOR, DeferredValidator)
        if package is None:
            return
        assert package.__file__ is not None
        try:
            package.__dict__["config"] = load_configuration(package.__file__)
        except Exception:
            # Another layout of torch's files: import the package as everybody does.
            sys.modules.pop(f"{PACKAGE}.config", None)
            load(package)


def register(name: str, kind: type[DeferredModule]) -> DeferredModule | None:
    """Make the module `name` known without running it; None where it is known or cannot be found."""
    specification = None if name in sys.modules else importlib.util.find_spec(name)
    if specification is None or specification.loader is None or specification.origin is None:
        return None
    module = kind(name)
    module.__spec__ = specification
    module.__loader__ = specification.loader
    module.__file__ = specification.origin
    module.__package__ = (
        specification.name if specification.submodule_search_locations else specification.parent
    )
    sys.modules[name] = module
    parent, _, own_name = name.rpartition(".")
    sys.modules[parent].__dict__[own_name] = module
    return module


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
