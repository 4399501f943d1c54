"""The published Attention Residuals: a hand-computed case, the formula written out, and what starts uniform."""

import math

import pytest
import torch
from torch import nn

from cache_builder.models import create_model
from cache_builder.models.attnres import AttentionResidualBlocks
from cache_builder.taps import RoutedTap, routing_places, tap

MICRO = ("micro_vit", "micro_deit", "micro_swin")


def images(n=3, side=32):
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(1))


def reads(query, weight, sources):
    """alpha and h of one place, as published: V stacked, K = RMSNorm(V), logits = query . K, softmax over sources."""
    values = torch.stack(sources)
    keys = nn.functional.rms_norm(values, (values.shape[-1],), weight, eps=0.0)
    alpha = torch.einsum("d,n...d->n...", query, keys).softmax(0)
    return alpha, torch.einsum("n...,n...d->...d", alpha, values)


def published_forward(stage, state):
    """The publication's pseudo-code (block_attn_res), with a block boundary after every `chunk` sub-layers."""
    blocks, partial, entropies = [state], None, []

    def mix(row):
        sources = blocks if partial is None else [*blocks, partial]
        alpha, read = reads(stage.queries[row], stage.norm_weights[row], sources)
        if len(sources) > 1:
            entropy = -(alpha * alpha.log()).sum(dim=0) / math.log(len(sources))
            entropies.append(entropy.flatten(1).mean(dim=1))
        return read

    row = 0
    for block in stage.children():
        attention = block._attn if hasattr(block, "_attn") else block.attn
        for inner in (lambda h, f=attention, b=block: f(b.norm1(h)), lambda h, b=block: b.mlp(b.norm2(h))):
            output = inner(mix(row))
            partial = output if partial is None else partial + output
            row += 1
            if row % stage.chunk == 0:
                blocks.append(partial)
                partial = None
    return mix(row), entropies


@pytest.mark.parametrize("block_size", [1, 3, 5])
@pytest.mark.parametrize("name", MICRO)
def test_forward_and_capture_equal_the_published_formula(name, block_size):
    torch.manual_seed(0)
    model = create_model(name, variant="attnres", block_size=block_size).eval().double()
    found = [module for module in model.modules() if isinstance(module, AttentionResidualBlocks)]
    for stage in found:
        nn.init.normal_(stage.queries, std=0.5)
        nn.init.normal_(stage.norm_weights, mean=1.0, std=0.3)
    batch = images().double()
    with torch.no_grad(), tap(model, RoutedTap()) as capture:
        logits = model(batch)
        profile = capture.take()
        expected = []
        state = model.patch_embed(batch)
        if hasattr(model, "layers"):
            for layer in model.layers:
                state, entropies = published_forward(layer.blocks, layer.downsample(state))
                expected += entropies
        else:
            state, expected = published_forward(model.blocks, model.norm_pre(model._pos_embed(state)))
        torch.testing.assert_close(logits, model.forward_head(model.norm(state)), rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(profile, torch.stack(expected, dim=1), rtol=1e-9, atol=1e-9)
    assert profile.std() > 0.01
    assert len(capture.names) == profile.shape[1] == len(routing_places(model))


def test_a_tiny_case_by_hand():
    """D = 1, two blocks of one sub-layer f(h) = 2 h and f(h) = 3 h, chunks of one, one sample with one token of 1.

    Keys are 1 for positive values, so with a query of 0 all weights are equal: h1 = 1 and V = [1, 2]; h2 = 1.5 and
    V = [1, 2, 4.5]; the output is their mean, 2.5. A query of log 3 on a sign: V1 of -1 has weight 1/10 beside 9/10.
    """
    blocks = nn.Sequential(nn.Identity(), nn.Identity())
    factors = iter([2.0, 3.0, 2.0, 3.0])
    stage = AttentionResidualBlocks(blocks, 1, 1, {"f": lambda _block, h: next(factors) * h})
    assert [stage.n_sources(row) for row in range(3)] == [1, 2, 3]
    assert stage(torch.ones(1, 1, 1)).item() == pytest.approx((1 + 2 + 3 * 1.5) / 3)
    with torch.no_grad():
        stage.queries[1] = math.log(3)
    signs = iter([-2.0, 3.0])
    stage.sublayers = {"f": lambda _block, h: next(signs) * h}
    second = 3 * (0.9 * 1 + 0.1 * -2)
    assert stage(torch.ones(1, 1, 1)).item() == pytest.approx((1 - 2 + second) / 3)


@pytest.mark.parametrize("name", MICRO)
def test_mixing_starts_uniform_and_gradients_reach_every_query_but_the_first(name):
    torch.manual_seed(0)
    model = create_model(name, variant="attnres", block_size=2)
    with tap(model.eval(), RoutedTap()) as capture:
        model(images(4)).logsumexp(dim=1).sum().backward()
        torch.testing.assert_close(capture.take(), torch.ones(4, len(routing_places(model))), rtol=0, atol=1e-6)
    for stage in model.modules():
        if isinstance(stage, AttentionResidualBlocks):
            reached = stage.queries.grad.abs().sum(dim=1) > 0
            assert reached.tolist() == [False] + [True] * (len(reached) - 1)
