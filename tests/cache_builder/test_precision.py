"""Mixed precision: every model under CUDA's casting rules, and under the CPU's own bfloat16."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from cache_builder.models import BACKBONES, VARIANTS, create_model
from cache_builder.models.moe import balance_loss
from cache_builder.models.registry import SIZED
from cache_builder.models.routed import scores
from cache_builder.models.seams import token_grid
from cache_builder.precision import MODES, Precision
from cache_builder.taps import NormTap, RoutedTap, routing_places, tap
from cache_builder.train import train
from engine.core.errors import InvalidInput
from tests.cache_builder.cuda_rules import EmulatedAutocast

MICRO = [name for name in BACKBONES if name.startswith("micro")]


def model_of(name, variant):
    torch.manual_seed(0)
    model = create_model(name, variant=variant, block_size=3 if variant in SIZED else None)
    for stage in model.modules():
        if hasattr(stage, "queries"):
            torch.nn.init.normal_(stage.queries, std=0.5)
    return model


def forward_backward_capture(model, autocast):
    images, labels = torch.randn(2, 3, 32, 32), torch.tensor([1, 2])
    with autocast:
        tokens = model.forward_features(images)
        loss = cross_entropy(model.forward_head(tokens), labels)
        if hasattr(model, "drloc"):
            loss = loss + model.drloc(token_grid(model, tokens))
        if any(name.endswith("router.weight") for name, _ in model.named_parameters()):
            loss = loss + balance_loss(model)
    loss.backward()
    assert loss.dtype == torch.float32
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]  # a stage may have one source
    assert len(gradients) > 50
    assert all(gradient.isfinite().all() for gradient in gradients)
    how = RoutedTap() if routing_places(model) else NormTap()
    with torch.inference_mode(), tap(model.eval(), how) as captured, autocast:
        model(images)
        values = captured.take()
    with torch.inference_mode(), tap(model, how) as captured:
        model(images)
        exact = captured.take()
    assert values.dtype == torch.float32
    assert values.isfinite().all()
    torch.testing.assert_close(values, exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MICRO)
def test_every_model_runs_under_cudas_rules(name, variant, dtype, monkeypatch):
    EmulatedAutocast.install(monkeypatch)
    forward_backward_capture(model_of(name, variant), EmulatedAutocast("cuda", dtype=dtype))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MICRO)
def test_every_model_runs_under_the_cpus_bfloat16(name, variant):
    forward_backward_capture(model_of(name, variant), torch.autocast("cpu", dtype=torch.bfloat16))


@pytest.mark.parametrize("mode", ["fp16", "bf16"])
def test_a_run_trains_in_mixed_precision_as_on_a_gpu(mode, tmp_path, digits, tiny_config, monkeypatch):
    EmulatedAutocast.install(monkeypatch)
    config = tiny_config(backbone="micro_swin", epochs=2, clip_gradient_norm=1.0)
    trained = train(config, digits, tmp_path / mode, device="cpu", amp=mode)
    plain = train(config, digits, tmp_path / "off", device="cpu", amp="off")
    assert trained.members[-1].logits.dtype == trained.members[-1].captured.dtype == np.float32
    assert not np.array_equal(trained.members[-1].logits, plain.members[-1].logits)
    np.testing.assert_allclose(trained.members[-1].captured, plain.members[-1].captured, atol=0.05)


def test_the_loss_is_scaled_for_float16_only():
    device = torch.device("cpu")
    enabled = {mode: Precision(mode, device).scaler().is_enabled() for mode in MODES}
    assert enabled == {"auto": False, "off": False, "fp16": True, "bf16": False}
    with pytest.raises(InvalidInput, match="--amp"):
        Precision("half", device)


@pytest.mark.parametrize("mode", ["off", "bf16"])
def test_bfloat16_on_a_processor_goes_round_fused_attention(mode):
    """Its backward pass there takes longer than the rest of a micro model's step."""
    with Precision(mode, torch.device("cpu")).autocast():
        assert torch.is_autocast_enabled("cpu") is (mode == "bf16")
        assert torch.backends.cuda.flash_sdp_enabled() is (mode == "off")
    assert torch.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize(("has_bfloat16", "mode"), [(True, "bf16"), (False, "fp16")])
def test_auto_takes_what_the_gpu_has(has_bfloat16, mode, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_options: has_bfloat16)
    assert Precision("auto", torch.device("cuda")).mode == mode


def test_a_run_goes_on_in_another_precision(tmp_path, digits, tiny_config):
    """A scaler's state is there or not, as the precision was; neither keeps a run from going on in the other."""
    config = tiny_config(epochs=2)

    def stop(fraction, _text):
        if fraction == 0.5:
            raise KeyboardInterrupt

    for first, then in (("bf16", "fp16"), ("fp16", "off")):
        with pytest.raises(KeyboardInterrupt):
            train(config, digits, tmp_path / first, device="cpu", amp=first, progress=stop)
        assert train(config, digits, tmp_path / first, device="cpu", amp=then).member_epochs == [1, 2]


def test_scores_do_not_overflow_in_half_precision(monkeypatch):
    """A state of 300 in each of 512 channels: its product with a query of ones exceeds float16's 65,504."""
    EmulatedAutocast.install(monkeypatch)
    state, query = torch.full((1, 1, 512), 300.0), torch.ones(512)
    with EmulatedAutocast("cuda", dtype=torch.float16):
        score = scores(state.half(), query)
    torch.testing.assert_close(score, torch.tensor([512**0.5]))
