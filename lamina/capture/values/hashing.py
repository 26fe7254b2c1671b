"""Lookups by hash run a key's `__hash__` and `__eq__` in C code: Python ones would escape the machine."""

from __future__ import annotations

import collections
from typing import Any

from lamina.capture.machine.signals import Value, stop
from lamina.capture.values.attributes import find_in_type, is_native_type, is_python_method
from lamina.capture.values.iteration import walk_entries
from lamina.capture.values.trust import is_trusted_module

MAKERS: frozenset[Any] = frozenset({dict, set, frozenset, collections.OrderedDict, dict.fromkeys})
"""What makes a container by the hashes of the elements of its arguments."""
SEQUENCES = (list, tuple, collections.deque)


def is_hashed_in_python(kind: type) -> bool:
    """Whether a lookup of an object of this class runs code of the user's."""
    if is_native_type(kind):
        return False
    return any(is_users_method(find_in_type(kind, name)) for name in ("__hash__", "__eq__"))


def is_users_method(method: Value) -> bool:
    if not is_python_method(method):
        return False
    names = getattr(method, "__globals__", None)
    return names is None or not is_trusted_module(names.get("__name__"))


def check_key(key: Value, what: str) -> None:
    """Stop where looking `key` up would run Python code in a native lookup."""
    kind = type(key)
    if isinstance(key, (tuple, frozenset)):
        for item in walk_entries(key):
            check_key(item, what)
    elif is_hashed_in_python(kind):
        stop("native-callback", f"{what} would call methods of {kind.__qualname__} from C code")


def check_call(callee: Any, arguments: tuple[Value, ...]) -> None:
    """Stop where a native call would look up, in a dict or set, what is hashed in Python."""
    owner = getattr(callee, "__self__", None)
    makes = owner is None and callee in MAKERS
    if not makes and not isinstance(owner, (dict, set, frozenset)):
        return
    for value in arguments:
        if isinstance(value, SEQUENCES):
            for item in walk_entries(value):
                check_key(item, callee.__name__)
        elif not isinstance(value, (dict, set, frozenset)):
            check_key(value, callee.__name__)
