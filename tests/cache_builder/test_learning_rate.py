"""The learning rate by hand, and which parameters are decayed."""

import pytest
import torch

from cache_builder.models import create_model
from cache_builder.train import cosine_with_warmup, make_optimizer, set_rate


def test_warm_up_is_linear_and_the_cosine_ends_near_zero():
    rates = [cosine_with_warmup(step, n_steps=12, n_warmup=4) for step in range(12)]
    assert rates[:4] == [0.25, 0.5, 0.75, 1.0]
    assert rates[4] == 1.0  # cos(0)
    assert rates[8] == pytest.approx(0.5)  # half way down
    assert rates[11] == pytest.approx(0.5 * (1 + torch.cos(torch.tensor(torch.pi * 7 / 8)).item()))


def test_schedule_without_warm_up_starts_at_one():
    assert cosine_with_warmup(0, n_steps=3, n_warmup=0) == 1.0


def test_groups_cover_every_parameter_once_and_spare_the_queries_from_decay():
    model = create_model("micro_swin", variant="full_ar")
    optimizer = make_optimizer(model, learning_rate=1e-3, weight_decay=0.05, query_learning_rate=1e-2)
    by_parameter = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(by_parameter) == len(list(model.parameters())) == sum(len(g["params"]) for g in optimizer.param_groups)
    for name, parameter in model.named_parameters():
        group = by_parameter[id(parameter)]
        assert group["base_rate"] == (1e-2 if name.endswith("queries") else 1e-3)
        plain_matrix = name.endswith("weight") and parameter.ndim > 1
        assert group["weight_decay"] == (0.05 if plain_matrix else 0.0)


def test_rates_scale_from_their_own_base():
    model = create_model("micro_vit", variant="full_ar")
    optimizer = make_optimizer(model, 1e-3, 0.05, 1e-2)
    for factor in (0.5, 0.25):
        set_rate(optimizer, factor)
        assert {group["lr"] for group in optimizer.param_groups} == {1e-3 * factor, 1e-2 * factor}
