"""Block norms: one number per block and sample, for models of every kind."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from cache_builder.models import create_model
from cache_builder.taps import NormTap, tap
from cache_builder.taps.norms import block_paths, mean_norm
from engine.core.errors import InvalidInput


def images(n: int = 4, size: int = 32) -> torch.Tensor:
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(0))


def test_block_norms_equal_norms_of_the_block_outputs():
    model = create_model("micro_vit").eval()
    with torch.no_grad():
        with tap(model, NormTap()) as capture:
            model(images())
            norms = capture.take()
        state = model._pos_embed(model.patch_embed(images()))
        for number, block in enumerate(model.blocks):
            state = block(state)
            torch.testing.assert_close(norms[:, number], state.norm(dim=-1).mean(dim=1))
    assert capture.names == [f"block {number} norm" for number in range(1, 7)]


def test_block_norms_of_a_convolutional_model_use_its_channel_axis():
    model = create_model("resnet10t").eval()
    seen = []
    handle = model.layer4.register_forward_hook(lambda _m, _i, output: seen.append(output))
    with torch.no_grad(), tap(model, NormTap()) as capture:
        model(images(2, 64))
        norms = capture.take()
    handle.remove()
    torch.testing.assert_close(norms[:, -1], seen[0].norm(dim=1).mean(dim=(1, 2)))


def test_mean_norm_of_what_blocks_return():
    """Norms by hand: 3-4-5 vectors, the mean over positions, then over states."""
    tokens = torch.tensor([[[3.0, 4.0], [0.0, 0.0]], [[6.0, 8.0], [0.0, 1.0]]])
    assert mean_norm(tokens, 2).tolist() == [2.5, 5.5]
    assert mean_norm(tokens[:, 0], 2).tolist() == [5.0, 10.0]  # no positions: the state of a class token
    first_axis = torch.tensor([3.0, 4.0]).view(1, 2, 1, 1).expand(1, 2, 5, 5)
    assert mean_norm(first_axis, 1).tolist() == [5.0]
    assert mean_norm(first_axis.permute(0, 2, 3, 1), 1).tolist() == [5.0]
    assert mean_norm((tokens, [tokens[:, 0], None]), 2).tolist() == [3.75, 7.75]
    assert mean_norm({"state": tokens, "where": torch.tensor([1, 2])}, 2).tolist() == [2.5, 5.5]
    windows = tokens.reshape(4, 1, 2)  # two windows of one token each, one sample after the other
    assert mean_norm(windows, 2).tolist() == [2.5, 5.5]
    assert mean_norm((windows, tokens), 2).tolist() == [2.5, 5.5]
    assert mean_norm(torch.ones(3, 2), 2) is None
    assert mean_norm("nothing", 2) is None


def test_a_state_as_deep_as_it_is_wide_is_read_as_the_model_says():
    state = torch.zeros(1, 2, 2, 2)
    state[0, :, 0, 0] = torch.tensor([3.0, 4.0])  # one vector along the second axis, two along the last
    assert mean_norm(state, 1, channels_last=False).item() == 5.0 / 4
    assert mean_norm(state, 1, channels_last=True).item() == (3.0 + 4.0) / 4


FAMILIES = {
    "pit_ti_224": 224, "convit_tiny": 224, "coat_lite_tiny": 64, "tnt_s_patch16_224": 64, "twins_pcpvt_small": 64,
    "hrnet_w18_small": 64, "crossvit_tiny_240": 240, "levit_128s": 224, "nest_tiny_jx": 224,
    "volo_d1_224": 224, "mobilevit_xxs": 64, "xcit_nano_12_p16_224": 64, "convnext_atto": 64, "regnetx_002": 64,
    "test_vit": 160,
}  # fmt: skip
"""Small models of different make, with the size of their images: what they return, and how they list it, differs."""


@pytest.mark.parametrize(("name", "size"), FAMILIES.items())
def test_any_timm_model_has_norms_for_every_sample(name, size):
    model = create_model(name, n_classes=3, image_size=size).eval()
    batch = images(2, size)
    with torch.inference_mode(), tap(model, NormTap()) as capture:
        assert model(batch).shape == (2, 3)
        both = capture.take()
        model(batch[1:])
        alone = capture.take()
    assert both.shape == (2, len(capture.names))
    assert len(capture.names) == len(set(capture.names)) > 2
    assert torch.isfinite(both).all()
    assert (both > 0).all()
    torch.testing.assert_close(both[1:], alone, rtol=1e-3, atol=1e-4)  # a sample's own, whoever is beside it


def test_members_of_lists_are_blocks_where_a_model_lists_nothing():
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 4, 4, 4), nn.ReLU())
            self.stages = nn.ModuleList([nn.ModuleList([self._block(), self._block()]), self._block()])

        def _block(self) -> nn.Module:
            return nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU())

        def forward(self, state: torch.Tensor) -> torch.Tensor:
            return self.stages[0][0](self.stages[0][1](self.stem(state))).mean(dim=(2, 3))

    model = Plain()
    assert list(block_paths(model)) == ["stages.0.0", "stages.0.1", "stages.1"]
    with torch.no_grad(), tap(model, NormTap()) as capture:
        model(images())
        assert capture.take().shape == (4, 2)
    assert capture.names == ["stages.0.1 norm", "stages.0.0 norm"]  # as they ran; the third did not


def test_one_pass_per_take():
    model = create_model("micro_vit").eval()
    with torch.no_grad(), tap(model, NormTap()) as capture:
        with pytest.raises(InvalidInput, match="0 passes"):
            capture.take()
        model(images())
        model(images())
        with pytest.raises(InvalidInput, match="2 passes"):
            capture.take()


def test_a_model_without_blocks_is_refused_by_name():
    model = nn.Flatten()
    with torch.no_grad(), tap(model, NormTap()) as capture:
        model(images())
        with pytest.raises(InvalidInput, match="Flatten"):
            capture.take()


def test_hooks_are_gone_afterwards():
    model = create_model("micro_vit")
    with tap(model, NormTap()):
        assert any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
