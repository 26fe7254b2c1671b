"""Passes on weights and library calls, against torch: the same results, the calls that were wanted."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from lamina.ir.core import Operation, lookup
from lamina.ir.passes import Context
from lamina.ir.verify import verify
from lamina.options import Options
from lamina.passes.tensor import PASSES
from tests.passes.tensor.programs import AVX512, import_module, library_calls, run_module

Build = Callable[[], nn.Module]


def prepare(
    model: nn.Module, inputs: Sequence[torch.Tensor], **changes: Any
) -> tuple[Operation, list[Any], Context]:
    """The module after all passes, the arrays for its arguments, and the context with its remarks."""
    torch.manual_seed(0)
    module, arrays = import_module(model.eval(), inputs)
    context = Context(target=AVX512, options=Options(**changes))
    for each in PASSES:
        each.run(module, context)
        verify(module, "tensor")
    return module, arrays, context


def check(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Operation:
    """Results as near to float64 as eager's; gives the module."""
    module, arrays, _ = prepare(model, inputs)
    (result,) = run_module(module, arrays)
    with torch.no_grad():
        eager = model(*inputs).double().numpy()
        exact = model.double()(
            *[each.double() if each.is_floating_point() else each for each in inputs]
        ).numpy()
    scale = np.abs(exact).max() * 2.0**-23
    assert np.abs(result - exact).max() <= 2 * np.abs(eager - exact).max() + scale
    return module


def with_statistics(model: nn.Module) -> nn.Module:
    """Batch norms that do something."""
    for norm in model.modules():
        if isinstance(norm, nn.BatchNorm2d):
            norm.running_mean.uniform_(-1, 1)  # type: ignore[union-attr]
            norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
            nn.init.uniform_(norm.weight, 0.5, 2)
            nn.init.uniform_(norm.bias, -1, 1)
    return model


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.second, self.second_norm = nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8)
        self.shortcut = nn.Conv2d(8, 8, 1, stride=2, groups=4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.relu(self.first_norm(self.first(x)))
        return F.relu(self.second_norm(self.second(hidden)) + self.shortcut(hidden)).mean((2, 3))


def test_batch_norm_is_folded_and_images_lie_channels_last() -> None:
    module = check(with_statistics(Residual()), [torch.randn(2, 3, 12, 12)])
    calls = library_calls(module)
    assert calls == ["mkldnn._convolution_pointwise.default"] * 3
    shapes = {str(each.result.type) for each in lookup(module, "main").body if each.name == "arith.select"}
    assert shapes == {"tensor<2x12x12x8xf32>", "tensor<2x6x6x8xf32>"}
    names = [operation.name for operation in lookup(module, "main").body]
    assert "math.rsqrt" not in names and "arith.mulf" not in names[:-3], (
        "the norm's factors are in the weights"
    )
    packings = library_calls(module, "prepare")
    assert packings.count("mkldnn._reorder_convolution_weight.default") == 3


@pytest.mark.parametrize("rows", [2, 17])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_packed(rows: int, bias: bool) -> None:
    module = check(nn.Linear(24, 40, bias=bias), [torch.randn(3, rows, 24)])
    assert library_calls(module) == ["mkl._mkl_linear.default"]


def test_the_largest_weight_is_packed_first() -> None:
    """What it leaves behind has room for what the smaller ones need on their way."""
    module, _, _ = prepare(
        nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 64), nn.Linear(64, 4)), [torch.randn(6, 8)]
    )
    packings = [each for each in lookup(module, "prepare").body if "reorder" in each.name]
    counts = [math.prod(each.operand().type.sizes) for each in packings]
    assert counts == [1024, 256, 128]


def test_one_row_stays() -> None:
    module, _, context = prepare(nn.Linear(24, 40), [torch.randn(1, 24)])
    assert library_calls(module) == ["aten.linear.default"]
    assert context.remarks.query("pack_linear", "refused", text="one row")


class Transposed(nn.Module):
    """A linear layer with its weight in x out, as GPT-2 has."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(24, 40)), nn.Parameter(torch.randn(40))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x, self.weight) + torch.mm(x, self.weight)


def test_products_of_transposed_weights_are_packed() -> None:
    module = check(Transposed(), [torch.randn(6, 24)])
    assert library_calls(module) == ["mkl._mkl_linear.default"] * 2
    packings = library_calls(module, "prepare")
    assert packings.count("mkl._mkl_reorder_linear_weight.default") == 1, "one packed copy serves both"


class Scaled(nn.Module):
    """Layer scale behind a linear layer, and a scalar factor."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(8, 6), nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) * self.scale * 0.125


def test_layer_scale_is_folded() -> None:
    module = check(Scaled(), [torch.randn(5, 8)])
    assert [operation.name for operation in lookup(module, "main").body] == [
        "mkl._mkl_linear.default",
        "func.return",
    ]


class Shared(nn.Module):
    """The layer's result is used twice: its scale is not the layer's."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.scale = nn.Linear(8, 6), nn.Parameter(torch.rand(6) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.layer(x)
        return hidden * self.scale + hidden


def test_a_result_used_twice_is_not_scaled() -> None:
    names = [operation.name for operation in lookup(check(Shared(), [torch.randn(5, 8)]), "main").body]
    assert "arith.mulf" in names


class Pools(nn.Module):
    """Pooling, concatenation, padding, slices, a gate from the whole image."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(4, 6, 1)
        self.gate, self.last = nn.Conv2d(12, 12, 1), nn.Conv2d(12, 4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.cat([F.max_pool2d(self.left(x), 2), F.avg_pool2d(self.right(x), 2)], 1)
        hidden = hidden * torch.sigmoid(self.gate(hidden.mean((2, 3), keepdim=True)))
        return self.last(F.pad(hidden, (1, 1, 1, 1)))[:, :, 1:] * 3.0


def test_what_lies_between_convolutions_is_channels_last() -> None:
    module = check(Pools(), [torch.randn(2, 4, 12, 12)])
    concat = next(each for each in lookup(module, "main").body if each.name == "tensor.concat")
    assert str(concat.result.type) == "tensor<2x6x6x12xf32>"


def test_images_between_group_norms_stay_row_major() -> None:
    layers = [
        each for _ in range(3) for each in (nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU())
    ]
    assert (
        library_calls(check(nn.Sequential(*layers), [torch.randn(2, 8, 6, 6)]))
        == ["aten.convolution.default"] * 3
    )


def test_one_group_norm_reads_channels_last_images() -> None:
    layers = [nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Flatten()]
    module = check(nn.Sequential(*layers), [torch.randn(2, 8, 6, 6)])
    assert library_calls(module) == ["mkldnn._convolution_pointwise.default"]
    assert "tensor<2x6x6x2x4xf32>" in {
        str(each.result.type) for each in lookup(module, "main").body if each.results
    }


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(32, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        distance = torch.arange(5)[:, None] - torch.arange(5)[None, :]
        return x + self.table(distance.clamp(0, 31))


def test_work_on_weights_alone_runs_once() -> None:
    module = check(Positions(), [torch.randn(5, 5, 8)])
    assert [operation.name for operation in lookup(module, "main").body] == ["arith.addf", "func.return"]


def test_without_folding_nothing_is_prepared() -> None:
    module, _, _ = prepare(nn.Linear(24, 40), [torch.randn(4, 24)], fold_weights=False)
    with pytest.raises(KeyError):
        lookup(module, "prepare")
    assert library_calls(module) == ["aten.linear.default"]


def test_a_weight_that_is_an_input_is_not_packed() -> None:
    class Product(nn.Module):
        def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            return F.linear(x, weight)

    module, _, _ = prepare(Product(), [torch.randn(4, 8), torch.randn(6, 8)])
    assert library_calls(module) == ["aten.linear.default"]


def test_mutated_buffers_are_not_weights() -> None:
    module, _, _ = prepare(nn.Linear(8, 6), [torch.randn(4, 8)])
    main = lookup(module, "main")
    assert "lamina.prepare_arguments" in main.attributes


class Attention(nn.Module):
    """Three products of one input; the third has no bias."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = nn.Linear(8, 6), nn.Linear(8, 10), nn.Linear(8, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query = self.query(x)
        return torch.cat([query.tanh(), self.key(x).exp(), self.value(x)], -1)


def test_products_of_one_input_are_joined() -> None:
    module = check(Attention(), [torch.randn(3, 5, 8)])
    assert library_calls(module) == ["mkl._mkl_linear.default"] * 2
    slices = [each for each in lookup(module, "main").body if each.name == "tensor.extract_slice"]
    assert [str(each.result.type) for each in slices] == ["tensor<3x5x6xf32>", "tensor<3x5x10xf32>"]


class Bottleneck(nn.Module):
    """Two products of one input, one of which is the input of two more."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow, self.value = nn.Linear(8, 6), nn.Linear(8, 10)
        self.query, self.key = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        narrow = self.narrow(x)
        return torch.cat([self.query(narrow).tanh(), self.key(narrow).exp(), self.value(x)], -1)


def test_products_of_a_joined_product_are_joined() -> None:
    module = check(Bottleneck(), [torch.randn(3, 5, 8)])
    assert library_calls(module) == ["mkl._mkl_linear.default"] * 2
