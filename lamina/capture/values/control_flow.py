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
from lamina.capture.values.tensor import TensorValue

Tensors = Sequence[torch.Tensor]


def model_cond(world: Any, pred: Value, true_fn: Value, false_fn: Value, operands: Value = ()) -> Value:
    """`torch.cond(pred, true_fn, false_fn, operands)`."""
    if not is_undecided(pred):
        return world.call(true_fn if world.truth(pred) else false_fn, tuple(operands), {})
    if not all(type(leaf) is TensorValue for leaf in pytree.tree_leaves(operands)):
        refuse("gets an operand that is no tensor")
    around = list_fakes(world)
    operands = tuple(operands)
    branches = [trace_region(world, branch, (), lambda _: (operands, {})) for branch in (true_fn, false_fn)]
    fakes = [check_results(branch, around) for branch in branches]
    check_alike(branches, fakes)
    # Where one branch's result needs a gradient, so does the call's.
    results = tuple(one if one.requires_grad else other for one, other in zip(*fakes, strict=True))
    tensors = record(world, choose, (pred,), branches, (), lambda *_: results)
    return put_back(branches[0], tensors)


def model_while(world: Any, condition: Value, body: Value, carried: Value, operands: Value = ()) -> Value:
    """`torch.while_loop(condition, body, carried)`: `operands` are passed on behind what is carried."""
    carried = tuple(carried)
    if not all(type(each) is TensorValue for each in carried):
        refuse("carries something that is no tensor")
    # The loop starts with tensors of its own: what it gives is none of the program's.
    carried = tuple(world.builder.call_method("clone", (each,), {}) for each in carried)
    around = list_fakes(world)
    loop = []
    for function in (condition, body):
        with world.builder.mode:
            own = [make_like(each.fake) for each in carried]
        region = trace_region(world, function, own, lambda given: ((*given, *operands), {}))
        check_results(region, [*around, *own])
        loop.append(region)
    decision = loop[0].leaves
    if len(decision) != 1 or type(decision[0]) is not TensorValue or decision[0].fake.dim():
        refuse("decides by something that is no scalar tensor")
    if not all(type(leaf) is TensorValue for leaf in loop[1].leaves):
        refuse("gives something that is no tensor")
    results = tuple(leaf.fake for leaf in loop[1].leaves)
    check_fakes(results, [each.fake for each in carried])
    tensors = record(world, repeat, (), loop, (carried,), lambda *_: results)
    return put_back(loop[1], tensors)


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


def check_alike(branches: Sequence[Region], fakes: Sequence[Tensors]) -> None:
    """Both branches give the same but for the values of tensors."""
    first, second = branches
    if first.structure != second.structure:
        refuse("gives other containers than the other branch")
    for one, other in zip(first.leaves, second.leaves, strict=True):
        is_same = type(one) is type(other) and (type(one) is TensorValue or one is other)
        if not is_same:
            refuse("gives another value than the other branch, which is no tensor")
    check_fakes(*fakes)


def check_fakes(left: Tensors, right: Tensors) -> None:
    """Two sets of tensors are alike in type, sizes and strides."""
    if len(left) != len(right) or any(describe(a) != describe(b) for a, b in zip(left, right, strict=True)):
        refuse("gives a tensor of another type, size or layout than is expected of it")


def describe(fake: torch.Tensor) -> Any:
    numbers = (*fake.shape, *fake.stride(), fake.storage_offset())
    return fake.dtype, fake.device, fake.dim(), [expression_of(number) for number in numbers]


def put_back(region: Region, tensors: Sequence[Value]) -> Value:
    """A region's result with the tensors that the node gives."""
    remaining = iter(tensors)
    leaves = [next(remaining) if type(leaf) is TensorValue else leaf for leaf in region.leaves]
    return pytree.tree_unflatten(leaves, region.structure)
