"""Models of `torch.vmap`: the function becomes a graph of its own, which vmap calls when the graph runs.

    torch.vmap(f, in_dims=(0, None))(x, y)      f is traced on an element of x: map_batch(region_0, (0,), ...)

Below autograd nothing of it is left: the operations on whole batches are compiled like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._functorch import vmap as functorch
from torch.utils import _pytree as pytree

from lamina.capture.control_flow import map_batch
from lamina.capture.machine.signals import Value
from lamina.capture.values.conversions import Arguments, Keywords, Model
from lamina.capture.values.regions import fake_of, record, refuse, trace_region
from lamina.capture.values.tensor import TensorValue

FUNCTORCH: Any = functorch
INDEXING = "torch._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex"
"""A mode under which `x[i]` with a tensor `i` looks up in `x` instead of reading `i`."""
MODE: Any = torch.overrides.TorchFunctionMode


def model_flat_vmap(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """The mapping of a function over arguments that are checked and flat."""
    function, _, in_dims, flat, structure, out_dims, randomness = arguments
    places = [k for k, dimension in enumerate(in_dims) if dimension is not None]
    batched = tuple(flat[k] for k in places)
    dimensions = tuple(in_dims[k] % flat[k].fake.dim() for k in places)
    with world.builder.mode:
        own = [
            make_element(value.fake, dimension) for value, dimension in zip(batched, dimensions, strict=True)
        ]

    def place(parameters: Sequence[Value]) -> tuple[tuple[Value, ...], dict[str, Value]]:
        leaves = list(flat)
        for k, parameter in zip(places, parameters, strict=True):
            leaves[k] = parameter
        return tuple(pytree.tree_unflatten(leaves, structure)), keywords

    region = trace_region(world, function, own, place)
    if not all(type(leaf) is TensorValue for leaf in region.leaves):
        refuse("gives something that is no tensor")
    order = flatten_dimensions(out_dims, region.structure)
    examples = tuple(value.fake for value in batched)
    tensors = record(
        world,
        map_batch,
        (),
        [region],
        (dimensions, order, randomness, batched),
        lambda modules, taken: map_batch(
            modules[0], dimensions, order, randomness, examples, tuple(map(fake_of, taken))
        ),
        [range(len(region.leaves))],
    )
    return pytree.tree_unflatten(tensors, region.structure)


def make_element(fake: torch.Tensor, dimension: int) -> torch.Tensor:
    """A fake of one element of a batch, laid out as it is there."""
    shape, strides = list(fake.shape), list(fake.stride())
    del shape[dimension], strides[dimension]
    made = torch.empty_strided(shape, strides, dtype=fake.dtype, device=fake.device)
    return made.requires_grad_(fake.requires_grad)


def flatten_dimensions(out_dims: Any, structure: Any) -> tuple[int | None, ...]:
    """The batch dimension of each result."""
    if structure.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return out_dims
    found = FUNCTORCH._broadcast_to_and_flatten(out_dims, structure)
    return tuple(found) if found is not None else refuse("gives other containers than out_dims says")


def model_load(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
    """torch loads its decompositions for vmap once."""
    FUNCTORCH.lazy_load_decompositions()


def switch_indexing(method: Any, step: int) -> Model:
    """Entering or leaving a mode: that of indexing by tensors is followed."""

    def model(world: Any, arguments: Arguments, keywords: Keywords) -> Value:
        kind = type(arguments[0])
        if f"{kind.__module__}.{kind.__qualname__}" != INDEXING:
            return world.machine.call_function(method, arguments, keywords)
        world.builder.indexing_modes += step
        return arguments[0] if step > 0 else None

    return model


VMAP_MODELS: dict[Any, Model] = {
    FUNCTORCH._flat_vmap: model_flat_vmap,
    FUNCTORCH.lazy_load_decompositions: model_load,
    MODE.__enter__: switch_indexing(MODE.__enter__, 1),
    MODE.__exit__: switch_indexing(MODE.__exit__, -1),
}
