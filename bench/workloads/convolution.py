"""Convolutional image classifiers: ResNet-18 and -50, ConvNeXt-tiny, MobileNetV2, on 224 x 224 images."""

from __future__ import annotations

from torch import nn
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
)

from bench.workloads.workload import TakeOutput, finish, image_inputs

make_images = image_inputs()


def make_resnet18() -> nn.Module:
    """Basic blocks 2-2-2-2; returns 1000 logits."""
    config = ResNetConfig(
        layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], num_labels=1000
    )
    return finish(TakeOutput(ResNetForImageClassification(config), "logits"))


def make_resnet50() -> nn.Module:
    """Bottleneck blocks 3-4-6-3; returns 1000 logits."""
    return finish(TakeOutput(ResNetForImageClassification(ResNetConfig(num_labels=1000)), "logits"))


def make_convnext() -> nn.Module:
    """ConvNeXt-tiny: depths 3-3-9-3, widths 96 to 768; returns 1000 logits."""
    return finish(TakeOutput(ConvNextForImageClassification(ConvNextConfig(num_labels=1000)), "logits"))


def make_mobilenetv2() -> nn.Module:
    """Width 1.0, depthwise convolutions, ReLU6; returns 1000 logits."""
    return finish(TakeOutput(MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=1000)), "logits"))
