"""Mixed precision: every model under CUDA's casting rules, and under the CPU's own bfloat16."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from cache_builder.block_norms import capture_block_norms
from cache_builder.models import BACKBONES, VARIANTS, create_model
from cache_builder.models.seams import token_grid
from cache_builder.routing import capture_entropies, routing_layers
from tests.cache_builder.cuda_rules import EmulatedAutocast

MICRO = [name for name in BACKBONES if name.startswith("micro")]


def model_of(name, variant):
    torch.manual_seed(0)
    model = create_model(name, variant=variant, block_size=2 if variant == "block_ar" else None)
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
    loss.backward()
    assert loss.dtype == torch.float32
    gradients = [weight.grad for weight in model.parameters() if weight.grad is not None]  # a stage may have one source
    assert len(gradients) > 50 and all(gradient.isfinite().all() for gradient in gradients)
    capture = capture_entropies if routing_layers(model) else capture_block_norms
    with torch.inference_mode(), capture(model.eval()) as captured, autocast:
        model(images)
        values = captured.take()
    with torch.inference_mode(), capture(model) as captured:
        model(images)
        exact = captured.take()
    assert values.dtype == torch.float32 and values.isfinite().all()
    torch.testing.assert_close(values, exact, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MICRO)
def test_every_model_runs_under_cudas_rules(name, variant, dtype, monkeypatch):
    monkeypatch.setattr(torch, "autocast", EmulatedAutocast)
    forward_backward_capture(model_of(name, variant), EmulatedAutocast("cuda", dtype=dtype))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("name", MICRO)
def test_every_model_runs_under_the_cpus_bfloat16(name, variant):
    forward_backward_capture(model_of(name, variant), torch.autocast("cpu", dtype=torch.bfloat16))
