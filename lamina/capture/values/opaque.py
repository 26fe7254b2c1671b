"""Objects from outside that a trace may hold and hand on, but not look into: iterators, files, generators.

Any use stops the trace there, which costs a break; passing them through costs nothing. But iterators whose
state is known are walked (`walks.py`).
"""

from __future__ import annotations

from typing import Any, NoReturn

from lamina.capture.machine.signals import stop
from lamina.capture.sources import Source
from lamina.capture.values.walks import Walk, Walks


class OpaqueValue:
    """Stands for `original`, found at `source`."""

    __slots__ = ("original", "source", "walk", "walks")
    __machine_native__ = True

    def __init__(self, original: Any, source: Source, walks: Walks) -> None:
        self.original = original
        self.source = source
        self.walks = walks
        self.walk: Walk | None = None

    def __iter__(self) -> Any:
        # A native iterator is its own, which tells nothing about it.
        return self if hasattr(type(self.original), "__next__") else self.refuse()

    def __next__(self) -> Any:
        if self.walk is None:
            self.walk = self.walks.start(self.original, self.source)
        return self.refuse() if self.walk is None else next(self.walk)

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Any use of the object."""
        self.end_capture()

    def end_capture(self) -> NoReturn:
        kind = type(self.original).__qualname__
        if hasattr(type(self.original), "__next__"):
            stop(
                "iterator-argument",
                f"an iterator ({kind}) from outside is advanced",
                "iterate over a list or a tuple",
            )
        stop("outside", f"an object of class {kind} from outside is used", "use it outside compiled code")

    __call__ = __bool__ = __len__ = __contains__ = refuse
    __getitem__ = __setitem__ = __delitem__ = __enter__ = __exit__ = refuse
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = refuse
    __int__ = __float__ = __complex__ = __index__ = __repr__ = __str__ = __format__ = refuse
    __neg__ = __pos__ = __invert__ = __abs__ = __reversed__ = refuse

    def __getattr__(self, name: str) -> NoReturn:
        self.refuse()


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"):
    for _prefix in ("", "r", "i"):
        setattr(OpaqueValue, f"__{_prefix}{_name}__", OpaqueValue.refuse)
