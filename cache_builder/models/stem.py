"""A small convolutional stem in place of a patch embedding, for models that train on a CPU."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class ConvStem(nn.Module):
    """3x3 convolutions of stride 2, log2(patch_size) of them; with `refine`, one of stride 1 follows.

    All but the last one double the width and have batch normalisation and ReLU; the last one projects to `embed_dim`.
    Speaks the interface of timm's PatchEmbed as far as VisionTransformer and SwinTransformer use it: `grid_size`,
    `num_patches`, tokens (batch, N, D), or (batch, rows, columns, D) for `output_fmt="NHWC"`.
    """

    def __init__(
        self,
        img_size: int,
        patch_size: int,
        in_chans: int,
        embed_dim: int,
        output_fmt: str = "NLC",
        width: int = 32,
        refine: bool = False,
        **_timm_defaults: object,
    ) -> None:
        super().__init__()
        strides = [2] * round(math.log2(patch_size)) + [1] * refine
        side, channels = img_size, in_chans
        layers: list[nn.Module] = []
        for number, stride in enumerate(strides):
            last = number == len(strides) - 1
            out = embed_dim if last else width * 2**number
            layers.append(nn.Conv2d(channels, out, 3, stride=stride, padding=1, bias=last))
            if not last:
                layers += [nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            channels = out
            side = -(-side // stride)
        self.layers = nn.Sequential(*layers)
        self.patch_size = patch_size
        self.grid_size = (side, side)
        self.num_patches = side * side
        self.channels_last_grid = output_fmt == "NHWC"

    def feat_ratio(self) -> int:
        return self.patch_size

    def forward(self, images: Tensor) -> Tensor:
        grid = self.layers(images.contiguous(memory_format=torch.channels_last)).permute(0, 2, 3, 1)
        return grid if self.channels_last_grid else grid.flatten(1, 2)
