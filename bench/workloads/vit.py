"""A vision transformer of 6 layers on 224 x 224 images."""

from __future__ import annotations

from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from bench.workloads.workload import TakeOutput, finish, image_inputs

make_images = image_inputs()


def make_vit() -> nn.Module:
    """Hidden 384, 6 heads, patches of 16; returns 1000 logits."""
    config = ViTConfig(  # type: ignore[call-arg]  # num_labels is a property
        hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, num_labels=1000
    )
    return finish(TakeOutput(ViTForImageClassification(config), "logits"))
