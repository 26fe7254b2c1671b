"""Which composite ops a traced graph keeps whole, and how the others come apart.

The dispatcher shows the tracer every op before torch's own composite kernels run. An op stays one node when
the importer lowers it itself (norms, softmax, losses) or when a library does it best whole (linear,
attention, recurrent nets); all other composites are taken apart by torch, so that aliasing, copies and the
order of random numbers are eager's by construction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from lamina.eager.results import layout_of
from lamina.eager.strides import is_dense
from lamina.errors import Unsupported

Tensor = torch.Tensor
aten = torch.ops.aten

KEPT_NAMES = (
    # library ops
    "linear",
    "bilinear",
    "scaled_dot_product_attention",
    "embedding_bag.padding_idx",
    "lstm.input",
    "gru.input",
    "rnn_tanh.input",
    "rnn_relu.input",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "upsample_nearest1d.vec",
    "upsample_nearest2d.vec",
    "upsample_nearest3d.vec",
    "upsample_linear1d.vec",
    "upsample_bilinear2d.vec",
    "upsample_bicubic2d.vec",
    "upsample_trilinear3d.vec",
    "_upsample_nearest_exact1d.vec",
    "_upsample_nearest_exact2d.vec",
    "_upsample_nearest_exact3d.vec",
    "_upsample_bilinear2d_aa.vec",
    "_upsample_bicubic2d_aa.vec",
    "pixel_shuffle",
    "pixel_unshuffle",
    # lowered by the importer
    "layer_norm",
    "group_norm",
    "batch_norm",
    "rms_norm",
    "softmax.int",
    "log_softmax.int",
    "cross_entropy_loss",
    "log_sigmoid",
    "where.Scalar",
    "where.ScalarSelf",
    "where.ScalarOther",
    "std.dim",
    "std.correction",
    "std",
    "var.dim",
    "var",
)


def _overload(name: str) -> Any:
    packet, _, overload = name.partition(".")
    return getattr(getattr(aten, packet), overload or "default")


KEPT = frozenset(_overload(name) for name in KEPT_NAMES)
"""Composite ops that stay one node of the graph."""


def _reshape(tensor: Tensor, shape: list[int]) -> Any:
    return aten.view.default(tensor, shape) if tensor.is_contiguous() else NotImplemented


def _contiguous(tensor: Tensor, *, memory_format: torch.memory_format = torch.contiguous_format) -> Any:
    if tensor.is_contiguous(memory_format=memory_format):
        return tensor
    return aten.clone.default(tensor, memory_format=memory_format)


def _dropout(tensor: Tensor, probability: float, train: bool) -> Any:
    # Outside training eager hands back the very tensor it got: writing the result writes the input.
    return NotImplemented if train else tensor


def _plain_dropout(tensor: Tensor, probability: float, train: bool) -> Any:
    if train and probability == 1:
        # torch's rule in Python divides here, which integers refuse.
        return aten.mul.Tensor(tensor, aten.zeros.default([], dtype=tensor.dtype, device=tensor.device))
    return _dropout(tensor, probability, train)


def _channel_shuffle(tensor: Tensor, groups: int) -> Any:
    """torch's rule gives one group of channels as the tensor itself, eager's kernel a copy."""
    if groups != 1 or 0 in tensor.shape:
        return NotImplemented
    return aten.clone.default(tensor, memory_format=torch._prims_common.suggest_memory_format(tensor))


def _split(tensor: Tensor, size: int, dim: int = 0) -> Any:
    length = tensor.shape[dim]
    if size == 0 and length != 0:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {length}"
        )
    starts = range(0, max(length, 1), max(size, 1))
    return [aten.slice.Tensor(tensor, dim, start, min(start + size, length)) for start in starts]


def _split_with_sizes(tensor: Tensor, sizes: list[int], dim: int = 0) -> Any:
    if sum(sizes) != tensor.shape[dim]:
        return NotImplemented
    pieces, start = [], 0
    for size in sizes:
        pieces.append(aten.slice.Tensor(tensor, dim, start, start + size))
        start += size
    return pieces


def _unbind(tensor: Tensor, dim: int = 0) -> list[Tensor]:
    return [aten.select.int(tensor, dim, index) for index in range(tensor.shape[dim])]


def _batch_norm(
    tensor: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Any:
    """Batch norm in training writes its running statistics, though its schema does not say so."""
    if tensor.numel() == 0:
        # Without elements there are no statistics, and none are written.
        return aten.clone.default(tensor)
    if not training:
        return NotImplemented
    _check_training_norm(tensor)
    if running_mean is None or running_var is None:
        empty = (tensor, weight, bias, training, momentum, eps)
        return aten._native_batch_norm_legit.no_stats(*empty)[0]
    results = aten._native_batch_norm_legit_functional.default(
        tensor, weight, bias, running_mean, running_var, training, momentum, eps
    )
    running_mean.copy_(results[3])
    running_var.copy_(results[4])
    return results[0]


def _native_batch_norm(
    tensor: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> Any:
    if not training or running_mean is None or running_var is None:
        return NotImplemented
    _check_training_norm(tensor)
    results = aten._native_batch_norm_legit_functional.default(
        tensor, weight, bias, running_mean, running_var, training, momentum, eps
    )
    running_mean.copy_(results[3])
    running_var.copy_(results[4])
    return results[:3]


def _as_strided_copy(tensor: Tensor, size: Any, stride: Any, offset: int | None = None) -> Any:
    # These ops read their operand's strides, which tensors of a functional graph do not have.
    view = aten.as_strided.default(tensor, size, stride, offset)
    return aten.clone.default(view, memory_format=torch.contiguous_format)


def _as_strided_scatter(
    tensor: Tensor, source: Tensor, size: Any, stride: Any, offset: int | None = None
) -> Any:
    # Eager's result keeps the memory around the tensor; a clone has none.
    if tensor.storage_offset() != 0 or not is_dense(layout_of(tensor)):
        raise Unsupported("strided-view", "as_strided_scatter of a tensor that does not fill its memory")
    result = aten.clone.default(tensor)
    aten.as_strided.default(result, size, stride, offset).copy_(source)
    return result


def _attend(
    x: Tensor, heads: int, weight: Tensor, bias: Tensor, out_weight: Tensor, out_bias: Tensor
) -> Tensor:
    """Self-attention of (batch, length, width) by one projection to queries, keys and values."""
    batch, length, width = x.shape
    parts = aten.linear.default(x, weight, bias).view(batch, length, 3, heads, width // heads)
    query, key, value = (aten.select.int(parts, 2, index).transpose(1, 2) for index in range(3))
    mixed = aten.scaled_dot_product_attention.default(query, key, value)
    joined = mixed.transpose(1, 2).reshape(batch, length, width)
    attended: Tensor = aten.linear.default(joined, out_weight, out_bias)
    return attended


def _transformer_encoder_layer(
    source: Tensor,
    width: int,
    heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    out_weight: Tensor,
    out_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    *weights: Any,
) -> Any:
    """torch's whole-layer inference op, taken apart so that its norms and activations can be fused."""
    scale_1, shift_1, scale_2, shift_2, ffn_1, ffn_bias_1, ffn_2, ffn_bias_2, *masks = weights
    if any(mask is not None for mask in masks) or source.dim() != 3 or source.numel() == 0:
        return NotImplemented
    attention = (heads, qkv_weight, qkv_bias, out_weight, out_bias)
    x = aten.layer_norm.default(source, [width], scale_1, shift_1, eps) if norm_first else source
    x = _attend(x, *attention) + source
    if not norm_first:
        x = aten.layer_norm.default(x, [width], scale_1, shift_1, eps)
    inner = aten.layer_norm.default(x, [width], scale_2, shift_2, eps) if norm_first else x
    inner = aten.linear.default(inner, ffn_1, ffn_bias_1)
    inner = aten.gelu.default(inner) if use_gelu else aten.relu.default(inner)
    x = aten.linear.default(inner, ffn_2, ffn_bias_2) + x
    return x if norm_first else aten.layer_norm.default(x, [width], scale_2, shift_2, eps)


def _check_training_norm(tensor: Tensor) -> None:
    if tensor.dim() < 2:
        raise Unsupported("batch-norm", "batch norm in training of a tensor without channels")
    if tensor.dtype in (torch.float16, torch.bfloat16):
        # torch's shape rule gives the statistics another dtype than its kernel does.
        raise Unsupported("batch-norm", f"batch norm in training over {tensor.dtype}")


def _triangle_indices(func: Any) -> Callable[..., Tensor]:
    """Positions that depend on no tensor: computed now, a constant of the graph."""

    def compute(*args: Any, **kwargs: Any) -> Tensor:
        with torch._C._DisableTorchDispatch():
            positions = func(*args, **kwargs)
        constant: Tensor = aten.lift_fresh.default(positions)
        return constant

    return compute


def _cast_number(value: Any, *, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
    """vmap casts the numbers beside its tensors: a constant of the graph."""
    if dtype is None or not isinstance(value, (bool, int, float, complex)):
        return NotImplemented
    with torch._C._DisableTorchDispatch():
        constant = torch.tensor(value, dtype=dtype)
    return aten.lift_fresh.default(constant)


def _refuse_storage_change(tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
    raise Unsupported("storage-change", "the program resizes or replaces a tensor's memory (resize_, set_)")


RULES: dict[Any, Callable[..., Any]] = {
    aten.reshape.default: _reshape,
    aten.contiguous.default: _contiguous,
    aten.channel_shuffle.default: _channel_shuffle,
    aten.dropout.default: _plain_dropout,
    aten.feature_dropout.default: _dropout,
    aten.alpha_dropout.default: _dropout,
    aten.dropout_.default: _dropout,
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split_with_sizes,
    aten.unsafe_split.Tensor: _split,
    aten.unsafe_split_with_sizes.default: _split_with_sizes,
    aten.unbind.int: _unbind,
    aten.batch_norm.default: _batch_norm,
    aten.native_batch_norm.default: _native_batch_norm,
    aten._transformer_encoder_layer_fwd.default: _transformer_encoder_layer,
    aten.as_strided_copy.default: _as_strided_copy,
    aten.as_strided_scatter.default: _as_strided_scatter,
    aten.tril_indices.default: _triangle_indices(aten.tril_indices.default),
    aten.triu_indices.default: _triangle_indices(aten.triu_indices.default),
    aten._to_copy.default: _cast_number,
    aten.resize_.default: _refuse_storage_change,
    aten.resize_as_.default: _refuse_storage_change,
    aten.set_.source_Tensor: _refuse_storage_change,
    aten.set_.source_Storage: _refuse_storage_change,
    aten.set_.source_Storage_storage_offset: _refuse_storage_change,
    aten.set_.default: _refuse_storage_change,
}
"""Our own ways, run under the tracer; NotImplemented leaves the op to the general way."""


def is_random(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether this call draws from a random generator."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        return False
    bound = argument_values(func, args, kwargs)
    if "dropout_p" in bound:
        return bool(bound["dropout_p"])
    if "train" in bound:
        return bool(bound["train"]) and bool(bound.get("dropout", 1))
    return bool(bound.get("training", True))


def argument_values(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """All arguments by name, the schema's defaults among them."""
    bound = {argument.name: argument.default_value for argument in func._schema.arguments}
    bound.update(zip(bound, args, strict=False))
    bound.update(kwargs)
    return bound
