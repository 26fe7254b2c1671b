"""Whether a compiled call did what eager does: results, dtypes, strides, aliasing, mutations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

# What two right programs may differ by, relative to each element and absolute; other dtypes must be equal.
TOLERANCES = {
    torch.float64: (1e-9, 1e-10),
    torch.float32: (1.3e-5, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-3),
    torch.float16: (2e-3, 1e-3),
    torch.complex64: (1.3e-5, 1e-5),
    torch.complex128: (1e-9, 1e-10),
}
HIGHER = {torch.float32: torch.float64, torch.bfloat16: torch.float32, torch.float16: torch.float32}


def flatten(value: Any) -> Iterator[Any]:
    """The leaves of nested tuples, lists and dicts, in order."""
    if isinstance(value, dict):
        for item in value.values():
            yield from flatten(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from flatten(item)
    else:
        yield value


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors among the leaves."""
    return [leaf for leaf in flatten(value) if isinstance(leaf, torch.Tensor)]


def copy_arguments(value: Any) -> Any:
    """The same arguments in new memory; a tensor that appears twice stays one, strides are kept."""
    return _copy(value, {})


def _copy(value: Any, copied: dict[int, Any]) -> Any:
    if isinstance(value, torch.Tensor):
        if id(value) not in copied:
            copied[id(value)] = _copy_tensor(value)
        return copied[id(value)]
    if isinstance(value, dict):
        return {key: _copy(item, copied) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_copy(item, copied) for item in value]
        # A named tuple takes its fields one by one.
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _copy_tensor(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.is_quantized:
        return tensor.clone()
    storage = tensor.untyped_storage().clone()
    fresh = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    fresh.set_(storage, tensor.storage_offset(), tensor.shape, tensor.stride())
    if tensor.is_conj():
        fresh = fresh.conj()
    return torch._neg_view(fresh) if tensor.is_neg() else fresh


def describe_aliases(result: Any, arguments: Any) -> list[str]:
    """For each result tensor: the first argument or earlier result that it shares memory with."""
    owners: dict[int, str] = {}
    for number, tensor in enumerate(tensors_in(arguments)):
        owners.setdefault(_storage_of(tensor), f"argument {number}")
    pattern = []
    for number, tensor in enumerate(tensors_in(result)):
        pattern.append(owners.setdefault(_storage_of(tensor), f"result {number}"))
    return pattern


def _storage_of(tensor: torch.Tensor) -> int:
    # An empty tensor has no memory to share; a sparse one keeps it elsewhere.
    if tensor.layout != torch.strided or tensor.numel() == 0:
        return -id(tensor)
    return tensor.untyped_storage()._cdata


def find_difference(
    expected: Any, actual: Any, arguments: tuple[Any, Any], *, only_metadata: bool = False, exact: Any = None
) -> str:
    """How a compiled call differs from eager's, "" where it does not.

    arguments: eager's and the compiled call's, after the calls; exact: results in a higher precision, which
    decide where two results are further apart than the tolerance: the compiled one may be twice as far off
    as eager's.
    """
    leaves = list(flatten(expected)), list(flatten(actual))
    if len(leaves[0]) != len(leaves[1]) or _shape_of(expected) != _shape_of(actual):
        return f"structure {_shape_of(actual)}, not {_shape_of(expected)}"
    references = list(flatten(exact)) if exact is not None else []
    references += [None] * (len(leaves[0]) - len(references))
    for number, (one, other, reference) in enumerate(zip(*leaves, references, strict=True)):
        difference = compare_leaf(one, other, reference, only_metadata)
        if difference:
            return f"result {number}: {difference}"
    mutations = zip(tensors_in(arguments[0]), tensors_in(arguments[1]), strict=True)
    for number, (one, other) in enumerate(mutations):
        difference = compare_leaf(one, other, None, only_metadata)
        if difference:
            return f"argument {number} after the call: {difference}"
    aliases = describe_aliases(expected, arguments[0]), describe_aliases(actual, arguments[1])
    if aliases[0] != aliases[1]:
        return f"aliases {aliases[1]}, not {aliases[0]}"
    return ""


def _shape_of(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shape_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [_shape_of(item) for item in value]
    return "tensor" if isinstance(value, torch.Tensor) else type(value).__name__


def compare_leaf(expected: Any, actual: Any, exact: Any, only_metadata: bool) -> str:
    """How two leaves differ, "" where they do not."""
    if not isinstance(expected, torch.Tensor):
        is_same = only_metadata or expected == actual or (expected != expected and actual != actual)
        return "" if is_same else f"{actual!r}, not {expected!r}"
    for name in ("dtype", "shape", "layout", "device", "requires_grad"):
        if getattr(expected, name) != getattr(actual, name):
            return f"{name} {getattr(actual, name)}, not {getattr(expected, name)}"
    if expected.layout != torch.strided:
        return compare_leaf(expected.to_dense(), actual.to_dense(), None, only_metadata)
    if expected.stride() != actual.stride():
        return f"strides {actual.stride()}, not {expected.stride()} (shape {tuple(expected.shape)})"
    if only_metadata or is_close(expected, actual) or is_as_good(expected, actual, exact):
        return ""
    return "values: " + describe_distance(expected, actual)


def is_close(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    """Within the tolerance of the dtype, nan equal to nan; exactly equal for the other dtypes."""
    if expected.dtype == torch.complex32:  # few operators take it, no comparison does
        return is_close(torch.view_as_real(expected), torch.view_as_real(actual))
    if expected.dtype not in TOLERANCES:
        if expected.dtype.is_floating_point:  # the 8-bit ones, which compare nothing themselves
            return bool(torch.equal(expected.view(torch.uint8), actual.view(torch.uint8)))
        return bool(torch.equal(expected, actual))
    relative, absolute = TOLERANCES[expected.dtype]
    return bool(torch.allclose(actual, expected, rtol=relative, atol=absolute, equal_nan=True))


def is_as_good(expected: torch.Tensor, actual: torch.Tensor, exact: Any) -> bool:
    """Whether the compiled result is at most twice as far from the exact one as eager's is, plus one
    rounding.
    """
    if not isinstance(exact, torch.Tensor) or expected.dtype not in HIGHER or exact.shape != expected.shape:
        return False
    if expected.numel() == 0 or exact.dtype not in HIGHER.values():
        return False
    wide = HIGHER[expected.dtype]
    one, other, truth = expected.to(wide), actual.to(wide), exact.to(wide)
    if bool((one.isnan() != other.isnan()).any() | (one.isinf() != other.isinf()).any()):
        return False
    rounding = torch.finfo(expected.dtype).eps * truth.abs().nan_to_num()
    own, theirs = (other - truth).abs(), (one - truth).abs()
    allowed = 2 * theirs.nan_to_num().max() + rounding
    return bool((own.nan_to_num() <= allowed).all())


def describe_distance(expected: torch.Tensor, actual: torch.Tensor) -> str:
    """How many elements differ, and an example."""
    different = ~torch.isclose(expected, actual, rtol=0, atol=0, equal_nan=True).reshape(-1)
    where = int(different.nonzero()[0])
    example = f"{actual.reshape(-1)[where].item()!r}, not {expected.reshape(-1)[where].item()!r}"
    return f"{int(different.sum())} of {expected.numel()} differ, at {where}: {example}"


def widen(value: Any) -> Any:
    """Arguments in a higher precision, as far as their dtype has one."""
    if isinstance(value, torch.Tensor):
        return value.to(HIGHER[value.dtype]) if value.dtype in HIGHER else value
    if isinstance(value, torch.dtype):
        return HIGHER.get(value, value)
    if isinstance(value, dict):
        return {key: widen(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(widen(item) for item in value)
    return value
