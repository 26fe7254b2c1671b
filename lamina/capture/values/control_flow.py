"""Models of `torch.cond` and `torch.while_loop` where the decision is a tensor's: nodes over regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from lamina.capture.control_flow import choose, repeat
from lamina.capture.machine.signals import Value
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
    first, second = (check_results(branch, around) for branch in branches)
    if branches[0].structure != branches[1].structure:
        refuse("gives other containers than the other branch")
    # Where one branch's result needs a gradient, so does the call's.
    results = tuple(
        one if one is None or one.requires_grad else other for one, other in zip(first, second, strict=True)
    )
    check_alike(first, second)
    given = list_varying(*(branch.leaves for branch in branches))
    found = record(
        world,
        choose,
        (pred,),
        branches,
        (),
        lambda *_: tuple(results[k] for k in given),
        [given, given],
    )
    return put_back(branches[0], given, found)


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
        if type(one) is type(other) is TensorValue or (is_int(one) and is_int(other) and one is not other):
            varying.append(k)
        elif one is not other:
            refuse("gives another value than the other branch, which is neither a tensor nor an int")
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
