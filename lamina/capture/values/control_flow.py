"""Models of `torch.cond` and `torch.while_loop` where the decision is a tensor's: nodes over regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lamina.capture.control_flow import choose, repeat
from lamina.capture.fake import make_unknown_size
from lamina.capture.machine.signals import Value
from lamina.capture.packed_sequences import make_result
from lamina.capture.reads import expression_of
from lamina.capture.values import sizes
from lamina.capture.values.regions import Region, check_results, record, refuse, trace_region
from lamina.capture.values.sizes import NumberValue
from lamina.capture.values.tensor import TensorValue

Fakes = Sequence[torch.Tensor | None]


def model_cond(world: Any, pred: Value, true_fn: Value, false_fn: Value, operands: Value = ()) -> Value:
    """`torch.cond(pred, true_fn, false_fn, operands)`."""
    if not is_undecided(pred):
        return world.call(true_fn if world.truth(pred) else false_fn, tuple(operands), {})
    if not all(type(leaf) is TensorValue for leaf in pytree.tree_leaves(operands)):
        refuse("gets an operand that is no tensor")
    around = list_fakes(world)
    operands = tuple(operands)
    branches = [trace_region(world, branch, (), lambda _: (operands, {})) for branch in (true_fn, false_fn)]
    if branches[0].structure != branches[1].structure:
        refuse("gives other containers than the other branch")
    given = list_varying(*(branch.leaves for branch in branches))
    pairs = list(zip(*(check_results(branch, around, given) for branch in branches), strict=True))
    builder = world.builder
    if not all(describe(one) == describe(other) for one, other in pairs):
        builder.symbols.prepare()
    found = record(
        world,
        choose,
        (pred,),
        branches,
        (),
        lambda *_: tuple(join(builder.mode, one, other) for one, other in pairs),
        [given, given],
    )
    return put_back(branches[0], given, found)


def join(mode: Any, one: torch.Tensor | None, other: torch.Tensor | None) -> torch.Tensor | None:
    """What is known of a result of either branch: a size that differs is one that nobody knows."""
    if one is None or other is None or describe(one) == describe(other):
        # Where one branch's result needs a gradient, so does the call's.
        return one if one is None or other is None or one.requires_grad else other
    kinds = [(fake.dtype, fake.device, fake.dim(), is_plain(fake)) for fake in (one, other)]
    if kinds[0] != kinds[1] or not is_plain(one):
        refuse("gives a tensor of another type, rank or layout than the other branch")
    sizes = tuple(
        a if expression_of(a) == expression_of(b) else make_unknown_size(mode.shape_env)
        for a, b in zip(one.shape, other.shape, strict=True)
    )
    return make_result(sizes, one, (one, other))


def is_plain(fake: torch.Tensor) -> bool:
    """Whether a tensor lies in row-major order from the start of its memory."""
    return fake.is_contiguous() and fake.storage_offset() == 0


def model_while(world: Any, condition: Value, body: Value, carried: Value, operands: Value = ()) -> Value:
    """`torch.while_loop(condition, body, carried)`: `operands` are passed on behind what is carried."""
    if not all(type(each) is TensorValue or is_int(each) for each in carried):
        refuse("carries something that is neither a tensor nor an int")
    # The loop starts with tensors of its own: what it gives is none of the program's.
    carried = tuple(
        world.builder.call_method("clone", (each,), {}) if type(each) is TensorValue else each
        for each in carried
    )
    around = list_fakes(world)
    loop, results = [], []
    for function in (condition, body):
        with world.builder.mode:
            own = [make_like(each.fake) if type(each) is TensorValue else None for each in carried]
        region = trace_region(world, function, own, lambda given: ((*given, *operands), {}))
        results.append(check_results(region, [*around, *(fake for fake in own if fake is not None)]))
        loop.append(region)
    if not decides(loop[0].leaves):
        refuse("decides by something that is neither a scalar tensor nor known only to the graph")
    check_alike(results[1], [each.fake if type(each) is TensorValue else None for each in carried])
    if not all(type(leaf) is TensorValue or is_int(leaf) for leaf in loop[1].leaves):
        refuse("gives something that is neither a tensor nor an int")
    given = range(len(carried))
    found = record(world, repeat, (), loop, (carried,), lambda *_: tuple(results[1]), [[0], given])
    return put_back(loop[1], given, found)


def decides(leaves: Sequence[Value]) -> bool:
    """Whether what a condition gives is what the running graph goes on by."""
    if len(leaves) != 1:
        return False
    (leaf,) = leaves
    return leaf.fake.dim() == 0 if type(leaf) is TensorValue else sizes.is_unknown(leaf)


def is_undecided(condition: Value) -> bool:
    """Whether only the running graph knows if a condition is true."""
    return (type(condition) is TensorValue and condition.fake.numel() == 1) or sizes.is_unknown(condition)


def list_fakes(world: Any) -> list[torch.Tensor]:
    """All tensors that there are."""
    return [value.fake for value in world.builder.list_values() if type(value) is TensorValue]


def make_like(fake: torch.Tensor) -> torch.Tensor:
    """A fake of the same layout with memory of its own."""
    made = torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device=fake.device)
    return made.requires_grad_(fake.requires_grad)


def list_varying(left: Sequence[Value], right: Sequence[Value]) -> list[int]:
    """The places of what the running graph decides on; elsewhere both branches give the same object."""
    varying = []
    for k, (one, other) in enumerate(zip(left, right, strict=True)):
        if one is other:
            continue
        if not (type(one) is type(other) is TensorValue or (is_int(one) and is_int(other))):
            refuse("gives another value than the other branch, which is neither a tensor nor an int")
        varying.append(k)
    return varying


def check_alike(left: Fakes, right: Fakes) -> None:
    """Two sets of tensors are alike in type, sizes and strides, and ints are at the same places."""
    if len(left) != len(right) or any(describe(a) != describe(b) for a, b in zip(left, right, strict=True)):
        refuse("gives a tensor of another type, size or layout than is expected of it")


def is_int(value: Value) -> bool:
    """Whether a value of the program is an int, be it known or not."""
    return type(value) is int or (type(value) is NumberValue and value.kind is int)


def describe(fake: torch.Tensor | None) -> Any:
    """What two tensors must have in common; None for what is no tensor."""
    if fake is None:
        return None
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    return fake.dtype, fake.device, fake.dim(), [expression_of(number) for number in numbers]


def put_back(region: Region, places: Sequence[int], found: Sequence[Value]) -> Value:
    """A region's result with what the node gives at these places."""
    leaves = list(region.leaves)
    for k, value in zip(places, found, strict=True):
        leaves[k] = value
    return pytree.tree_unflatten(leaves, region.structure)
