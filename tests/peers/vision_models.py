"""timm's models of the public benchmark list, and torchvision's, random and at small sizes."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

from tests.peers.crawl import pass_through
from tests.peers.judging import Outcome, judge
from tests.peers.torchvision_operators import load_torchvision

BATCH, CLASSES = 2, 10
TIMM = {
    "adv_inception_v3": 96,
    "beit_base_patch16_224": 64,
    "convnextv2_nano.fcmae_ft_in22k_in1k": 64,
    "deit_base_distilled_patch16_224": 64,
    "deit_tiny_patch16_224.fb_in1k": 64,
    "dm_nfnet_f0": 64,
    "ghostnet_100": 64,
    "inception_v3": 96,
    "mobilenetv2_100": 64,
    "mobilenetv3_large_100": 64,
    "mobilevit_s": 64,
    "nfnet_l0": 64,
    "repvgg_a2": 64,
    "swin_base_patch4_window7_224": 224,
    "tf_efficientnet_b0": 64,
    "visformer_small": 64,
    "vit_base_patch14_dinov2.lvd142m": 56,
    "vit_base_patch16_siglip_256": 64,
}
"""The benchmark's list (github.com/pytorch/pytorch, benchmarks/dynamo), each with the side of its images here."""
SIZED = ("beit", "deit", "visformer", "vit_", "swin")
"""timm's models that are built for a side."""
SIDES = {"inception": 96, "vit_h_14": 56, "vit_": 64, "maxvit": 224, "alexnet": 96, "vgg": 64}
"""torchvision's models that want another side than 64, or are built for one, by what their names begin with."""


def judge_timm(name: str, backend: Any = pass_through) -> Outcome:
    load_torchvision()
    timm: Any = importlib.import_module("timm")
    side = TIMM[name]
    sized = {"img_size": side} if name.startswith(SIZED) else {}
    torch.manual_seed(0)
    model = timm.create_model(name, pretrained=False, num_classes=CLASSES, **sized).eval()
    return judge(model, make_images(side), backend)


@functools.cache
def list_torchvision() -> list[str]:
    """`module/model` of the classification, segmentation and detection models; none where it is not installed."""
    torchvision = load_torchvision()
    if torchvision is None:
        return []
    models = torchvision.models
    kinds = {"classification": models, "segmentation": models.segmentation, "detection": models.detection}
    return [f"{kind}/{name}" for kind, module in kinds.items() for name in models.list_models(module)]


def judge_torchvision(name: str, backend: Any = pass_through) -> Outcome:
    models = load_torchvision().models
    kind, name = name.split("/")
    options: dict[str, Any] = {"weights": None, "num_classes": CLASSES}
    side = next((size for start, size in SIDES.items() if name.startswith(start)), 64)
    if kind != "classification":
        options["weights_backbone"] = None
        if kind == "detection" and not name.startswith("ssd"):
            options |= {"min_size": side, "max_size": 2 * side}
    elif name.startswith("vit_"):
        options["image_size"] = side
    elif name.startswith(("inception", "googlenet")):
        options["init_weights"] = True
    torch.manual_seed(0)
    model = models.get_model(name, **options).eval()
    return judge(model, make_scenes(side) if kind == "detection" else make_images(side), backend)


def make_images(side: int) -> Callable[[], Any]:
    def make() -> Any:
        torch.manual_seed(1)
        return (torch.rand(BATCH, 3, side, side),), {}

    return make


def make_scenes(side: int) -> Callable[[], Any]:
    """A detection model takes a list of images."""

    def make() -> Any:
        torch.manual_seed(1)
        return ([torch.rand(3, side, side) for _ in range(BATCH)],), {}

    return make
