"""A small convolutional stem in place of a patch embedding, for models that train on a CPU."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ConvStem(nn.Module):
    """3x3 convolutions of the strides given, whose product is the patch size.

    All but the last have the `channels` given, batch normalisation and ReLU; the last one projects to `embed_dim`.
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
        *,
        channels: Sequence[int],
        strides: Sequence[int],
        **_timm_defaults: object,
    ) -> None:
        super().__init__()
        assert math.prod(strides) == patch_size
        side, before = img_size, in_chans
        layers: list[nn.Module] = []
        for number, (out, stride) in enumerate(zip([*channels, embed_dim], strides, strict=True), start=1):
            last = number == len(strides)
            layers.append(nn.Conv2d(before, out, 3, stride=stride, padding=1, bias=last))
            if not last:
                layers += [nn.BatchNorm2d(out), nn.ReLU(inplace=True)]
            before = out
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
