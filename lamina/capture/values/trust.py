"""Which code is library code: assumed not to be patched between calls, and not shown as the user's line."""

from __future__ import annotations

import os
import sys
import sysconfig

TRUSTED = frozenset(sys.stdlib_module_names) | {"torch", "numpy", "builtins", "lamina"}
_known: dict[str, bool] = {}
_library_folders = tuple(
    folder + os.sep
    for folder in {sysconfig.get_paths()["stdlib"], *(os.path.join(path, "torch") for path in sys.path)}
)


def is_trusted_module(name: str | None) -> bool:
    """Whether the functions and classes of module `name` are taken as they are."""
    if name is None:
        return True
    found = _known.get(name)
    if found is None:
        found = _known[name] = name.split(".", 1)[0] in TRUSTED
    return found


def is_library_file(name: str) -> bool:
    """Whether a source file belongs to the standard library or to torch (not to site-packages at large)."""
    if "site-packages" in name:
        return f"site-packages{os.sep}torch{os.sep}" in name
    return name.startswith("<") or name.startswith(_library_folders)
