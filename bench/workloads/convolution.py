"""Convolutional image classifiers: ResNet-18 and -50, ConvNeXt-tiny, MobileNetV2, on 224 x 224 images."""

from __future__ import annotations

import torch
from torch import nn
from transformers import (
    ConvNextConfig,
    ConvNextForImageClassification,
    MobileNetV2Config,
    MobileNetV2ForImageClassification,
    ResNetConfig,
    ResNetForImageClassification,
)

from bench.workloads.workload import TakeOutput, finish, finish_convolutions, image_inputs

make_images = image_inputs()


def calibration_images() -> torch.Tensor:
    """A small batch that the batch-norm statistics are taken from."""
    return torch.randn(4, 3, 112, 112)


def make_resnet18() -> nn.Module:
    """Basic blocks 2-2-2-2; returns 1000 logits."""
    config = ResNetConfig(  # type: ignore[call-arg]  # num_labels is a property
        layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=[64, 128, 256, 512], num_labels=1000
    )
    return finish_convolutions(
        TakeOutput(ResNetForImageClassification(config), "logits"), calibration_images()
    )


def make_resnet50() -> nn.Module:
    """Bottleneck blocks 3-4-6-3; returns 1000 logits."""
    config = ResNetConfig(num_labels=1000)  # type: ignore[call-arg]
    return finish_convolutions(
        TakeOutput(ResNetForImageClassification(config), "logits"), calibration_images()
    )


def make_convnext() -> nn.Module:
    """ConvNeXt-tiny: depths 3-3-9-3, widths 96 to 768; returns 1000 logits."""
    config = ConvNextConfig(num_labels=1000)  # type: ignore[call-arg]
    return finish(TakeOutput(ConvNextForImageClassification(config), "logits"))


def make_mobilenetv2() -> nn.Module:
    """Width 1.0, depthwise convolutions, ReLU6; returns 1000 logits."""
    config = MobileNetV2Config(num_labels=1000)  # type: ignore[call-arg]
    model = MobileNetV2ForImageClassification(config)
    return finish_convolutions(TakeOutput(model, "logits"), calibration_images())
