"""Taps against direct computation from alpha, and forward passes that they leave as they are."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from cache_builder.models import create_model
from cache_builder.taps import (
    AttentionTap,
    ModuleTap,
    RoutedTap,
    RouterTap,
    SoftmaxTap,
    alpha_to_entropy,
    residual_weights,
    routing_places,
    tap,
)  # fmt: skip
from cache_builder.taps.attention import attention_entropies
from cache_builder.taps.entropy import choice_shares
from engine.core.errors import InvalidInput


def direct(alpha: Tensor, axis: int = -1) -> Tensor:
    """Entropy over log T in double precision, as a textbook writes it."""
    weights = alpha.detach().double()
    terms = torch.where(weights > 0, -weights * weights.log(), torch.zeros_like(weights))
    return terms.sum(axis) / math.log(alpha.shape[axis])


def mix(sources: list[Tensor], norm: nn.Module, proj: nn.Linear, last_bias: Tensor, seen: list[Tensor]) -> Tensor:
    """A plain function, as public re-implementations have it: norm as keys, a projection as query, bias on the last."""
    stacked = torch.stack(sources)
    logits = torch.einsum("d,tbnd->tbn", proj.weight.squeeze(0), norm(stacked))
    logits = torch.cat([logits[:-1], logits[-1:] + last_bias])
    alpha = logits.softmax(0)
    seen.append(alpha)
    return torch.einsum("tbn,tbnd->bnd", alpha, stacked)


class Block(nn.Module):
    def __init__(self, dim: int) -> None:
        super().__init__()
        self.attn_res_norm, self.attn_res_proj = nn.RMSNorm(dim), nn.Linear(dim, 1, bias=False)
        self.mlp_res_norm, self.mlp_res_proj = nn.RMSNorm(dim), nn.Linear(dim, 1, bias=False)
        self.attn = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.Dropout(0.1))
        self.last_bias = nn.Parameter(torch.randn(()))
        self.seen: list[Tensor] = []

    def forward(self, number: int, partial: Tensor, *blocks: Tensor) -> tuple[Tensor, ...]:
        sources = [*blocks, partial] if number else list(blocks)
        partial = partial + self.attn(mix(sources, self.attn_res_norm, self.attn_res_proj, self.last_bias, self.seen))
        if number % 2:  # a block of layers ends: its sum so far becomes a source
            blocks = (*blocks, partial)
        h = mix([*blocks, partial], self.mlp_res_norm, self.mlp_res_proj, self.last_bias, self.seen)
        return partial + self.mlp(h), *blocks


class ThirdParty(nn.Module):
    """Attention Residuals with block sums, written by somebody else."""

    def __init__(self, dim: int = 12, depth: int = 4, checkpointing: str = "") -> None:
        super().__init__()
        self.embed = nn.Linear(3, dim)
        self.layers = nn.ModuleList(Block(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 5)
        self.checkpointing = checkpointing

    def forward(self, x: Tensor) -> Tensor:
        states = (self.embed(x),) * 2
        for number, layer in enumerate(self.layers):
            if self.checkpointing:
                states = checkpoint(layer, number, *states, use_reentrant=self.checkpointing == "reentrant")
            else:
                states = layer(number, *states)
        return self.head(states[0].mean(1))

    def alphas(self) -> list[Tensor]:
        return [alpha for layer in self.layers for alpha in layer.seen]


def third_party(**changes: object) -> tuple[ThirdParty, Tensor]:
    torch.manual_seed(0)
    return ThirdParty(**changes).eval(), torch.randn(6, 7, 3)


RESIDUALS = SoftmaxTap(axis=0, rank=3)


def test_entropies_of_somebody_elses_attention_residuals():
    model, x = third_party()
    bare = model(x)
    for layer in model.layers:
        layer.seen.clear()
    with tap(model, RESIDUALS) as capture:
        assert torch.equal(model(x), bare)
        profile = capture.take()
    alphas = model.alphas()
    expected = torch.stack([direct(alpha, 0).mean(1) for alpha in alphas if len(alpha) > 1], dim=1)
    torch.testing.assert_close(profile.double(), expected, atol=1e-6, rtol=0)
    assert [place.n_sources for place in capture.places] == [len(alpha) for alpha in alphas if len(alpha) > 1]
    assert capture.left_out == ("layers.0",)  # the first sub-layer has the embedding only
    assert capture.names[:3] == ["layers.0 #2", "layers.1", "layers.1 #2"]
    assert not profile.requires_grad


def test_norm_and_projection_of_attention_residuals():
    model, x = third_party()
    for layer in model.layers:
        nn.init.zeros_(layer.last_bias)  # which only the model itself knows
    with torch.no_grad(), tap(model, RESIDUALS) as capture:
        model(x)
        expected, names = capture.take(), capture.names
    with torch.no_grad(), tap(model, ModuleTap("*_res_norm", read=residual_weights)) as capture:
        model(x)
        torch.testing.assert_close(capture.take(), expected, atol=1e-6, rtol=0)
    assert capture.left_out == ("layers.0.attn_res_norm",)
    assert len(capture.names) == len(names)


def ours(name: str = "micro_vit", variant: str = "full_ar") -> nn.Module:
    torch.manual_seed(0)
    model = create_model(name, variant=variant, block_size=2 if variant == "block_ar" else None).eval()
    for module in model.modules():
        if hasattr(module, "queries"):
            nn.init.normal_(module.queries, std=0.5)
    return model


@pytest.mark.parametrize("name", ["micro_vit", "micro_swin"])
@torch.no_grad()
def test_our_own_models_by_either_tap(name):
    model, x = ours(name), torch.randn(3, 3, 32, 32)
    bare = model(x)
    with tap(model, RoutedTap()) as own, tap(model, SoftmaxTap(axis=0, rank=2)) as seen:
        assert torch.equal(model(x), bare)
        profile = own.take()
        torch.testing.assert_close(seen.take(), profile, atol=1e-6, rtol=0)
    assert tuple(own.places) == routing_places(model)
    assert [place.n_sources for place in seen.places] == [place.n_sources for place in own.places]


class Plain(nn.Module):
    """Attention without fused kernels, whose maps can be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, 3)
        self.map: Tensor = torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).reshape(len(x), -1, 3, 2, 4).permute(2, 0, 3, 1, 4)
        self.map = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.head((self.map @ v).transpose(1, 2).flatten(2).mean(1))


@torch.no_grad()
def test_plain_and_fused_attention():
    model, x = Plain(), torch.randn(5, 6, 8)
    with tap(model, AttentionTap()) as capture:
        model(x)
        plain = capture.take()
    torch.testing.assert_close(plain[:, 0].double(), direct(model.map).mean((1, 2)), atol=1e-6, rtol=0)

    vit, images = create_model("micro_vit").eval(), torch.randn(4, 3, 32, 32)
    bare = vit(images)
    with tap(vit, AttentionTap()) as capture:
        assert torch.equal(vit(images), bare)
        fused = capture.take()
    for module in vit.modules():
        if hasattr(module, "fused_attn"):
            module.fused_attn = False
    with tap(vit, SoftmaxTap(rank=4)) as capture:
        vit(images)
        torch.testing.assert_close(fused, capture.take(), atol=1e-6, rtol=0)
    assert capture.names == [f"blocks.{number}.attn" for number in range(6)]


@torch.no_grad()
def test_attention_in_windows_and_in_multihead_modules():
    swin, images = create_model("micro_swin").eval(), torch.randn(3, 3, 32, 32)
    with tap(swin, AttentionTap()) as capture:
        both = (swin(images), capture.take())[1]
        alone = (swin(images[1:2]), capture.take())[1]
    torch.testing.assert_close(both[1:2], alone, atol=1e-5, rtol=0)  # a sample's own windows, whoever is beside it

    layer, tokens = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval(), torch.randn(4, 5, 8)
    with tap(layer, AttentionTap()) as capture:
        layer(tokens)
        seen = capture.take()
    _, weights = layer.self_attn(tokens, tokens, tokens, average_attn_weights=False)
    torch.testing.assert_close(seen[:, 0].double(), direct(weights).mean((1, 2)), atol=1e-6, rtol=0)


@pytest.mark.parametrize("kind", ["causal", "choice", "added", "grouped", "nothing"])
def test_masks_of_fused_attention(kind):
    torch.manual_seed(0)
    query, key = torch.randn(2, 4, 5, 8), torch.randn(2, 2 if kind == "grouped" else 4, 5, 8)
    mask = {"choice": torch.rand(2, 1, 5, 5) < 0.7, "added": torch.randn(5, 5)}.get(kind)
    if kind == "nothing":
        mask = torch.ones(2, 1, 5, 5, dtype=torch.bool)
        mask[0, 0, 2] = False
    scores = query @ key.repeat_interleave(4 // key.shape[1], 1).transpose(-2, -1) / 8**0.5
    if kind == "causal":
        scores = scores.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -math.inf)
    elif mask is not None:
        scores = scores + mask if kind == "added" else scores.masked_fill(~mask, -math.inf)
    expected = direct(scores.softmax(-1).nan_to_num(0.0)).mean(1)
    found = attention_entropies(query, key, mask, is_causal=kind == "causal")
    torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=0)


class Experts(nn.Module):
    """A gate over four experts, whose logits are dropped; or only the number of the expert is returned."""

    def __init__(self, ids_only: bool = False) -> None:
        super().__init__()
        self.gate = nn.Linear(6, 4)
        self.experts = nn.Parameter(torch.randn(4, 6, 6))
        if ids_only:
            self.gate.forward = lambda x: (x @ self.gate.weight.T).topk(2, dim=-1).indices

    def forward(self, x: Tensor) -> Tensor:
        routed = self.gate(x.reshape(-1, 6))
        chosen = routed[:, 0] if not routed.is_floating_point() else routed.argmax(-1)
        return torch.einsum("nd,nde->ne", x.reshape(-1, 6), self.experts[chosen]).reshape(x.shape).mean(1)


@torch.no_grad()
def test_gates_whose_logits_are_dropped_and_choices():
    torch.manual_seed(0)
    model, x = nn.Sequential(Experts(), nn.Linear(6, 3)), torch.randn(5, 8, 6)
    expected = direct(model[0].gate(x).softmax(-1)).mean(1)
    for how in (RouterTap(), ModuleTap("*.gate")):
        with tap(model, how) as capture:
            model(x)
            torch.testing.assert_close(capture.take()[:, 0].double(), expected, atol=1e-6, rtol=0)
        assert capture.names == ["0.gate"]
        assert capture.places[0].n_sources == 4
    model = Experts(ids_only=True)
    with tap(model, RouterTap(size=4)) as capture:
        model(x)
        load = capture.take()
    by_hand = choice_shares(model.gate(x).reshape(-1, 2), 4, 5)
    torch.testing.assert_close(load[:, 0], by_hand[0])
    assert list(capture.extra) == ["gate switch rate"]
    with tap(model, RouterTap()) as capture, pytest.raises(InvalidInput, match="size: expected the number of"):
        model(x)


def test_shares_of_choices_by_hand():
    """Sample one takes 0, 0, 1, 1 of three; sample two always 2; a pair counts as the same in either order."""
    load, rate = choice_shares(torch.tensor([0, 0, 1, 1, 2, 2, 2, 2])[:, None], 3, 2)
    torch.testing.assert_close(load, torch.tensor([math.log(2) / math.log(3), 0.0]))
    torch.testing.assert_close(rate, torch.tensor([1 / 3, 0.0]))
    _, rate = choice_shares(torch.tensor([[0, 1], [1, 0], [1, 2]]), 3, 1)
    assert rate.tolist() == [0.5]
    assert choice_shares(torch.tensor([[1]]), 3, 1)[1].tolist() == [0.0]
    with pytest.raises(InvalidInput, match="below 2"):
        choice_shares(torch.tensor([[2]]), 2, 1)


def test_alpha_with_named_axes():
    alpha = torch.tensor([[0.5, 0.5], [1.0, 0.0], [0.25, 0.75], [0.25, 0.75]])
    quarter = -(0.25 * math.log(0.25) + 0.75 * math.log(0.75)) / math.log(2)
    assert alpha_to_entropy(alpha).tolist() == pytest.approx([1, 0, quarter, quarter])
    assert alpha_to_entropy(alpha, n_samples=2).tolist() == pytest.approx([0.5, quarter])
    moved = alpha.reshape(2, 2, 2).permute(2, 1, 0)  # alternatives, tokens, samples
    assert alpha_to_entropy(moved, alternatives=0, samples=2, tokens=1).tolist() == pytest.approx([0.5, quarter])
    assert alpha_to_entropy(alpha.half()).dtype == torch.float32
    for settings, argument in (
        ({"alternatives": 3}, "alternatives"),
        ({"samples": -1}, "tokens"),
        ({"tokens": (0,)}, "tokens"),
        ({"n_samples": 3}, "batch"),
    ):
        with pytest.raises(InvalidInput, match=f"^{argument}"):
            alpha_to_entropy(alpha, **settings)
    for wrong in (torch.ones(3, 1), torch.ones(3, 2, dtype=torch.long), [0.5, 0.5]):
        with pytest.raises(InvalidInput, match=r"^alpha"):
            alpha_to_entropy(wrong)


@torch.no_grad()
def test_one_pass_per_take_and_none_that_failed():
    model, x = third_party()
    with tap(model, RESIDUALS) as capture:
        with pytest.raises(InvalidInput, match="0 passes"):
            capture.take()
        with pytest.raises(RuntimeError):
            model(x[..., :2])
        model(x)
        first = capture.take()
        model(x)
        model(x)
        with pytest.raises(InvalidInput, match="2 passes"):
            capture.take()
    with tap(model, RESIDUALS) as capture:
        model(x[:4])
        torch.testing.assert_close(capture.take(), first[:4])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


@torch.no_grad()
def test_a_failed_pass_of_our_own_models_leaves_nothing():
    model, x = ours(), torch.randn(3, 3, 32, 32)
    with tap(model, RoutedTap()) as capture:
        handle = model.norm.register_forward_pre_hook(lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            model(x)
        handle.remove()
        model(x)
        assert capture.take().shape == (3, 10)


@torch.no_grad()
def test_taps_inside_taps_models_inside_models_and_two_at_once():
    model, x = third_party()
    other, _ = third_party(depth=2)
    with tap(model, RESIDUALS) as capture:
        model(x)
        alone = capture.take()
    with tap(other, RESIDUALS) as second, tap(model, RESIDUALS) as first, tap(model, SoftmaxTap()) as again:
        model(x)
        other(x[:2])  # neither pass is seen by the other's tap
        assert torch.equal(first.take(), alone)
        assert torch.equal(again.take(), alone)
        assert second.take().shape == (2, 3)

    class Twice(nn.Module):
        """Calls itself: one pass, with the places of both calls."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.again = model, True

        def forward(self, x: Tensor) -> Tensor:
            if not self.again:
                return self.inner(x)
            self.again = False
            return self(x) + self.inner(x)

    outer = Twice()
    with tap(outer, RESIDUALS) as capture:
        outer(x)
        torch.testing.assert_close(capture.take(), torch.cat([alone, alone], dim=1))
    assert len(set(capture.names)) == 2 * alone.shape[1]


@pytest.mark.parametrize("how", [RESIDUALS, ModuleTap("*_res_norm", read=residual_weights)])
@pytest.mark.parametrize("kind", ["reentrant", "not"])
def test_gradient_checkpointing(kind, how):
    model, x = third_party(checkpointing=kind)
    model.train()
    x.requires_grad_()

    def gradients() -> tuple[Tensor, list[Tensor]]:
        torch.manual_seed(1)
        model.zero_grad()
        output = model(x)
        output.square().sum().backward()
        return output, [weight.grad.clone() for weight in model.parameters() if weight.grad is not None]

    bare, expected = gradients()
    with tap(model, how) as capture:
        output, found = gradients()
        profile = capture.take()  # of the forward pass only, not of what the backward pass computes again
    assert torch.equal(output, bare)
    assert len(found) == len(expected) > 20
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert profile.shape == (6, 7)


def test_compiled_models_are_refused():
    model, _ = third_party()
    with pytest.raises(InvalidInput, match=r"not compiled.*_orig_mod"), tap(torch.compile(model), RESIDUALS):
        pass
    with (
        pytest.raises(InvalidInput, match=r"0, which torch\.compile"),
        tap(nn.Sequential(torch.compile(model)), RESIDUALS),
    ):
        pass
    scripted = torch.jit.trace(nn.Linear(2, 2), torch.ones(1, 2))
    with pytest.raises(InvalidInput, match=r"torch\.jit"), tap(scripted, RESIDUALS):
        pass
    model.compile()
    with pytest.raises(InvalidInput, match=r"ThirdParty, which torch\.compile"), tap(model, RESIDUALS):
        pass


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision(dtype):
    model, x = third_party()
    model.to(dtype)
    bare = model(x.to(dtype))
    for layer in model.layers:
        layer.seen.clear()
    with tap(model, RESIDUALS) as capture:
        assert torch.equal(model(x.to(dtype)), bare)
        profile = capture.take()
    assert profile.dtype == torch.float32
    expected = [direct(alpha, 0).mean(1).clamp(0, 1) for alpha in model.alphas() if len(alpha) > 1]
    torch.testing.assert_close(
        profile.double(), torch.stack(expected, 1), atol=1e-2, rtol=0
    )  # alpha adds up to 1 +- 2^-8


@torch.no_grad()
def test_what_does_not_fit_is_listed():
    model, x = third_party()
    cases = {
        SoftmaxTap(axis=1): r"softmax:axis=1, got .*softmax of shape \(2, 6, 7\) over axis 0 in layers\.\* \(2 times\)",
        SoftmaxTap(inside="head*"): "in layers",
        ModuleTap("*.gate"): r"module:.*gate.*RMSNorm in layers\.\*\.attn_res_norm \(4 times\)",
        RouterTap(): "Linear in embed",
        AttentionTap(): r"softmax of shape \(3, 6, 7\)",
        RoutedTap(): "nothing of the kind",
    }
    for how, message in cases.items():
        with tap(model, how) as capture:
            model(x)
            with pytest.raises(InvalidInput, match=message):
                capture.take()
    read = ModuleTap("head", read=lambda call: call.output)
    with tap(model, read), pytest.raises(InvalidInput, match="read: expected weights of head that add up to 1"):
        model(x)


class SequenceFirst(nn.Module):
    """Tokens along the first axis and samples along the second."""

    def forward(self, x: Tensor) -> Tensor:
        return (x.softmax(dim=-1) * x).sum(0)


@torch.no_grad()
def test_a_batch_that_is_not_the_first_axis_is_caught():
    model = SequenceFirst()
    with tap(model, SoftmaxTap()) as capture:
        model(torch.randn(12, 4, 3))
        with pytest.raises(InvalidInput, match=r"batch: expected 4 samples along the first axis.*\(12, 4\)"):
            capture.take(4)
        with pytest.raises(InvalidInput, match="batch: expected 5 samples"):
            capture.take(5)
        assert capture.take(48).shape == (48, 1)  # every token a sample
    for wrong, name in ((lambda x: x, "model"), (model, "tap")):
        with pytest.raises(InvalidInput, match=f"^{name}"), tap(wrong, SoftmaxTap() if name == "model" else "softmax"):
            pass


@torch.no_grad()
def test_places_may_not_change_but_their_size_may():
    model = Plain()
    with tap(model, AttentionTap()) as capture:
        for length in (6, 9):
            model(torch.randn(2, length, 8))
            capture.take()
    assert capture.places[0].n_sources is None

    class Changing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            for _ in range(len(x)):
                x = x.softmax(-1)
            return x

    model = Changing()
    with tap(model, SoftmaxTap()) as capture:
        model(torch.randn(2, 3))
        capture.take()
        model(torch.randn(4, 3))
        with pytest.raises(InvalidInput, match="the same 2 places every time, got 4"):
            capture.take()


@torch.no_grad()
def test_survey_lists_softmaxes_and_proposes_taps_that_work():
    model, x = third_party()
    survey = SoftmaxTap.survey(model, x)
    assert survey.proposals == {"Attention Residuals": "softmax:axis=0,rank=3"}
    assert "layers.0  (1, 6, 7)  0" in str(survey)
    full = SoftmaxTap.survey(ours(), (torch.randn(2, 3, 32, 32),))
    assert full.proposals == {"Attention Residuals": "softmax:axis=0,rank=2", "attention": "attention"}
    assert "blocks.0.attn  (2, 2, 17, 17)  3     fused attention" in str(full)
    assert str(SoftmaxTap.survey(nn.Linear(2, 2), {"input": torch.ones(1, 2)})) == "no softmax was seen"


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: SoftmaxTap(rank=0), "rank"),
        (lambda: SoftmaxTap(size=1), "size"),
        (lambda: SoftmaxTap(axis=0.5), "axis"),
        (lambda: ModuleTap("*", read=3), "read"),
        (lambda: ModuleTap("*", size=1), "size"),
    ],
)
def test_settings_are_checked(make, argument):
    with pytest.raises(InvalidInput, match=f"^{argument}"):
        make()
