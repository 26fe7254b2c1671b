"""Outputs that are views of other tensors with another dtype: the same memory, strides and offset as in eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import lamina


def complex_parts(x: torch.Tensor) -> Any:
    spectrum = torch.fft.fft(x)
    return spectrum.real, spectrum.imag[1:], spectrum


def bits_of_a_result(x: torch.Tensor) -> Any:
    y = x + 1
    return y.view(torch.int32)[2:], y.t().view(torch.int32), y


def wider_than_the_result(x: torch.Tensor) -> Any:
    y = x * 2
    return y.view(torch.float64), y


def bytes_of_an_input(x: torch.Tensor) -> Any:
    return x.view(torch.uint8)[:, 3:9], x


PROGRAMS = [complex_parts, bits_of_a_result, wider_than_the_result, bytes_of_an_input]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
@torch.no_grad()
def test_views_of_another_dtype(program: Callable[..., Any]) -> None:
    compiled = lamina.compile(program)
    for x in (torch.rand(4, 6), torch.rand(5, 8), torch.rand(7, 8)[2:6]):
        expected, got = program(x), compiled(x)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other)
            assert one.stride() == other.stride()
            assert one.untyped_storage().data_ptr() == got[-1].untyped_storage().data_ptr()
            assert one.storage_offset() == other.storage_offset()
    assert not any(graph.eager_reason for graph in lamina.explain(compiled, x).graphs)
