"""Mixtures of experts: routed MLPs against every expert on every token, their weights and the load-balancing loss."""

import pytest
import torch
from torch import nn

from cache_builder.models import create_model
from cache_builder.models.moe import RoutedMlp, balance_loss
from cache_builder.taps import RoutedTap, routing_places, tap
from cache_builder.train import build_model, loss_of


def routed_mlp(top_k, n_experts=3, dim=4):
    torch.manual_seed(0)
    mlp = nn.Sequential(nn.Linear(dim, 8), nn.GELU(), nn.Linear(8, dim))
    made = RoutedMlp(mlp, dim, n_experts, top_k, "here")
    nn.init.normal_(made.router.weight)
    for expert in made.experts:
        nn.init.normal_(expert[2].weight)
    return made


@pytest.mark.parametrize("top_k", [1, 2, 3])
def test_every_token_gets_its_best_experts_by_their_weights(top_k):
    mlp = routed_mlp(top_k)
    state = torch.randn(2, 5, 4)
    probability = (state @ mlp.router.weight.T).softmax(dim=-1)
    threshold = probability.sort(dim=-1, descending=True).values[..., top_k - 1 : top_k]
    weights = probability * (probability >= threshold)
    if top_k > 1:
        weights = weights / weights.sum(dim=-1, keepdim=True)  # GShard; Switch leaves the probability
    everything = torch.stack([expert(state) for expert in mlp.experts], dim=-1)
    torch.testing.assert_close(mlp(state), (everything * weights.unsqueeze(2)).sum(dim=-1))
    alone = torch.cat([mlp(sample.unsqueeze(0)) for sample in state])
    torch.testing.assert_close(mlp(state), alone)  # no token is dropped for another sample's sake


@pytest.mark.parametrize(
    ("top_k", "expected"),
    [(1, 3 * (1.0 * 0.5 + 0.0 * 0.3 + 0.0 * 0.2)), (2, 3 * (0.5 * 0.5 + 0.5 * 0.3 + 0.0 * 0.2))],
)
def test_load_balancing_loss_by_hand(top_k, expected):
    """Both tokens have p = (0.5, 0.3, 0.2), so f is (1, 0, 0) for the first choice alone, (1/2, 1/2, 0) for two."""
    mlp = routed_mlp(top_k, dim=1)
    with torch.no_grad():
        mlp.router.weight.copy_(torch.tensor([[0.5], [0.3], [0.2]]).log())
    mlp(torch.ones(1, 2, 1))
    assert mlp.balance.item() == pytest.approx(expected)


def test_an_even_load_has_a_loss_of_one_for_each_router():
    mlp = routed_mlp(1, n_experts=2, dim=2)
    with torch.no_grad():
        mlp.router.weight.copy_(torch.eye(2))
    both = torch.tensor([[[0.0, 5.0], [5.0, 0.0]]])
    mlp(both)
    assert mlp.balance.item() == pytest.approx(1.0)
    model = nn.Sequential(mlp, routed_mlp(3, dim=2))
    model(both)
    assert balance_loss(model).item() == pytest.approx(2.0)  # all three experts of the second are always chosen


def test_gradients_reach_router_and_experts_and_training_adds_the_loss(tiny_config):
    config = tiny_config(variant="moe", top_k=1, balance_weight=0.0)
    model = build_model(config, 10, 1)
    images, labels = torch.randn(16, 1, 16, 16), torch.arange(16) % 10
    plain = loss_of(model, images, labels, config)
    plain.backward()
    for module in model.modules():
        if isinstance(module, RoutedMlp):
            assert module.router.weight.grad.abs().sum() > 0  # through the weight of the chosen expert alone
            assert sum(expert.fc1.weight.grad is not None for expert in module.experts) >= 1
    weighted = loss_of(model, images, labels, tiny_config(variant="moe", balance_weight=0.5))
    torch.testing.assert_close(weighted, plain + 0.5 * balance_loss(model))


@pytest.mark.parametrize("name", ["micro_vit", "micro_swin"])
def test_profile_is_the_entropy_of_each_routers_softmax(name):
    torch.manual_seed(0)
    model = create_model(name, variant="moe", n_experts=5, top_k=2).eval()
    inputs, expected = {}, []
    for path, module in model.named_modules():
        if isinstance(module, RoutedMlp):
            nn.init.normal_(module.router.weight)
            module.register_forward_pre_hook(lambda _module, args, path=path: inputs.update({path: args[0]}))
    with torch.no_grad(), tap(model, RoutedTap()) as capture:
        model(torch.randn(3, 3, 32, 32))
        profile = capture.take()
        for path, state in inputs.items():
            weight = model.get_submodule(path).router.weight
            entropy = torch.distributions.Categorical(logits=state.flatten(1, -2) @ weight.T).entropy()
            expected.append(entropy.mean(dim=1) / torch.log(torch.tensor(5.0)))
    torch.testing.assert_close(profile, torch.stack(expected, dim=1), rtol=1e-5, atol=1e-6)
    assert capture.names[-1] == ("block 6 router" if name == "micro_vit" else "stage 2 block 6 router")
    assert {layer.n_sources for layer in routing_places(model)} == {5}
