"""Evaluation in batches against one pass over everything, and what it leaves behind."""

import numpy as np
import pytest
import torch

from cache_builder import evaluate as module
from cache_builder.datasets import to_input
from cache_builder.evaluate import evaluate
from cache_builder.models import create_model
from cache_builder.taps import RoutedTap, tap

CPU = torch.device("cpu")


def test_batches_equal_one_pass(digits, monkeypatch):
    torch.manual_seed(0)
    model = create_model("micro_vit", variant="full_ar", image_size=16, channels=1)
    with torch.no_grad():
        model.blocks.queries.normal_()
    split = digits.test.take(50)
    monkeypatch.setattr(module, "EVALUATION_BATCH", 16)  # 16 + 16 + 16 + 2
    outputs = evaluate(model, split, digits.moments, 16, CPU)
    model.eval()
    with torch.no_grad(), tap(model, RoutedTap()) as capture:
        logits = model(to_input(torch.from_numpy(split.images), digits.moments, 16))
        np.testing.assert_allclose(outputs.captured, capture.take().numpy(), atol=1e-6)
    np.testing.assert_allclose(outputs.logits, logits.numpy(), atol=1e-5)
    assert outputs.is_routing


def test_the_model_goes_back_to_training_mode_and_keeps_its_statistics(digits):
    model = create_model("micro_vit", image_size=16, channels=1).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    outputs = evaluate(model, digits.test.take(20), digits.moments, 16, CPU)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not outputs.is_routing
    assert outputs.names[0] == "block 1 norm"


def test_the_mode_comes_back_after_a_failure_too(digits):
    model = create_model("micro_vit", image_size=16, channels=3).train()
    with pytest.raises(RuntimeError):  # images of one channel
        evaluate(model, digits.test.take(5), digits.moments, 16, CPU)
    assert model.training


def test_accuracy_by_hand():
    outputs = module.Outputs(
        np.array([[1, 2], [3, 0], [0, 1], [5, 4]], dtype=np.float32), np.empty((4, 0), dtype=np.float32), (), False
    )
    assert outputs.accuracy(np.array([1, 0, 0, 1])) == 2 / 4
