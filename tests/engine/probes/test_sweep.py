"""The probe audit over a cache, beside the same numbers put together by hand."""

import numpy as np
import pytest

from engine.probes import CONTRASTS, PROBES, audit, audit_sweep
from engine.store import RunRecord, open_cache, publish, write_shard

CHEAP = {"hidden": 8, "epochs": 60, "n_inits": 2, "n_shuffles": 3}


def record(run_id, variant, seed, n=80, n_layers=3, block_size=None, decisive=False):
    rng = np.random.default_rng(seed + 10 * n_layers + n)
    confidence = rng.uniform(0.4, 1, n)
    profile = rng.random((n, n_layers))
    return RunRecord(
        run_id=run_id,
        suite="test",
        backbone="swin",
        dataset="made-up",
        variant=variant,
        block_size=block_size,
        seed=seed,
        confidence=confidence,
        correct=profile[:, 0] > 0.4 if decisive else rng.random(n) < confidence,
        entropies=profile if n_layers else None,
    )


@pytest.fixture
def cache(tmp_path):
    for run in (
        record("full-0", "full_ar", 0),
        record("full-1", "full_ar", 1),
        record("block-0", "block_ar", 0, n=400, block_size=2, decisive=True),
        record("base-0", "baseline", 0, n_layers=0),
        record("tiny-0", "full_ar", 2, n=6),
    ):
        write_shard(run, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as opened:
        yield opened


@pytest.fixture
def sweep(cache):
    return audit_sweep(cache, **CHEAP)


@pytest.fixture
def by_hand(cache):
    runs = {run_id: cache.load(run_id) for run_id in ("full-0", "full-1", "block-0")}
    return {run_id: audit(run.confidence, run.entropies, run.correct, **CHEAP) for run_id, run in runs.items()}


def test_every_run_has_its_probes_and_contrasts(sweep, by_hand):
    assert sweep.probes.groupby("run_id").size().to_dict() == {"base-0": 2, "block-0": 5, "full-0": 5, "full-1": 5}
    for row in sweep.probes[sweep.probes["n_layers"] > 0].itertuples():
        assert row.r2_mean == pytest.approx(by_hand[row.run_id].mean[row.probe])
        assert row.r2_std == pytest.approx(by_hand[row.run_id].std[row.probe])
    assert len(sweep.contrasts) == 3 * 3
    for row in sweep.contrasts.itertuples():
        contrast = by_hand[row.run_id].contrasts[row.contrast]
        assert (row.estimate, row.low, row.high) == pytest.approx((contrast.estimate, *contrast.interval))
        if row.contrast == "routing_specific":
            assert row.p_value == by_hand[row.run_id].reference.p_value
        else:
            assert np.isnan(row.p_value)


def test_pooling_is_over_runs_with_a_profile(sweep, by_hand):
    assert sweep.pooled["probe"].tolist() == list(PROBES)
    for row in sweep.pooled.itertuples():
        means = [result.mean[row.probe] for result in by_hand.values()]
        assert (row.mean, row.std, row.n_runs) == pytest.approx((np.mean(means), np.std(means), 3))


def test_groups_are_substrates_and_count_who_wins(sweep, by_hand):
    assert sweep.groups.groupby("variant").size().to_dict() == {"block_ar": 3, "full_ar": 3}
    assert sweep.groups["contrast"].tolist() == list(CONTRASTS) * 2
    full = [by_hand[run_id].capacity_matched.estimate for run_id in ("full-0", "full-1")]
    matched = sweep.groups[sweep.groups["contrast"] == "capacity_matched"].set_index("variant")
    assert matched.loc["full_ar", "mean"] == pytest.approx(np.mean(full))
    assert matched.loc["full_ar", "std"] == pytest.approx(np.std(full))
    assert matched.loc["full_ar", "n_runs"] == 2
    assert matched.loc["block_ar", "mean"] > 0 > matched.loc["full_ar", "mean"]
    assert (sweep.routing_wins, sweep.n_groups) == (1, 2)


def test_what_could_not_be_done_is_noted(sweep):
    notes = sweep.notes.set_index("run_id")["code"]
    assert notes["base-0"] == "no_profile"
    assert notes["tiny-0"] == "too_few_samples"


def test_progress_covers_all_runs(cache):
    seen = []
    audit_sweep(cache, **CHEAP, progress=lambda fraction, text: seen.append((fraction, text)))
    fractions = [fraction for fraction, _ in seen]
    assert fractions == sorted(fractions)
    assert 0.9 < fractions[-1] <= 1
    assert any(text.startswith("block-0: epoch") for _, text in seen)


def test_an_empty_cache_gives_empty_tables(tmp_path):
    (tmp_path / "shards").mkdir()
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as empty:
        sweep = audit_sweep(empty, **CHEAP)
    assert (sweep.routing_wins, sweep.n_groups) == (0, 0)
    assert all(table.empty for table in (sweep.probes, sweep.contrasts, sweep.pooled, sweep.groups))
