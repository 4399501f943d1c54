"""The protocol over a whole cache, and the command that prints it."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.__main__ import main
from engine.features import FEATURES, CustomFeature, Feature, feature
from engine.gaps import bootstrap_gap, permutation_test, trend_test
from engine.gaps.combined import combined_test
from engine.gaps.pooled import trend_scores
from engine.store import RunRecord, open_cache, publish, write_shard
from engine.sweep import by_cell, diagnose, multiplicity, score_correlation
from engine.verdict.cache import judge_cache


def record(
    seed: int, *, variant: str = "full_ar", slope: float = 0.0, n: int = 1200, profile: bool = True
) -> RunRecord:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1.2, n)
    entropies = rng.random((n, 4))
    correct = rng.random(n) < np.clip(confidence + slope * (entropies.mean(axis=1) - 0.5), 0, 1)
    return RunRecord(
        run_id=f"toy-{variant}-s{seed}",
        suite="test",
        backbone="toy",
        dataset="dice",
        variant=variant,
        seed=seed,
        confidence=confidence,
        correct=correct,
        entropies=entropies if profile else None,
    )


def test_a_new_feature_that_needs_logits_is_not_called_missing(tmp_path: Path, make_run, monkeypatch):
    """Both the diagnosis and the report used to read logits for `pred_entropy` alone, by its name."""
    largest = Feature("largest_logit", "largest logit", "max_k z_k", "logits", lambda run: run.logits.max(axis=1))
    monkeypatch.setitem(FEATURES, "largest_logit", largest)
    write_shard(make_run("toy", n=300), tmp_path)
    publish(tmp_path, tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        row = diagnose(cache, feature_name="largest_logit", n_resamples=50).iloc[0]
        rho = feature(cache.load("toy"), "largest_logit")
        expected = trend_test(cache.load("toy").confidence, cache.load("toy").correct, rho)
    assert row["note"] == ""
    assert row["primary_p"] == expected.p_value


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    shards = folder / "shards"
    shards.mkdir()
    for seed in range(3):
        write_shard(record(seed), shards)
        write_shard(record(seed, variant="block_ar", slope=1.5), shards)
    write_shard(record(9, variant="baseline", profile=False), shards)
    publish(shards, folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture(scope="module")
def rows(cache_path: Path) -> pd.DataFrame:
    with open_cache(cache_path) as cache:
        return diagnose(cache, n_resamples=400)


def test_every_run_has_a_row_with_the_engines_numbers(rows: pd.DataFrame, cache_path: Path):
    assert len(rows) == 7
    with open_cache(cache_path) as cache:
        for row in rows[rows["paper_p"].notna()].to_dict("records"):
            run = cache.load(row["run_id"])
            rho = run.entropies.mean(axis=1)
            test = permutation_test(run.confidence, run.correct, rho)
            assert row["max_gap"] == test.observed
            assert row["paper_p"] == test.p_value
            assert row["null_high"] == test.null.percentiles[2]
            combined = combined_test(run.confidence, run.correct, rho)
            assert row["p_value"] == combined.p_value
            assert (row["primary_p"], row["shape_p"]) == (combined.primary.p_value, combined.shape.p_value)
            assert (row["primary_effect"], row["primary_se"]) == (
                combined.primary.effect,
                combined.primary.standard_error,
            )
            interval = bootstrap_gap(run.confidence, run.correct, rho, n_resamples=400).weighted_gap_ci
            assert (row["weighted_gap_low"], row["weighted_gap_high"]) == interval
            assert row["support_min"] <= row["support_q25"] <= row["support_median"]


def test_a_run_without_a_profile_keeps_its_row_and_says_why(rows: pd.DataFrame):
    baseline = rows.set_index("run_id").loc["toy-baseline-s9"]
    assert pd.isna(baseline["paper_p"])
    assert "routing profile" in baseline["note"]
    assert baseline["raw_ece"] > 0


def test_multiplicity_over_the_tested_runs(rows: pd.DataFrame):
    tested = rows[rows["primary_p"].notna()]
    assert (tested["primary_p_bonferroni"] == np.minimum(tested["primary_p"].astype(float) * 6, 1)).all()
    assert (tested["primary_p_holm"] <= tested["primary_p_bonferroni"] + 1e-15).all()
    assert (tested["primary_p_benjamini_hochberg"] <= tested["primary_p_holm"] + 1e-15).all()
    table = multiplicity(rows).set_index("test")
    assert table.loc["primary", "n_tested"] == 6
    assert table.loc["primary", "expected_by_chance"] == pytest.approx(0.3)
    assert table.loc["primary", "nominal"] == rows["primary_rejects"].sum() >= 3
    assert rows.loc[rows["variant"] == "block_ar", "primary_rejects"].all()


def test_cells_average_over_seeds(rows: pd.DataFrame):
    cells = by_cell(rows).set_index("variant")
    assert set(cells.index) == {"full_ar", "block_ar"}
    values = rows.loc[rows["variant"] == "full_ar", "max_gap"].astype(float).to_numpy()
    assert cells.loc["full_ar", "n"] == 3
    assert cells.loc["full_ar", "max_gap_mean"] == pytest.approx(values.mean())
    assert cells.loc["full_ar", "max_gap_std"] == pytest.approx(values.std(ddof=0))
    assert cells.loc["block_ar", "primary_rejections"] == 3


def test_runs_share_images_if_data_set_and_labels_are_the_same(tmp_path: Path):
    """Sample i of each is then the same image, and effects are correlated as their scores are."""
    labels = np.random.default_rng(0).integers(0, 3, 600)
    one = replace(record(0, n=600), run_id="one", labels=labels)
    other = replace(record(1, n=600), run_id="other", labels=labels)
    records = [
        one, other, replace(one, run_id="third", seed=2), replace(one, run_id="elsewhere", dataset="coins"),
        replace(one, run_id="unlabelled", labels=None), replace(one, run_id="ensemble", suite="test-last5"),
        replace(other, run_id="relabelled", labels=labels[::-1].copy()),
        replace(one, run_id="clustered", clusters=np.repeat(np.arange(200), 3)),
    ]  # fmt: skip
    for each in records:
        write_shard(each, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        rows = diagnose(cache, n_resamples=10).set_index("run_id", drop=False)
        runs = {name: cache.load(name) for name in ("one", "other", "third")}
        clustered = cache.load("clustered")
    images = rows["images"]
    assert images["one"] == images["other"] == images["third"]
    assert images[["one", "elsewhere", "relabelled", "clustered"]].nunique() == 4
    rho = clustered.entropies.mean(axis=1)
    alone, summed = (trend_test(clustered.confidence, clustered.correct, rho, clusters=each).standard_error
                     for each in (None, clustered.clusters))  # fmt: skip
    assert rows["primary_se"][["one", "clustered"]].tolist() == [alone, summed]
    assert alone != summed
    assert images[["unlabelled", "ensemble"]].isna().all()
    scores = [trend_scores(run.confidence, run.correct, run.entropies.mean(axis=1)) for run in runs.values()]
    shared = rows.loc[list(runs)]
    assert score_correlation(shared) == pytest.approx(np.array(scores) @ np.array(scores).T, abs=1e-6)
    assert score_correlation(shared)[0, 2] == pytest.approx(1)  # the same run twice
    assert score_correlation(rows.loc[["one", "elsewhere", "unlabelled"]]) == pytest.approx(np.eye(3))


def test_confidence_as_feature_needs_no_profile(cache_path: Path):
    with open_cache(cache_path) as cache:
        rows = diagnose(cache, feature_name="confidence", n_resamples=50)
    assert rows["primary_p"].notna().all()


def test_a_diagnosis_reads_what_its_feature_needs(tmp_path, make_run, monkeypatch):
    """`needs` decides, so that a new feature made of logits is not called missing."""
    write_shard(make_run("one", n=400), tmp_path)
    publish(tmp_path, tmp_path / "cache.duckdb")
    spread = Feature("spread", "spread of the logits", "std_k z_k", "logits", lambda run: run.logits.std(axis=1))
    monkeypatch.setitem(FEATURES, "spread", spread)
    read = []
    with open_cache(tmp_path / "cache.duckdb") as cache:
        load = cache.load
        monkeypatch.setattr(cache, "load", lambda run_id, columns: read.append(set(columns)) or load(run_id, columns))
        asked = ("spread", "r_agg", "confidence", CustomFeature((1, 2)))
        notes = [diagnose(cache, feature_name=name, n_resamples=10)["note"].item() for name in asked]
    assert not [note for note in notes if "this run has no" in note]
    assert read == [{"logits", "labels"}, {"entropies", "labels"}, {"labels"}, {"entropies", "labels"}]


def test_progress_counts_runs(cache_path: Path):
    seen: list[float] = []
    with open_cache(cache_path) as cache:
        diagnose(cache, n_resamples=10, progress=lambda share, _: seen.append(share))
    assert seen == pytest.approx(np.arange(1, 8) / 7)


def test_runs_side_by_side_give_what_one_after_the_other_gives(cache_path: Path, monkeypatch):
    found = []
    for threads in (1, 4):
        monkeypatch.setattr("engine.sweep.diagnosing._MOST_THREADS", threads)
        monkeypatch.setattr("engine.core.threads.os.cpu_count", lambda: 8)
        with open_cache(cache_path) as cache:
            found.append(diagnose(cache, n_resamples=50))
    pd.testing.assert_frame_equal(*found)


def test_large_runs_are_diagnosed_one_at_a_time(cache_path: Path, monkeypatch):
    at_once, most = 0, []
    monkeypatch.setattr("engine.sweep.diagnosing._ROWS_AT_ONCE", 1200 + 1199)  # every run has 1200 samples
    with open_cache(cache_path) as cache:
        load = cache.load

        def counted(*arguments, **named):
            nonlocal at_once
            at_once += 1
            most.append(at_once)
            time.sleep(0.01)
            at_once -= 1
            return load(*arguments, **named)

        monkeypatch.setattr(cache, "load", counted)
        diagnose(cache, n_resamples=10)
    assert max(most) == 1


def test_a_diagnosis_that_is_stopped_leaves_the_other_runs_alone(cache_path: Path, monkeypatch):
    class Stopped(Exception):
        pass

    def stop(_share: float, _text: str) -> None:
        raise Stopped

    monkeypatch.setattr("engine.sweep.diagnosing._MOST_THREADS", 1)
    loaded = []
    with open_cache(cache_path) as cache:
        load = cache.load
        monkeypatch.setattr(cache, "load", lambda run_id, *named: loaded.append(run_id) or load(run_id, *named))
        with pytest.raises(Stopped):
            diagnose(cache, n_resamples=10, progress=stop)
    assert len(loaded) <= 3


def test_empty_cache_gives_an_empty_table_with_the_same_columns(tmp_path: Path, rows: pd.DataFrame):
    (tmp_path / "shards").mkdir()
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        empty = diagnose(cache)
    assert empty.empty
    assert list(empty.columns) == list(rows.columns)
    assert by_cell(empty).empty
    assert multiplicity(empty)["nominal"].tolist() == [0, 0, 0]


@pytest.mark.parametrize("flag", ["--json", "--csv", "--latex", None])
def test_audit_command(cache_path: Path, capsys, flag: str | None):
    assert main(["audit", str(cache_path), *([flag] if flag else [])]) == 0
    printed = capsys.readouterr().out
    if flag == "--json":
        assert len(json.loads(printed)) == 7
    elif flag == "--csv":
        assert len(pd.read_csv(StringIO(printed))) == 7
    elif flag == "--latex":
        assert "\\begin{tabular}" in printed
        assert "toy-full\\_ar-s0" in printed
    else:
        assert printed.startswith("Evidence beyond confidence in 1 of 2 cells")
        assert "chance gives 0.3" in printed
        assert "not tested: toy-baseline-s9" in printed
        assert "toy · dice · Full-AR (n = 3)" in printed


def test_audit_command_explains_what_is_wrong(tmp_path: Path, cache_path: Path, capsys):
    assert main(["audit", str(tmp_path / "missing.duckdb")]) == 2
    assert "missing.duckdb" in capsys.readouterr().err
    assert main(["audit", str(cache_path), "--feature", "nonsense"]) == 2
    assert "r_agg" in capsys.readouterr().err


def test_a_custom_feature_that_only_some_runs_have_leaves_the_others_untested(cache_path: Path):
    with open_cache(cache_path) as cache:
        rows = diagnose(cache, feature_name=CustomFeature((4,), "mean"), n_resamples=10)
        none = diagnose(cache, feature_name=CustomFeature((5,), "mean"), n_resamples=10)
    assert rows["paper_p"].notna().sum() == 6
    assert none["paper_p"].notna().sum() == 0
    assert none["note"].str.contains("layer 5|routing profile").all()


def diagnose_confidence_only(folder: Path, n: int) -> pd.DataFrame:
    """Three seeds in which only confidence matters and routing follows it closely."""
    (folder / "shards").mkdir()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        confidence = 1 - 0.9 * rng.beta(0.5, 2, n)
        routing = np.clip(confidence + rng.normal(0, 0.005, n), 0, 1)
        drawn = {"confidence": confidence, "correct": rng.random(n) < confidence, "entropies": routing[:, None]}
        write_shard(replace(record(seed, n=n, profile=False), **drawn), folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    with open_cache(folder / "cache.duckdb") as cache:
        return diagnose(cache, n_resamples=50)


def test_runs_too_small_to_match_confidence_are_not_tested_by_the_primary_test(tmp_path: Path, capsys):
    rows = diagnose_confidence_only(tmp_path, 90)
    assert rows[["p_value", "primary_p", "primary_z", "primary_effect", "scores"]].isna().all(axis=None)
    assert rows["note"].str.contains("confidence is not matched by 9 bins", regex=False).all()
    assert judge_cache(rows).outcome == "untestable"
    assert main(["audit", str(tmp_path / "cache.duckdb")]) == 0
    assert "confidence is not matched by 9 bins)" in capsys.readouterr().out


def test_small_confidence_only_runs_do_not_repeat(tmp_path: Path):
    rows = diagnose_confidence_only(tmp_path, 180)
    assert rows["primary_p"].notna().all()
    assert judge_cache(rows).outcome == "no_evidence"


def test_a_gap_that_no_seed_has_is_a_dash(tmp_path: Path, capsys):
    diagnose_confidence_only(tmp_path, 20)  # no bin holds five low and five high samples
    capsys.readouterr()
    assert main(["audit", str(tmp_path / "cache.duckdb")]) == 0
    assert "nan" not in capsys.readouterr().out
