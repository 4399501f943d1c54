"""Attention-Residual models: counts, equivalences with plain timm, and the mixing formula written out naively."""

import math

import pytest
import torch
from torch import nn

from cache_builder.models import BACKBONES, VARIANTS, create_model
from cache_builder.models.registry import SIZED
from cache_builder.models.routed import Recorder, RoutedBlocks
from cache_builder.models.seams import (
    SUBLAYERS,
    SwinTransformerBlock,
    insert_experts,
    insert_routing,
    stages,
    token_grid,
)
from cache_builder.taps import RoutedTap, routing_places, tap
from engine.core import labels
from engine.core.errors import InvalidInput, UnknownName

MICRO = ("micro_vit", "micro_deit", "micro_swin")


def n_parameters(model):
    return sum(parameter.numel() for parameter in model.parameters())


def routed(model):
    return [module for module in model.modules() if isinstance(module, RoutedBlocks)]


def with_random_queries(model, seed=0):
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for stage in routed(model):
            stage.queries.copy_(torch.randn(stage.queries.shape, generator=generator) * 0.5)
            stage.norm_weights.copy_(1 + 0.3 * torch.randn(stage.norm_weights.shape, generator=generator))
    return model


def images(n=3, side=32):
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("name", "baseline", "added"),
    [("vit_base", 85_778_698, 36_864), ("deit_small", 21_660_308, 18_432), ("swin_tiny", 27_527_044, 17_664)],
)
def test_parameter_counts_equal_the_papers_table(name, baseline, added):
    with torch.device("meta"):  # counts need no memory
        assert n_parameters(create_model(name)) == baseline
        assert n_parameters(create_model(name, variant="full_ar")) == baseline + added
        assert n_parameters(create_model(name, variant="block_ar", block_size=4)) == baseline + added
        published = create_model(name, variant="attnres", block_size=4)
        outputs = sum(2 * stage.queries.shape[1] for stage in routed(published))  # each stage mixes its output too
        assert n_parameters(published) == baseline + added + outputs


@pytest.mark.parametrize(
    ("name", "variant", "block_size", "n_kept", "max_sources"),
    [
        ("swin_tiny", "full_ar", None, 16, 6),
        ("swin_tiny", "block_ar", 2, 8, 3),
        ("swin_tiny", "block_ar", 4, 4, 2),
        ("swin_tiny", "block_ar", 6, 0, None),
        ("vit_base", "full_ar", None, 22, 12),
        ("vit_base", "block_ar", 6, 12, 2),
        ("deit_small", "full_ar", None, 22, 12),
        ("micro_swin", "full_ar", None, 12, 6),
        ("micro_swin", "block_ar", 2, 8, 3),
        ("micro_deit", "block_ar", 3, 6, 2),
        ("vit_base", "attnres", 1, 24, 25),
        ("vit_base", "attnres", 6, 24, 5),
        (
            "swin_tiny",
            "attnres",
            4,
            24,
            4,
        ),  # stages of 4, 4, 12 and 4 sub-layers, all but the first mix, and the output
        ("micro_vit", "attnres", 3, 12, 5),
        ("micro_vit", "moe", None, 6, 4),
        ("micro_swin", "moe", None, 8, 4),
    ],
)
def test_kept_layers_follow_the_protocol(name, variant, block_size, n_kept, max_sources):
    with torch.device("meta"):
        layers = routing_places(create_model(name, variant=variant, block_size=block_size))
    assert len(layers) == n_kept
    assert len({layer.name for layer in layers}) == n_kept
    assert max((layer.n_sources for layer in layers), default=None) == max_sources


def test_swin_tiny_with_chunks_of_a_whole_stage_is_the_baseline_bit_for_bit():
    torch.manual_seed(0)
    plain = create_model("swin_tiny").eval()
    inactive = create_model("swin_tiny", variant="block_ar", block_size=6).eval()
    inactive.load_state_dict(plain.state_dict(), strict=False)
    batch = images(1, 224)
    with torch.no_grad():
        assert torch.equal(plain(batch), inactive(batch))


@pytest.mark.parametrize("name", MICRO)
def test_one_source_everywhere_is_the_plain_model_bit_for_bit(name):
    torch.manual_seed(0)
    plain = create_model(name).eval()
    inactive = with_random_queries(create_model(name, variant="block_ar", block_size=6)).eval()
    inactive.load_state_dict(plain.state_dict(), strict=False)
    with torch.no_grad():
        assert torch.equal(plain(images()), inactive(images()))


@pytest.mark.parametrize("name", MICRO)
def test_a_plain_checkpoint_fits_and_leaves_only_queries_and_norm_weights(name):
    model = create_model(name, variant="full_ar")
    result = model.load_state_dict(create_model(name).state_dict(), strict=False)
    assert not result.unexpected_keys
    assert {key.rpartition(".")[2] for key in result.missing_keys} == {"queries", "norm_weights"}
    assert len(result.missing_keys) == 2 * len(stages(model))


def test_all_variants_of_a_seed_start_from_the_same_backbone_weights():
    states = []
    for variant in VARIANTS:
        torch.manual_seed(5)
        states.append(
            create_model("micro_vit", variant=variant, block_size=3 if variant in SIZED else None).state_dict()
        )
    for name, value in states[0].items():
        assert all(torch.equal(value, state.get(name, value)) for state in states[1:])
    shared = [len(states[0].keys() & state.keys()) for state in states]
    assert [len(states[0]) - n for n in shared] == [24 * (variant == "moe") for variant in VARIANTS]  # 6 MLPs of 4


def naive_forward(model, batch, chunk):
    """The protocol's section 1 word by word: all sources normalised, stacked, softmaxed and mixed."""
    entropies = []

    def mixed(sources, query, weight):
        stacked = torch.stack(sources)  # (T, batch, ..., D)
        normalised = stacked / stacked.square().mean(dim=-1, keepdim=True).sqrt() * weight
        alpha = torch.softmax((normalised * query).sum(dim=-1), dim=0)
        if len(sources) > 1:
            entropy = -(alpha * alpha.log()).sum(dim=0) / math.log(len(sources))
            entropies.append(entropy.flatten(1).mean(dim=1))
        return (alpha.unsqueeze(-1) * stacked).sum(dim=0)

    def stage_forward(stage, state):
        starts = []
        for index, block in enumerate(stage.children()):
            if index % chunk == 0:
                starts.append(state)
            earlier = starts[: index // chunk]
            inputs = mixed([*earlier, state], stage.queries[2 * index], stage.norm_weights[2 * index])
            normed = block.norm1(inputs)
            state = state + (block._attn(normed) if hasattr(block, "_attn") else block.attn(normed))
            inputs = mixed([*earlier, state], stage.queries[2 * index + 1], stage.norm_weights[2 * index + 1])
            state = state + block.mlp(block.norm2(inputs))
        return state

    state = model.patch_embed(batch)
    if hasattr(model, "layers"):
        for stage in model.layers:
            state = stage_forward(stage.blocks, stage.downsample(state))
    else:
        state = stage_forward(model.blocks, model.norm_pre(model._pos_embed(state)))
    return model.forward_head(model.norm(state)), torch.stack(entropies, dim=1)


@pytest.mark.parametrize("name", MICRO)
@pytest.mark.parametrize(("variant", "chunk"), [("full_ar", 1), ("block_ar", 2), ("block_ar", 4)])
def test_forward_and_capture_equal_the_formula_written_out(name, variant, chunk):
    torch.manual_seed(0)
    model = create_model(name, variant=variant, block_size=chunk if variant == "block_ar" else None)
    model = with_random_queries(model).eval().double()
    batch = images().double()
    with torch.no_grad():
        expected_logits, expected_profile = naive_forward(model, batch, chunk)
        plain_logits = model(batch)
        with tap(model, RoutedTap()) as capture:
            captured_logits = model(batch)
            profile = capture.take()
    torch.testing.assert_close(plain_logits, expected_logits, rtol=1e-10, atol=1e-10)
    assert torch.equal(captured_logits, plain_logits)
    torch.testing.assert_close(profile, expected_profile, rtol=1e-10, atol=1e-10)
    assert profile.std() > 0.01  # random queries are far from uniform, so the comparison means something


@pytest.mark.parametrize("name", MICRO)
def test_profile_is_one_at_initialisation_and_within_bounds_after(name):
    model = create_model(name, variant="full_ar").eval()
    with torch.no_grad(), tap(model, RoutedTap()) as capture:
        model(images(5))
        torch.testing.assert_close(capture.take(), torch.ones(5, len(routing_places(model))), rtol=0, atol=1e-6)
        for stage in routed(model):
            stage.queries.normal_(std=20)
        model(images(5))
        profile = capture.take()
    assert profile.min() >= 0
    assert profile.max() <= 1
    assert profile.max() < 0.9


@pytest.mark.parametrize(("name", "chunk"), [("micro_vit", 1), ("micro_deit", 3), ("micro_swin", 2)])
def test_gradients_reach_every_active_query_and_no_other(name, chunk):
    torch.manual_seed(0)
    model = create_model(name, variant="block_ar", block_size=chunk).train()
    model(images(4)).logsumexp(dim=1).sum().backward()
    for stage in routed(model):
        if stage.queries.grad is None:  # a stage no deeper than one chunk never mixes
            assert stage.depth <= chunk
            continue
        for row in range(2 * stage.depth):
            active = stage.n_sources(row) > 1
            assert bool(stage.queries.grad[row].abs().sum() > 0) == active
            assert stage.norm_weights.grad[row].abs().sum() == 0  # w is zero, so g has no effect yet


def test_gradient_of_the_mixture_agrees_with_the_naive_forward():
    torch.manual_seed(0)
    model = with_random_queries(create_model("micro_vit", variant="full_ar")).double()
    model.eval()
    gradients = []
    for forward in (model, lambda batch: naive_forward(model, batch, 1)[0]):
        model.zero_grad()
        forward(images().double()).square().sum().backward()
        gradients.append({name: parameter.grad.clone() for name, parameter in model.named_parameters()})
    for name, value in gradients[0].items():
        torch.testing.assert_close(value, gradients[1][name], rtol=1e-8, atol=1e-10)


def test_capture_is_off_outside_its_context_and_wants_one_pass_per_take():
    model = create_model("micro_vit", variant="full_ar").eval()
    with torch.no_grad(), tap(model, RoutedTap()) as capture:
        model(images())
        model(images())
        with pytest.raises(InvalidInput, match="one forward pass"):
            capture.take()
    assert all(stage.recorder is None for stage in routed(model))


@pytest.mark.parametrize("largest", [2**18, 500, 1])
def test_recorder_holds_little_alpha_and_its_size_changes_nothing(largest, monkeypatch):
    monkeypatch.setattr(Recorder, "LARGEST_WAIT", largest)
    recorder = Recorder()
    shapes = [(2, 32), (2, 32), (3, 32), (5, 32), (2, 8), (3, 8)]  # two stages: 8 and 2 tokens for each of 4 samples
    alphas = [torch.softmax(torch.randn(shape, dtype=torch.float64), dim=0) for shape in shapes]
    for alpha in alphas:
        recorder.add(alpha, batch=4)
        assert sum(waiting.numel() for waiting in recorder.waiting) <= max(largest, alpha.numel())
    expected = [torch.special.entr(a).sum(0).view(4, -1).mean(1) / math.log(len(a)) for a in alphas]
    torch.testing.assert_close(recorder.take(), torch.stack(expected, dim=1))
    assert recorder.take().numel() == 0


def test_recorder_counts_a_weight_of_zero_as_no_entropy():
    recorder = Recorder()
    recorder.add(torch.tensor([[1.0, 0.5], [0.0, 0.5], [0.0, 0.0]]), batch=2)
    torch.testing.assert_close(recorder.take(), torch.tensor([[0.0], [math.log(2) / math.log(3)]]))


def test_recorder_keeps_full_precision_under_autocast():
    alpha = torch.softmax(torch.randn(4, 24), dim=0)
    profiles = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            recorder = Recorder()
            recorder.add(alpha, batch=3)
            profiles.append(recorder.take())
    assert torch.equal(profiles[0], profiles[1])


def test_drloc_predicts_offsets_that_a_position_code_reveals():
    torch.manual_seed(0)
    model = create_model("micro_vit", variant="drloc")
    grid = torch.zeros(2, 4, 4, 64)
    grid[..., 0] = torch.arange(4).view(4, 1) / 4
    grid[..., 1] = torch.arange(4).view(1, 4) / 4
    optimizer = torch.optim.Adam(model.drloc.parameters(), lr=3e-3)
    losses = []
    for _ in range(150):
        loss = model.drloc(grid)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-10:]) < 0.25 * sum(losses[:10])


def test_drloc_leaves_the_forward_pass_alone_and_sees_the_patch_tokens():
    torch.manual_seed(3)
    plain = create_model("micro_deit").eval()
    torch.manual_seed(3)
    drloc = create_model("micro_deit", variant="drloc").eval()
    with torch.no_grad():
        assert torch.equal(plain(images()), drloc(images()))
        tokens = drloc.forward_features(images())
        assert torch.equal(token_grid(drloc, tokens)[:, 1, 2], tokens[:, 2 + 4 + 2])  # two prefix tokens, rows of 4


@pytest.mark.parametrize(
    ("name", "n_kept"),
    [
        ("vit_tiny_patch16_224", 16),
        ("swin_s3_tiny_224", 4),  # depths 2, 2, 6, 2: only the third stage has a second chunk of four
        ("vit_base_patch16_rpn_224", 16),
        ("vit_small_patch16_18x2_224", 28),
        ("vit_pwee_patch16_reg1_gap_256", 12),  # one sub-layer in a block
        ("vit_dpwee_patch16_reg1_gap_256", 12),
        ("test_vit3", 10),
        ("deit3_small_patch16_224", 16),
    ],
)
def test_any_other_timm_transformer_works_by_name(name, n_kept):
    model = create_model(name, variant="block_ar", block_size=4, n_classes=7, image_size=64).eval()
    with torch.no_grad(), tap(model, RoutedTap()) as capture:
        assert model(images(1, 64)).shape == (1, 7)
        profile = capture.take()
    assert len(capture.names) == n_kept
    torch.testing.assert_close(profile, torch.ones(1, n_kept))


@pytest.mark.parametrize("kind", SUBLAYERS)
def test_sublayers_on_their_residual_connections_are_the_block(kind):
    torch.manual_seed(0)
    at = {"input_resolution": (8, 8), "window_size": 4} if kind is SwinTransformerBlock else {}
    block = kind(dim=32, num_heads=2, **at).eval()
    state = torch.randn(2, 8, 8, 32) if at else torch.randn(2, 5, 32)
    with torch.no_grad():
        expected = block(state)
        for sublayer in SUBLAYERS[kind].values():
            state = state + sublayer(block, state)
    torch.testing.assert_close(state, expected)


@pytest.mark.parametrize(
    ("name", "settings", "error", "message"),
    [
        ("vit_bse", {}, UnknownName, "micro_vit"),
        ("micro_vit", {"variant": "ful_ar"}, UnknownName, "full_ar"),
        ("micro_vit", {"variant": "block_ar"}, InvalidInput, "block_size"),
        ("micro_vit", {"variant": "full_ar", "block_size": 2}, InvalidInput, "block_size"),
        ("micro_vit", {"variant": "attnres"}, InvalidInput, "block_size"),
        ("micro_vit", {"variant": "moe", "n_experts": 1}, InvalidInput, "n_experts"),
        ("micro_vit", {"variant": "moe", "top_k": 5}, InvalidInput, "top_k: expected at most the 4 experts, got 5"),
        ("resnet10t", {"variant": "full_ar"}, InvalidInput, "VisionTransformer"),
        ("twins_svt_small", {"image_size": 40}, InvalidInput, "image_size: expected a size .* such as 224, got 40"),
    ],
)
def test_wrong_requests_name_the_argument(name, settings, error, message):
    with torch.device("meta"), pytest.raises(error, match=message):
        create_model(name, **settings)


def test_blocks_of_an_unknown_kind_are_refused_by_name():
    model = create_model("micro_vit")
    model.blocks = nn.Sequential(nn.Identity())
    with pytest.raises(InvalidInput, match="got Identity"):
        insert_routing(model, 1, RoutedBlocks)
    with pytest.raises(InvalidInput, match="an MLP each, got Identity"):
        insert_experts(model, 4, 1)


def test_running_blocks_one_by_one_is_refused():
    model = create_model("micro_vit", variant="full_ar")
    model.set_grad_checkpointing(True)
    with pytest.raises(TypeError, match="one by one"):
        model(images())


def test_every_registered_backbone_has_a_positive_input_size():
    assert all(entry.image_size in (32, 224) for entry in BACKBONES.values())


def test_every_variant_has_a_name_for_people():
    assert set(labels.VARIANTS) == set(VARIANTS)
