"""Records from checkpoints: the same numbers as training stored, and timm models without routing."""

import json
import os
import socket

import numpy as np
import pytest
import torch
from scipy.special import softmax

from cache_builder.evaluate import Outputs
from cache_builder.extract import (
    ensemble_record,
    extract_checkpoint,
    extract_timm,
    mean_probability_logits,
    trained_record,
)
from cache_builder.models import create_model
from cache_builder.routing import routing_layers
from cache_builder.train import train
from engine.errors import CacheError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def finished(tmp_path_factory, digits):
    from cache_builder.config import RunConfig

    config = RunConfig(
        suite="tiny", backbone="micro_swin", dataset="digits", variant="block_ar", block_size=2, seed=1, epochs=3,
        image_size=16, batch_size=32, learning_rate=2e-3, warmup_epochs=1, entropy_stride=1, ensemble_last=2,
        limit_train=96, limit_test=60,
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("run")
    return config, folder / "checkpoint.pt", train(config, digits, folder, device="cpu")


def test_extracting_a_checkpoint_gives_what_training_stored(finished, digits):
    config, checkpoint, trained = finished
    stored = trained_record(config, digits, trained, CPU)
    again = extract_checkpoint(checkpoint, digits, device="cpu")
    assert again.run_id == stored.run_id == "tiny-micro_swin-digits-block_ar2-s1"
    np.testing.assert_allclose(again.logits, stored.logits, atol=1e-5)
    np.testing.assert_allclose(again.entropies, stored.entropies, atol=1e-5)
    assert again.epochs.equals(stored.epochs)
    assert [layer.n_sources for layer in again.layers] == [2, 2, 2, 2, 3, 3, 3, 3]
    assert again.epoch == 3


def test_record_holds_history_and_labels(finished, digits):
    config, _, trained = finished
    record = trained_record(config, digits, trained, CPU)
    assert record.labels.tolist() == digits.test.labels[:60].tolist()
    assert sorted(set(record.epochs["epoch"])) == [1, 2, 3]
    assert set(record.epoch_metrics["name"]) == {"train_loss", "test_accuracy"}
    last = record.epoch_metrics.query("name == 'test_accuracy' and epoch == 3")["value"].item()
    assert last == pytest.approx(record.accuracy)


def test_ensemble_is_the_mean_of_probabilities_and_profiles(finished, digits):
    config, _, trained = finished
    record = ensemble_record(config, digits, trained, CPU)
    expected = np.mean([softmax(member.logits.astype(float), axis=1) for member in trained.members], axis=0)
    np.testing.assert_allclose(softmax(record.logits.astype(float), axis=1), expected, atol=1e-6)
    np.testing.assert_allclose(
        record.entropies, np.mean([member.captured for member in trained.members], axis=0), atol=1e-6
    )
    assert record.run_id == f"{config.run_id}-last2"
    assert record.suite == "tiny-last2"
    assert record.config["member_epochs"] == [2, 3]


def test_mean_probability_by_hand():
    def outputs(probabilities):
        return Outputs(np.log(np.array([probabilities], dtype=np.float32)), np.empty((1, 0), np.float32), (), False)

    logits = mean_probability_logits([outputs([0.2, 0.8]), outputs([0.6, 0.4])])
    np.testing.assert_allclose(np.exp(logits), [[(0.2 + 0.6) / 2, (0.8 + 0.4) / 2]], rtol=1e-6)


def test_provenance_has_what_verify_wants_and_no_private_names(finished, digits):
    config, _, trained = finished
    record = trained_record(config, digits, trained, CPU)
    assert {"commit", "versions", "device", "seconds", "source", "data_fingerprint"} <= set(record.provenance)
    assert {"torch", "timm", "numpy", "python"} <= set(record.provenance["versions"])
    written = json.dumps([dict(record.provenance), dict(record.config)])
    assert socket.gethostname() not in written
    assert os.path.expanduser("~") + "/" not in written
    assert os.getcwd() not in written


@pytest.mark.parametrize("form", ["safetensors", "pth", "wrapped"])
def test_a_timm_checkpoint_becomes_a_run_with_block_norms(tmp_path, digits, form):
    from safetensors.torch import save_file

    torch.manual_seed(0)
    model = create_model("micro_vit", n_classes=10, image_size=16, channels=1).eval()
    path = tmp_path / f"weights.{'safetensors' if form == 'safetensors' else 'pth'}"
    if form == "safetensors":
        save_file(model.state_dict(), path)
    else:
        torch.save({"state_dict": model.state_dict()} if form == "wrapped" else model.state_dict(), path)
    record = extract_timm(path, digits, backbone="micro_vit", image_size=16, run_id="mine", device="cpu")
    assert record.n_layers == 0
    assert record.extra_names == tuple(f"block {number} norm" for number in range(1, 7))
    assert record.n_samples == len(digits.test.labels)
    assert record.config["checkpoint"] == path.name


def test_weights_that_do_not_fit_and_files_that_are_none_are_named(tmp_path, digits):
    torch.save(create_model("micro_deit", image_size=16, channels=1).state_dict(), tmp_path / "deit.pth")
    with pytest.raises(CacheError, match="does not fit micro_vit"):
        extract_timm(tmp_path / "deit.pth", digits, backbone="micro_vit", image_size=16, run_id="x", device="cpu")
    for name in ("bad.pth", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(CacheError, match="not a readable"):
            extract_timm(tmp_path / name, digits, backbone="micro_vit", image_size=16, run_id="x", device="cpu")


def test_an_inactive_block_ar_run_has_no_profile(tmp_path, digits, tiny_config):
    config = tiny_config(variant="block_ar", block_size=6, epochs=1, ensemble_last=0)
    trained = train(config, digits, tmp_path, device="cpu")
    assert routing_layers(trained.model) == []
    record = trained_record(config, digits, trained, CPU)
    assert record.n_layers == 0
    assert len(record.extra_names) == 6
