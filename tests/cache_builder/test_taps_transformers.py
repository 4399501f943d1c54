"""Routers and attention of tiny Hugging Face models with random weights, against what they return themselves."""

from __future__ import annotations

import math

import pytest
import torch

transformers = pytest.importorskip("transformers")

from cache_builder.taps import AttentionTap, RouterTap, SoftmaxTap, tap  # noqa: E402

SIZES = {
    "vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 32,
}  # fmt: skip


def mixtral(kind: str = "CausalLM", **changes: object) -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.MixtralConfig(**SIZES, num_local_experts=4, num_experts_per_tok=2, pad_token_id=0, **changes)
    return getattr(transformers, f"MixtralFor{kind}")(config).eval()


def qwen() -> torch.nn.Module:
    torch.manual_seed(0)
    config = transformers.Qwen2MoeConfig(
        **SIZES, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=8, shared_expert_intermediate_size=8
    )
    return transformers.Qwen2MoeForCausalLM(config).eval()


def tokens() -> torch.Tensor:
    return torch.randint(1, 40, (3, 7), generator=torch.Generator().manual_seed(1))


def entropy(alpha: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(alpha.double()).sum(-1) / math.log(alpha.shape[-1])


@pytest.mark.parametrize("build", [mixtral, qwen])
@torch.no_grad()
def test_routers(build):
    model = build()
    returned = model(input_ids=tokens(), output_router_logits=True).router_logits
    expected = torch.stack([entropy(layer.softmax(-1)).reshape(3, 7).mean(1) for layer in returned], dim=1)
    bare = model(input_ids=tokens()).logits
    n_experts = returned[0].shape[-1]
    for how in (RouterTap(), SoftmaxTap(rank=2, size=n_experts)):
        with tap(model, how) as capture:
            assert torch.equal(model(input_ids=tokens()).logits, bare)  # which drops the router logits
            torch.testing.assert_close(capture.take().double(), expected, atol=1e-6, rtol=0)
            model(input_ids=tokens())
            by_token = capture.take(21)
        torch.testing.assert_close(by_token.reshape(3, 7, 2).mean(1).double(), expected, atol=1e-6, rtol=0)
        assert [place.n_sources for place in capture.places] == [n_experts] * 2
        assert capture.names[0].startswith("model.layers.0.mlp.gate")


@torch.no_grad()
def test_a_model_that_has_no_place_for_router_logits_in_what_it_returns():
    model = mixtral("SequenceClassification", num_labels=3)
    with tap(model, RouterTap()) as capture:
        assert "router_logits" not in model(input_ids=tokens())
        profile = capture.take()
    inner = model.model(input_ids=tokens(), output_router_logits=True).router_logits
    expected = torch.stack([entropy(layer.softmax(-1)).reshape(3, 7).mean(1) for layer in inner], dim=1)
    torch.testing.assert_close(profile.double(), expected, atol=1e-6, rtol=0)


@torch.no_grad()
def test_router_logits_of_a_model_whose_gates_nobody_can_name():
    inner = mixtral()

    class Hidden(torch.nn.Module):
        def forward(self, input_ids: torch.Tensor) -> object:
            return inner(input_ids=input_ids, output_router_logits=True)

    with tap(inner, RouterTap()) as capture:
        inner(input_ids=tokens())
        expected = capture.take()
    model = Hidden()
    with tap(model, RouterTap()) as capture:
        model(tokens())
        torch.testing.assert_close(capture.take(), expected)
    assert capture.names == ["layer 1 router", "layer 2 router"]


@torch.no_grad()
def test_attention_fused_and_plain():
    profiles = {}
    for kind in ("sdpa", "eager"):
        model = mixtral(attn_implementation=kind)
        bare = model(input_ids=tokens()).logits
        with tap(model, AttentionTap()) as capture:
            assert torch.equal(model(input_ids=tokens()).logits, bare)
            profiles[kind] = capture.take()
    maps = model(input_ids=tokens(), output_attentions=True).attentions
    expected = torch.stack([entropy(layer).mean((1, 2)) for layer in maps], dim=1)
    torch.testing.assert_close(profiles["eager"].double(), expected, atol=1e-6, rtol=0)
    torch.testing.assert_close(profiles["sdpa"], profiles["eager"], atol=1e-6, rtol=0)


@torch.no_grad()
def test_survey_proposes_routers_and_attention():
    survey = SoftmaxTap.survey(mixtral(), {"input_ids": tokens()})
    assert survey.proposals == {"routers": "softmax:axis=1,rank=2,size=4", "attention": "attention"}
