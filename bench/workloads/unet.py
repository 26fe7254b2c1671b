"""A small UNet with GroupNorm and SiLU, on 3 x 64 x 64 images.

Ronneberger et al., U-Net, 2015; residual blocks as in Ho et al., Denoising Diffusion Probabilistic Models,
2020.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from bench.workloads.workload import finish, image_inputs

GROUPS = 8
WIDTHS = (32, 64, 128)

make_images = image_inputs()


class ResidualBlock(nn.Module):
    """Two normalised convolutions beside a shortcut."""

    def __init__(self, inner: int, outer: int) -> None:
        super().__init__()
        self.first_norm = nn.GroupNorm(GROUPS, inner)
        self.first = nn.Conv2d(inner, outer, 3, padding=1)
        self.second_norm = nn.GroupNorm(GROUPS, outer)
        self.second = nn.Conv2d(outer, outer, 3, padding=1)
        self.shortcut = nn.Identity() if inner == outer else nn.Conv2d(inner, outer, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.first(F.silu(self.first_norm(images)))
        hidden = self.second(F.silu(self.second_norm(hidden)))
        result: torch.Tensor = hidden + self.shortcut(images)
        return result


class UNet(nn.Module):
    """Halves the image twice and doubles it back, joining each scale with its skip connection."""

    def __init__(self) -> None:
        super().__init__()
        small, middle, large = WIDTHS
        self.enter = nn.Conv2d(3, small, 3, padding=1)
        self.down = nn.ModuleList([ResidualBlock(small, small), ResidualBlock(small, middle)])
        self.shrink = nn.ModuleList(
            nn.Conv2d(width, width, 3, stride=2, padding=1) for width in (small, middle)
        )
        self.bottom = ResidualBlock(middle, large)
        self.up = nn.ModuleList([ResidualBlock(large + middle, middle), ResidualBlock(middle + small, small)])
        self.leave_norm = nn.GroupNorm(GROUPS, small)
        self.leave = nn.Conv2d(small, 3, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.enter(images)
        skips = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            hidden = block(hidden)
            skips.append(hidden)
            hidden = shrink(hidden)
        hidden = self.bottom(hidden)
        for block in self.up:
            hidden = F.interpolate(hidden, scale_factor=2.0, mode="nearest")
            hidden = block(torch.cat([hidden, skips.pop()], dim=1))
        result: torch.Tensor = self.leave(F.silu(self.leave_norm(hidden)))
        return result


def make_unet() -> nn.Module:
    """Widths 32, 64, 128; returns an image of the input's size."""
    return finish(UNet())
