"""Operators that are not torch's own, as plain library calls that see what they see in eager.

    lib::scale(Tensor(a!) x, float by) -> (Tensor, int)
 => lamina_flat::lib_scale_0(SymInt[] strides, Tensor x, float by) -> Tensor[]

The flat form gives the tensors among the results, then the new value of all that is written to. It runs the
operator on tensors laid out in memory as in eager, and on copies of what it writes to. To all that comes
after it is an operator like any other.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lamina.errors import Unsupported

Tensor = torch.Tensor
OWN_NAMESPACES = frozenset({"aten", "prims", "prim", "mkldnn", "mkl", "quantized"})
NAMESPACE = "lamina_flat"
LIBRARY_CLASS: Any = torch.library.Library
_libraries: list[Any] = []
"""Keeps what is declared."""


def has_flat_form(func: Any) -> bool:
    """Whether an operator is somebody else's than torch's, and gives no views of what it only reads."""
    aliases = [each.alias_info for each in func._schema.returns]
    is_foreign = func._schema.name.partition("::")[0] not in OWN_NAMESPACES
    return is_foreign and all(alias is None or alias.is_write for alias in aliases)


@functools.cache
def flat_form(func: Any) -> Callable[..., list[Tensor]]:
    """The operator that computes what `func` does and writes to nothing.

    It takes the strides of all tensors among the arguments, one after the other, and then all arguments.
    """
    schema = func._schema
    by_name = [each.name for each in schema.arguments if each.kwarg_only]
    count = len(schema.arguments) - len(by_name)
    written = [position for position, each in enumerate(schema.arguments) if is_written(each)]

    def run(strides: Sequence[int], *args: Any) -> list[Tensor]:
        remaining = iter(strides)
        values = [lay_out(value, remaining, position in written) for position, value in enumerate(args)]
        results = func(*values[:count], **dict(zip(by_name, values[count:], strict=True)))
        return [*fresh_results(func, results), *leaves_of([values[position] for position in written])]

    library: Any = LIBRARY_CLASS(NAMESPACE, "FRAGMENT")
    name = f"{schema.name.replace('::', '_')}_{len(_libraries)}"
    _libraries.append(library)
    tags = tuple(tag for tag in func.tags if tag is torch.Tag.nondeterministic_seeded)
    library.define(
        f"{name}({', '.join(['SymInt[] strides', *declare_arguments(schema)])}) -> Tensor[]", tags=tags
    )
    library.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{NAMESPACE}::{name}", run, lib=library)
    made: Callable[..., list[Tensor]] = getattr(getattr(torch.ops, NAMESPACE), name).default
    return made


def declare_arguments(schema: Any) -> list[str]:
    """Each argument's declaration, without its default and without what the operator does to it."""
    text = str(schema)
    inside = text[text.index("(") + 1 : text.rindex(") -> ")]
    parts = re.findall(r"""(?:"(?:\\.|[^"])*"|'(?:\\.|[^'])*'|\([^()]*\)|\[[^\]]*\]|[^,])+""", inside)
    declared = [re.sub(r"=.*$", "", each.strip(), flags=re.DOTALL) for each in parts]
    return [re.sub(r"(?<=Tensor)\([^)]*\)", "", each) for each in declared if each != "*"]


def is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def list_strides(arguments: Any) -> list[int]:
    """The strides of all tensors among the arguments."""
    return [step for each in leaves_of(arguments) for step in each.stride()]


def lay_out(value: Any, strides: Any, is_copied: bool) -> Any:
    """An argument with its tensors at the next of `strides`; is_copied: in memory of their own."""
    if isinstance(value, list | tuple):
        return [lay_out(each, strides, is_copied) for each in value]
    if not isinstance(value, Tensor):
        return value
    wanted = [next(strides) for _ in range(value.dim())]
    if not is_copied and list(value.stride()) == wanted:
        return value
    # Dimensions that repeat an element are one place in memory.
    whole = torch.empty_strided(value.shape, wanted, dtype=value.dtype, device=value.device)
    target, source = whole, value
    for dimension, step in enumerate(wanted):
        if step == 0 and value.shape[dimension] > 1:
            target, source = target.narrow(dimension, 0, 1), source.narrow(dimension, 0, 1)
    target.copy_(source)
    return whole


def leaves_of(value: Any) -> list[Tensor]:
    return [each for each in pytree.tree_leaves(value) if isinstance(each, Tensor)]


def pair_results(func: Any, results: Any) -> list[tuple[Any, Any]]:
    """What is declared of each result, and the result."""
    returned = func._schema.returns
    values = results if len(returned) > 1 else (results,) if returned else ()
    return list(zip(returned, values, strict=True))


def fresh_results(func: Any, results: Any) -> list[Tensor]:
    """The tensors among the results that are not arguments given back."""
    pairs = pair_results(func, results)
    return leaves_of([value for declared, value in pairs if declared.alias_info is None])


def place_results(func: Any, results: Any, fresh: Sequence[Tensor], arguments: dict[str, Any]) -> Any:
    """`results` with the tensors of `fresh` in their places, and the arguments that are given back."""
    remaining = iter(fresh)
    placed = []
    for declared, value in pair_results(func, results):
        if declared.alias_info is None:
            placed.append(pytree.tree_map_only(Tensor, lambda _: next(remaining), value))
            continue
        given = [
            arguments[each.name]
            for each in func._schema.arguments
            if is_written(each) and each.alias_info.before_set == declared.alias_info.before_set
        ]
        if len(given) != 1 or not isinstance(given[0], Tensor):
            raise Unsupported("unknown-alias", f"{func} gives a view of an argument")
        placed.append(given[0])
    return tuple(placed) if len(placed) > 1 else placed[0] if placed else None
