"""Library calls whose result is a list, or a tuple with None in it."""

from __future__ import annotations

import pytest
import torch

import lamina

aten = torch.ops.aten
ONE = torch.arange(98.0).reshape(1, 2, 7, 7)


@pytest.mark.parametrize("mask", [(1, 1, 1), (1, 0, 0), (0, 1, 0), (0, 1, 1), (1, 0, 1)])
def test_gradients_that_are_not_asked_for_are_none(mask: tuple[int, ...]) -> None:
    wanted = [bool(each) for each in mask]

    def backward(grad, x, weight):
        return aten.convolution_backward(
            grad, x, weight, [2], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, wanted
        )

    arguments = torch.ones(1, 2, 5, 5), ONE, torch.ones(2, 2, 3, 3)
    expected = backward(*arguments)
    actual = lamina.compile(backward, fullgraph=True)(*arguments)
    assert len(actual) == 3
    for one, other in zip(actual, expected, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


def test_a_list_of_one_tensor() -> None:
    def program(x):
        (taken,) = torch._foreach_sqrt([x + 1])
        return taken * 2

    torch.testing.assert_close(lamina.compile(program, fullgraph=True)(ONE), program(ONE))
