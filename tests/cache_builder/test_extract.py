"""Records from checkpoints: the same numbers as training stored, and timm models without routing."""

import json
import os
import socket
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import softmax

from cache_builder.checkpoint import load_checkpoint
from cache_builder.datasets import ImageData, Split, StoredData
from cache_builder.datasets.readers import Deferred
from cache_builder.evaluate import Outputs
from cache_builder.extract import (
    Subset,
    ensemble_record,
    extract_checkpoint,
    extract_timm,
    mean_probability_logits,
    trained_record,
)
from cache_builder.models import create_model
from cache_builder.taps import routing_places
from cache_builder.train import train
from engine.core.errors import CacheError, InvalidInput

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
    again = extract_checkpoint(load_checkpoint(checkpoint), digits, device="cpu")
    assert again.run_id == stored.run_id == "tiny-micro_swin-digits-block_ar2-s1"
    np.testing.assert_allclose(again.logits, stored.logits, atol=1e-5)
    np.testing.assert_allclose(again.entropies, stored.entropies, atol=1e-5)
    assert again.epochs.equals(stored.epochs)
    assert [layer.n_sources for layer in again.layers] == [2, 2, 2, 2, 3, 3, 3, 3]
    assert again.epoch == 3


def test_a_checkpoint_of_other_images_or_another_model_is_refused(finished, digits):
    _, checkpoint, _ = finished
    state = load_checkpoint(checkpoint)
    other = replace(digits, test=Split(digits.test.images[::-1], digits.test.labels))
    with pytest.raises(CacheError, match="trained on other images"):
        extract_checkpoint(state, other, device="cpu")
    misfit = {**state, "config": {**state["config"], "backbone": "micro_vit"}}
    with pytest.raises(CacheError, match="does not fit its config"):
        extract_checkpoint(misfit, digits, device="cpu")


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
    assert record.config["image_size"] == 16
    mean, deviation = (moment.item() / 255 for moment in digits.moments)  # of the data: timm knows no micro_vit
    assert record.config["mean"] == [pytest.approx(mean)]
    assert record.config["std"] == [pytest.approx(deviation)]


@pytest.fixture(scope="module")
def colourful():
    """Ten images to train on and ten to test on, of three channels each."""
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 32, 32), dtype=np.uint8)
    labels = np.arange(20) % 10
    return ImageData("noise", Split(pixels[:10], labels[:10]), Split(pixels[10:], labels[10:]), 10, True, 0)


@pytest.fixture(scope="module")
def resnet(tmp_path_factory):
    torch.manual_seed(0)
    model = create_model("resnet10t", n_classes=10).eval()
    path = tmp_path_factory.mktemp("timm") / "resnet.pth"
    torch.save(model.state_dict(), path)
    return model, path


def test_a_convolutional_timm_model_is_fed_as_timm_feeds_it(colourful, resnet):
    model, path = resnet
    record = extract_timm(path, colourful, backbone="resnet10t", image_size=48, run_id="cnn", device="cpu")
    assert record.extra_names == ("act1 norm", *(f"layer{number} norm" for number in range(1, 5)))
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
    batch = (torch.from_numpy(colourful.test.images) / 255 - mean) / std
    with torch.no_grad():
        expected = model(torch.nn.functional.interpolate(batch, size=48, mode="bilinear"))
    np.testing.assert_allclose(record.logits, expected.numpy(), atol=1e-4)
    assert (record.config["mean"], record.config["image_size"]) == ([0.485, 0.456, 0.406], 48)


def test_the_normalisation_may_be_given(colourful, resnet):
    def extracted(**choice):
        return extract_timm(
            resnet[1], colourful, backbone="resnet10t", image_size=32, run_id="cnn", device="cpu", **choice
        )

    given = extracted(mean=[0.5], std=[0.25, 0.5, 0.75])
    assert (given.config["mean"], given.config["std"]) == ([0.5] * 3, [0.25, 0.5, 0.75])
    assert not np.allclose(given.logits, extracted().logits)
    for choice, name in (
        ({"mean": [0.5, 0.5]}, "--mean"), ({"mean": [128.0]}, "--mean"), ({"std": [0.0]}, "--std"),
        ({"std": [float("nan")]}, "--std"),
    ):  # fmt: skip
        with pytest.raises(InvalidInput, match=name):
            extracted(**choice)


def test_one_channel_is_normalised_as_the_data(tmp_path, digits):
    torch.save(create_model("resnet10t", channels=1).state_dict(), tmp_path / "grey.pth")
    record = extract_timm(
        tmp_path / "grey.pth", digits, backbone="resnet10t", image_size=16, run_id="grey", device="cpu"
    )
    assert record.config["mean"] == [pytest.approx(digits.moments[0].item() / 255)]


def test_weights_that_do_not_fit_and_files_that_are_none_are_named(tmp_path, digits):
    torch.save(create_model("micro_deit", image_size=16, channels=1).state_dict(), tmp_path / "deit.pth")
    with pytest.raises(CacheError, match="does not fit micro_vit"):
        extract_timm(tmp_path / "deit.pth", digits, backbone="micro_vit", image_size=16, run_id="x", device="cpu")
    for name in ("bad.pth", "bad.safetensors"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(CacheError, match="not a readable"):
            extract_timm(tmp_path / name, digits, backbone="micro_vit", image_size=16, run_id="x", device="cpu")


@pytest.mark.parametrize("content", [torch.zeros(3), [1, 2], {1: torch.zeros(3)}, {"head.weight": "text"}])
def test_a_torch_file_without_parameters_is_named(tmp_path, digits, content):
    torch.save(content, tmp_path / "odd.pth")
    with pytest.raises(CacheError, match=r"odd.pth"):
        extract_timm(tmp_path / "odd.pth", digits, backbone="micro_vit", image_size=16, run_id="x", device="cpu")


def test_a_timm_model_that_lists_only_its_head_has_norms_of_its_blocks(colourful, tmp_path):
    torch.save(create_model("convit_tiny", image_size=32).state_dict(), tmp_path / "convit.pth")
    record = extract_timm(
        tmp_path / "convit.pth", colourful, backbone="convit_tiny", image_size=32, run_id="x", device="cpu"
    )
    assert record.extra_names == tuple(f"blocks.{number} norm" for number in range(12))


def test_an_inactive_block_ar_run_has_no_profile(tmp_path, digits, tiny_config):
    config = tiny_config(variant="block_ar", block_size=6, epochs=1, ensemble_last=0)
    trained = train(config, digits, tmp_path, device="cpu")
    assert routing_places(trained.model) == ()
    record = trained_record(config, digits, trained, CPU)
    assert record.n_layers == 0
    assert len(record.extra_names) == 6


def test_a_subset_is_drawn_by_its_seed_and_only_test_images_are_read(finished, digits):
    _, checkpoint, _ = finished
    state = load_checkpoint(checkpoint)
    whole = extract_checkpoint(state, digits, device="cpu")
    stored = StoredData("digits", None, Deferred(lambda: digits.test), 10, flips=False, shift=1)
    reports = []
    some = extract_checkpoint(
        state, stored, subset=Subset(20), device="cpu", progress=lambda done, text: reports.append((done, text))
    )
    rows = np.sort(np.random.default_rng(42).permutation(60)[:20])
    np.testing.assert_allclose(some.logits, whole.logits[rows], atol=1e-5)
    assert some.labels.tolist() == whole.labels[rows].tolist()
    assert (some.config["subset"], some.config["subset_seed"]) == (20, 42)
    assert some.provenance["data_fingerprint"] != whole.provenance["data_fingerprint"]
    assert reports[-1][0] == 1
    assert "20 of 20 images" in reports[-1][1]
    assert reports[-1][1].endswith("images per second")


def test_an_ensemble_of_many_classes_keeps_confidence_but_no_logits(finished, digits):
    config, _, trained = finished
    wide = [
        replace(member, logits=np.random.default_rng(seed).normal(size=(60, 60)).astype(np.float32))
        for seed, member in enumerate(trained.members)
    ]
    record = ensemble_record(config, replace(digits, n_classes=60), replace(trained, members=wide), CPU)
    expected = np.mean([softmax(member.logits.astype(float), axis=1) for member in wide], axis=0)
    assert record.logits is None
    assert record.n_classes == 60
    np.testing.assert_allclose(record.confidence, expected.max(axis=1), atol=1e-6)
    assert record.predictions.tolist() == expected.argmax(axis=1).tolist()
