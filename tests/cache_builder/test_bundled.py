"""The runs that come with the project: what they promise, and that one of them can be made again."""

import numpy as np
import pytest
import torch

from cache_builder.config import load_recipe
from cache_builder.extract import trained_record
from cache_builder.provenance import describe
from cache_builder.sweep import without_denormals
from cache_builder.train import train
from engine.store import default_shards_directory, read_shard
from engine.store.shard import shard_path

RUNS = {config.run_id: config for config in load_recipe("bundled").runs()}
BUNDLED = [run_id for run_id in RUNS if shard_path(default_shards_directory(), run_id).exists()]
FLOORS = {"cifar10": 0.64, "fashion-mnist": 0.86, "digits": 0.90}


@pytest.mark.parametrize("run_id", BUNDLED)
def test_a_bundled_run_is_what_the_recipe_says_and_good_enough(run_id):
    record = read_shard(shard_path(default_shards_directory(), run_id))
    config = RUNS[run_id]
    assert dict(record.config) == config.as_dict()
    assert record.n_samples == (898 if config.dataset == "digits" else 10_000)
    assert record.accuracy >= FLOORS[config.dataset]
    assert not record.provenance["commit"].endswith("+changes")
    if config.variant in ("full_ar", "block_ar"):
        assert record.entropies.std(axis=1).std() > 0.004  # r_std varies over samples: routing is not uniform
        assert record.epochs["epoch"].nunique() == -(-config.epochs // config.entropy_stride)
        if config.ensemble_last:
            assert shard_path(default_shards_directory(), f"{run_id}-last5").exists()


def test_a_bundled_run_can_be_made_again(tmp_path, digits):
    run_id = "bundled-micro_vit-digits-full_ar-s0"
    if run_id not in BUNDLED:
        pytest.skip("that run is not bundled yet")
    stored = read_shard(shard_path(default_shards_directory(), run_id))
    here = describe("test", torch.device("cpu"), 0, digits.fingerprint)
    if any(here[name] != stored.provenance[name] for name in ("versions", "device", "data_fingerprint")):
        pytest.skip("made with other package versions or on another processor: the last digits would differ")
    with without_denormals():
        trained = train(RUNS[run_id], digits, tmp_path, device="cpu")
    again = trained_record(RUNS[run_id], digits, trained, torch.device("cpu"))
    np.testing.assert_allclose(again.logits, stored.logits, atol=1e-4)
    np.testing.assert_allclose(again.entropies, stored.entropies, atol=1e-4)


def test_the_bundle_stays_small():
    total = sum(path.stat().st_size for path in default_shards_directory().glob("*.parquet"))
    assert total <= 45 * 2**20
