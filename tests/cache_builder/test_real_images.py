"""A slice of the real Fashion-MNIST through the whole chain, where its files are."""

import numpy as np
import pytest

from cache_builder.checkpoint import load_checkpoint
from cache_builder.datasets import load_dataset, registry
from cache_builder.extract import extract_checkpoint
from cache_builder.train import train


@pytest.fixture(scope="module")
def fashion():
    if not registry.DEBIAN_FASHION_MNIST.exists():
        pytest.skip("Fashion-MNIST is not on this machine: apt-get install dataset-fashion-mnist")
    return load_dataset("fashion-mnist", ".")


def test_the_files_are_the_published_ones(fashion):
    assert fashion.train.images.shape == (60_000, 1, 28, 28)
    assert np.bincount(fashion.test.labels).tolist() == [1_000] * 10
    assert fashion.moments[0].item() / 255 == pytest.approx(0.2860, abs=5e-5)  # as everyone normalises it
    assert fashion.moments[1].item() / 255 == pytest.approx(0.3530, abs=5e-5)


def test_a_micro_model_learns_a_slice_and_is_extracted(tmp_path, fashion, tiny_config):
    config = tiny_config(
        dataset="fashion-mnist", image_size=32, epochs=2, limit_train=1_024, limit_test=200, entropy_stride=2
    )
    trained = train(config, fashion, tmp_path, device="cpu")
    record = extract_checkpoint(load_checkpoint(tmp_path / "checkpoint.pt"), fashion, device="cpu")
    np.testing.assert_allclose(record.logits, trained.members[-1].logits, atol=1e-5)
    assert record.labels.tolist() == fashion.test.labels[:200].tolist()
    assert record.accuracy > 0.3  # 64 steps; ten classes: chance is 0.1
    assert record.n_layers == 10
