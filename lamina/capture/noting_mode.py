"""The fake mode of a capture: it notes what the operations that run under it do besides computing."""

from __future__ import annotations

from typing import Any

import torch

from lamina.capture.fake import FakeTensor, FakeTensorMode, LightFakeMode, is_undecided
from lamina.capture.packed_sequences import ITEM, SELECT, follow_element
from lamina.eager.known_results import INDEX, READS_VALUES, holds_mask

OWN_NAMESPACES = frozenset({"aten", "prims"})
"""Of torch's operators, whose shape rules say it all."""
NONZERO: Any = torch.ops.aten.nonzero.default
_dispatch: Any = LightFakeMode.__torch_dispatch__


class NotingMode(LightFakeMode):  # type: ignore[no-untyped-call]
    """reads_values: an operation's result has a size, or is a number, that is known only when it runs.

    has_effect: an operation writes to memory or draws random numbers.
    """

    reads_values = False
    has_effect = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tags = getattr(func, "tags", ())
        if tags and any(tag in tags for tag in READS_VALUES) and (func is not INDEX or holds_mask(args[1])):
            self.reads_values = True
        if torch.Tag.nondeterministic_seeded in tags or is_mutable(func):
            self.has_effect = True
        if getattr(func, "namespace", "aten") not in OWN_NAMESPACES:
            return self._run_custom(func, types, args, kwargs or {})
        result = _dispatch(self, func, types, args, kwargs or {})
        if func is SELECT or func is ITEM:
            follow_element(func, result, *args)
        return transpose_rows(self, result) if func is NONZERO else result

    def _run_custom(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """An operator whose shape rule only says what it gives: not what it writes to, not what it reads."""
        versions = written_versions(func, args, kwargs)
        result = _dispatch(self, func, types, args, kwargs)
        for written, version in versions:
            if written._version == version:
                torch.autograd.graph.increment_version(written)
        if self.shape_env is not None and has_unknown_size(result):
            self.reads_values = True
        return result

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The result of an operation; corrections that ask for sizes that nobody knows are left away."""
        try:
            return super().dispatch(func, types, args, kwargs or {})
        except RuntimeError as error:
            if not is_undecided(error):
                raise
            return FakeTensorMode.dispatch(self, func, types, args, kwargs or {})


def is_mutable(func: Any) -> bool:
    schema = getattr(func, "_schema", None)
    return schema is not None and schema.is_mutable


def has_unknown_size(result: Any) -> bool:
    """Whether a size of a result depends on the values of a tensor."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    results = result if isinstance(result, list | tuple) else (result,)
    return any(free_unbacked_symbols(each) for each in results if isinstance(each, FakeTensor))


def written_versions(func: Any, args: Any, kwargs: Any) -> list[tuple[Any, int]]:
    """The tensors that an operator writes to, and their versions before."""
    if not is_mutable(func):
        return []
    found = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            values = value if isinstance(value, list | tuple) else (value,)
            found += [
                (each, each._version)
                for each in values
                if isinstance(each, FakeTensor) and not each.is_inference()
            ]
    return found


def transpose_rows(mode: LightFakeMode, places: Any) -> Any:
    """The result of `nonzero` as it lies in memory: torch writes one dimension's indices after the other."""
    if not isinstance(places, FakeTensor) or places.dim() != 2:
        return places
    count, rank = places.shape
    with mode:
        return torch.empty_strided((count, rank), (1, count), dtype=places.dtype, device=places.device)
