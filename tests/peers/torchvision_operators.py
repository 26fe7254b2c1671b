"""torchvision beside a torch that its native library was not built for.

Importing torchvision asks for the schemas of its operators; where its library does not load, they are declared here,
and the two that detection models run on the CPU (`nms`, `roi_align`) are computed in Python.
"""

from __future__ import annotations

import functools
import importlib.util
import pathlib
from typing import Any

import torch

POOLED = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
STEPS = (
    "SymInt stride_h, SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, "
    "SymInt groups, SymInt offset_groups, bool use_mask"
)
SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    f"roi_align(Tensor input, Tensor rois, {POOLED}, int sampling_ratio, bool aligned) -> Tensor",
    f"qroi_align(Tensor input, Tensor rois, {POOLED}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward(Tensor grad, Tensor rois, {POOLED}, {SIZES}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool(Tensor input, Tensor rois, {POOLED}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {POOLED}, {SIZES}) -> Tensor",
    f"ps_roi_align(Tensor input, Tensor rois, {POOLED}, int sampling_ratio) -> (Tensor, Tensor)",
    f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {POOLED}, int sampling_ratio, {SIZES})"
    " -> Tensor",
    f"ps_roi_pool(Tensor input, Tensor rois, {POOLED}) -> (Tensor, Tensor)",
    f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {POOLED}, {SIZES}) -> Tensor",
    f"deform_conv2d(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, {STEPS}) -> Tensor",
    "_deform_conv2d_backward(Tensor grad, Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, "
    f"{STEPS}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    "_cuda_version() -> int",
)


def nms(boxes: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    """Indices of the boxes that no better one overlaps by more than the threshold, best first."""
    order = scores.argsort(descending=True, stable=True)
    area = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    kept = []
    while order.numel():
        best, rest = order[0], order[1:]
        kept.append(best)
        low = torch.maximum(boxes[best, :2], boxes[rest, :2])
        high = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        order = rest[shared <= iou_threshold * (area[best] + area[rest] - shared)]
    return torch.stack(kept) if kept else order


def roi_align(images, rois, scale, height, width, ratio, aligned):  # type: ignore[no-untyped-def]
    from torchvision.ops.roi_align import _roi_align

    return _roi_align(images, rois, scale, height, width, ratio, aligned)


@functools.cache
def load_torchvision() -> Any:
    """torchvision, with its operators declared where its own library does not load; None if not installed."""
    found = importlib.util.find_spec("torchvision")
    if found is None or found.origin is None:
        return None
    try:
        torch.ops.load_library(next(pathlib.Path(found.origin).parent.glob("_C*.so")))
    except (OSError, StopIteration):
        LIBRARY.append(declare_operators())
    torchvision = importlib.import_module("torchvision")
    if LIBRARY:
        torchvision.extension._has_ops = lambda: True
    return torchvision


LIBRARY: list[torch.library.Library] = []
"""Keeps what is declared."""


def declare_operators() -> torch.library.Library:
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    library.impl("nms", nms, "CPU")
    library.impl("roi_align", roi_align, "CPU")
    library.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")
    return library
