"""Starting from other weights, and choosing the epoch on validation images."""

import numpy as np
import pytest
import torch

from cache_builder import initial
from cache_builder.checkpoint import load_checkpoint
from cache_builder.extract import extract_checkpoint, trained_record
from cache_builder.initial import start_from
from cache_builder.models import create_model
from cache_builder.one_run import Places, is_finished, run_one
from cache_builder.progress import quiet
from cache_builder.train import train
from engine.core.errors import CacheError, UnknownName
from engine.store import read_shard

CPU = torch.device("cpu")


@pytest.fixture
def plain(tmp_path):
    torch.manual_seed(1)
    model = create_model("micro_swin", n_classes=10)
    torch.save(model.state_dict(), tmp_path / "plain.pth")
    return model, str(tmp_path / "plain.pth")


def test_a_plain_checkpoint_fits_under_a_routed_model(plain):
    model, path = plain
    routed = create_model("micro_swin", variant="full_ar", n_classes=10)
    fresh = start_from(routed, path)
    assert {name.rpartition(".")[2] for name in fresh} == {"queries", "norm_weights"}
    weights = routed.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    images = torch.randn(2, 3, 32, 32)
    inactive = create_model("micro_swin", variant="block_ar", block_size=6, n_classes=10)
    start_from(inactive, path)
    torch.testing.assert_close(inactive.eval()(images), model.eval()(images))


def test_a_head_for_other_classes_and_an_auxiliary_head_start_fresh(plain):
    model, path = plain
    other = create_model("micro_swin", variant="drloc", n_classes=7)
    before = other.head.fc.weight.clone()
    fresh = start_from(other, path)
    assert set(fresh) >= {"head.fc.weight", "head.fc.bias", "drloc.predictor.0.weight"}
    assert torch.equal(other.head.fc.weight, before)
    assert torch.equal(other.norm.weight, model.norm.weight)


def test_weights_of_another_model_are_refused(plain):
    with pytest.raises(CacheError, match=r"plain.pth does not fit"):
        start_from(create_model("micro_vit"), plain[1])


def test_timms_own_weights_go_by_name(monkeypatch):
    asked = []

    class Timm:
        is_model = staticmethod(lambda name: name.startswith("micro"))

        @staticmethod
        def create_model(name, pretrained):
            asked.append((name, pretrained))
            return create_model("micro_vit")

    monkeypatch.setattr(initial, "load_timm", lambda: Timm)
    start_from(create_model("micro_vit", variant="full_ar"), "micro_vit.some_weights")
    assert asked == [("micro_vit.some_weights", True)]
    with pytest.raises(UnknownName, match="absent"):
        start_from(create_model("micro_vit"), "absent.pth")


def test_training_starts_from_a_checkpoint_of_ours_and_keeps_no_path(tmp_path, digits, tiny_config):
    first = train(tiny_config(variant="baseline", epochs=1), digits, tmp_path / "first", device="cpu")
    tuned = tiny_config(init=str(tmp_path / "first" / "checkpoint.pt"), epochs=1, learning_rate=0.0, suite="tuned")
    second = train(tuned, digits, tmp_path / "second", device="cpu")
    assert torch.equal(first.model.head.weight, second.model.head.weight)
    record = trained_record(tuned, digits, second, CPU)
    assert record.config["init"] == "checkpoint.pt"
    assert tuned.differing(record.config) == []


def test_the_epoch_with_the_smallest_validation_error_becomes_the_run(tmp_path, tiny_config, digits):
    config = tiny_config(epochs=5, validation=200, limit_train=None, ensemble_last=0)
    places = Places(tmp_path, tmp_path / "runs", tmp_path / "shards", device="cpu")
    places.make_shards_folder()
    assert run_one(config, places, quiet)
    record = read_shard(places.shards / f"{config.run_id}.parquet")
    errors = record.epoch_metrics.query("name == 'validation_ece'").set_index("epoch")["value"]
    assert list(errors.index) == [1, 2, 3, 4, 5]
    assert record.epoch == record.config["chosen_epoch"] == errors.idxmin()
    assert is_finished(config, places.shards)
    state = load_checkpoint(places.runs / config.run_id / "checkpoint.pt")
    again = extract_checkpoint(state, digits, device="cpu")
    np.testing.assert_allclose(again.logits, record.logits, atol=1e-5)
    assert again.epoch == record.epoch
