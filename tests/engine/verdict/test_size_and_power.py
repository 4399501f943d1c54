"""The verdict's test in worlds with a known answer, and on real networks with features that certainly matter.

The whole study, with more worlds, sizes of runs and features, is printed by `python -m tests.bench.size_and_power`.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from engine.core.binning import equal_mass_bins
from engine.features import feature
from engine.gaps import combined_test
from engine.store import default_shards_directory, read_shard
from engine.store.shard import shard_path
from tests.bench.size_and_power import ladder_size, network, power, size

SEEDS = [f"replica-micro_{kind}-cifar10-{variant}-s0"
         for kind, block in (("swin", "block_ar2"), ("deit", "block_ar3"), ("vit", "block_ar3"))
         for variant in (block, "full_ar")]  # fmt: skip


@pytest.mark.parametrize(
    ("feature_name", "accuracy", "n", "digits"),
    [
        ("independent", "calibrated", 500, None),
        ("correlated 0.9", "steep", 2000, None),
        ("correlated 0.99", "low end", 4000, None),
        ("predictive entropy", "step", 4000, None),
        ("independent", "calibrated", 4000, 4),
    ],
)
def test_evidence_is_rare_where_only_confidence_matters(feature_name, accuracy, n, digits):
    rate, flagged = size(feature_name, accuracy, n, digits=digits, n_worlds=1000, n_draws=1)
    assert flagged == 0
    assert rate <= 0.075


@pytest.mark.parametrize(("feature_name", "digits"), [("lost digits", 1), ("confidence itself", None)])
def test_what_cannot_be_told_from_confidence_is_flagged(feature_name, digits):
    assert size(feature_name, "calibrated", 2000, digits=digits, n_draws=1)[1] == 1


@pytest.mark.parametrize("correlation", [0.0, 0.6])
@pytest.mark.parametrize(
    ("shape", "least"),
    [("monotone", 0.92), ("U", 0.5), ("bump", 0.5), ("high-confidence half", 0.5), ("opposite signs", 0.45)],
)
def test_power_where_an_oracle_has_95_percent(shape, least, correlation):
    confidence = network(10_000, np.random.default_rng(1)).max(axis=1)
    found = power(shape, confidence, confidence, correlation, n_worlds=300)
    assert found >= least - 2 * np.sqrt(least * (1 - least) / 300)  # less the error of 300 simulations


@pytest.mark.parametrize("rung", [1, 2, 3])
def test_a_rung_seldom_rejects_where_only_what_it_conditions_on_matters(rung: int):
    assert ladder_size(rung, 2000, 10, n_worlds=150) <= 0.075 + 2 * np.sqrt(0.05 * 0.95 / 150)


def entropies() -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Confidence, correctness and predictive entropy of runs on the same images."""
    runs = [read_shard(shard_path(default_shards_directory(), run_id)).data() for run_id in SEEDS]
    return {
        name: (run.confidence, run.correct, feature(run, "pred_entropy")) for name, run in zip(SEEDS, runs, strict=True)
    }


def test_what_another_network_knows_is_found_and_its_shuffled_copy_is_not():
    runs, rng = entropies(), np.random.default_rng(0)
    found, alarms = [], []
    for mine, other in permutations(runs, 2):
        confidence, correct, _ = runs[mine]
        known = runs[other][2]
        found.append(combined_test(confidence, correct, known).p_value <= 0.05)
        bins = equal_mass_bins(confidence, 200)
        shuffled = known[np.lexsort((rng.random(known.size), bins))][np.argsort(np.argsort(bins, kind="stable"))]
        alarms.append(combined_test(confidence, correct, shuffled).p_value <= 0.05)
    assert np.mean(found) >= 0.95
    assert np.mean(alarms) <= 0.075 + 2 * np.sqrt(0.075 * 0.925 / len(alarms))
