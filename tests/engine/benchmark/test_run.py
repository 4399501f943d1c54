"""The benchmark of one run: what is fitted where, the scores, their intervals, and its sensitivity studies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest

from engine import metrics
from engine.benchmark import (
    HEADLINE,
    METRICS,
    MatchedLab,
    aggregate_seeds,
    bandwidth_sensitivity,
    calibration_size_sensitivity,
    feature_ablation,
    rank_one_counts,
    run_benchmark,
    split,
    split_variance,
)
from engine.benchmark.scores import BOOTSTRAPPED, Sums, all_scores, predict, resample_counts
from engine.benchmark.setup import halve, make_calibrator
from engine.calibrators import CALIBRATORS
from engine.core.errors import InvalidInput, MissingData, UnknownName
from engine.core.types import RunData
from engine.features import CustomFeature, feature
from engine.metrics.debiased import debiased_ece

QUICK = ("none", "ts", "hb", "isotonic", "nw_conf", "nw_conf_routing")


def make_run(n: int = 1200, n_classes: int = 5, seed: int = 0, n_layers: int = 6, run_id: str = "run") -> RunData:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, n_classes, n)
    logits = rng.normal(size=(n, n_classes))
    logits[np.arange(n), labels] += rng.normal(2.0, 1.5, n)
    logits *= 2.0
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = (powers / powers.sum(axis=1, keepdims=True)).max(axis=1)
    entropies = rng.beta(5, 2, (n, n_layers)) * (0.6 + 0.4 * rng.random((n, 1)))
    predictions = logits.argmax(axis=1)
    return RunData(run_id, confidence, predictions == labels, entropies, logits, labels, predictions)


@pytest.fixture(scope="module")
def run() -> RunData:
    return make_run()


@pytest.fixture(scope="module")
def result(run):
    return run_benchmark(run, n_bootstrap=60)


def value(result, method, metric):
    rows = result.scores[(result.scores["method"] == method) & (result.scores["metric"] == metric)]
    assert len(rows) == 1
    return rows["value"].item()


# ---- one run


def test_every_method_and_metric_has_a_row(result):
    assert list(result.fitted) == list(CALIBRATORS)
    assert len(result.scores) == len(CALIBRATORS) * len(METRICS)
    assert result.scores["value"].notna().all()
    assert list(result.table().columns) == list(METRICS)
    assert (result.n_calibration, result.n_evaluation) == (600, 600)


def test_scores_are_the_metrics_of_the_held_out_half(run, result):
    cal, test = split(run.n_samples)
    assert np.array_equal(np.concatenate([cal, test]), np.random.default_rng(42).permutation(1200))
    fitted = CALIBRATORS["nw_conf_routing"]().fit(run.logits[cal], run.labels[cal], feature(run, "r_std")[cal])
    probabilities = fitted.predict_proba(run.logits[test], feature(run, "r_std")[test])
    confidence, correct = probabilities.max(axis=1), run.correct[test]
    expected = {
        "ece": metrics.ece(confidence, correct),
        "adaptive_ece": metrics.adaptive_ece(confidence, correct),
        "nll": metrics.nll(probabilities, run.labels[test]),
        "brier": metrics.brier(probabilities, run.labels[test]),
        "worst_tertile_ece": metrics.worst_tertile_ece(confidence, correct, feature(run, "r_std")[test]),
        "mce": metrics.mce(confidence, correct),
        "classwise_ece": metrics.classwise_ece(probabilities, run.labels[test]),
        "smooth_ece": metrics.smooth_ece(confidence, correct),
        "accuracy": correct.mean(),
        "delta_accuracy": 0.0,
    }
    for metric, number in expected.items():
        assert value(result, "nw_conf_routing", metric) == pytest.approx(number, abs=1e-12), metric
    assert result.confidence["nw_conf_routing"] == pytest.approx(confidence)
    assert np.array_equal(result.correct["nw_conf_routing"], correct)


def test_paired_changes_are_against_the_uncalibrated_model(result):
    for metric in ("nll", "brier", "accuracy"):
        change = value(result, "vs", metric) - value(result, "none", metric)
        assert value(result, "vs", f"delta_{metric}") == pytest.approx(change, abs=1e-15)
        assert value(result, "none", f"delta_{metric}") == 0


def test_methods_that_keep_the_argmax_keep_the_accuracy(result):
    for name, entry in CALIBRATORS.items():
        if entry.keeps_argmax:
            assert value(result, name, "delta_accuracy") == 0


def test_nothing_of_the_held_out_half_is_fitted(run):
    """Scrambling the held-out labels changes scores but not what was learnt."""
    _, test = split(run.n_samples)
    labels = run.labels.copy()
    labels[test] = np.random.default_rng(1).permutation(labels[test])
    other = dataclasses.replace(run, labels=labels)
    first = run_benchmark(run, QUICK, n_bootstrap=0)
    second = run_benchmark(other, QUICK, n_bootstrap=0)
    assert first.fitted["ts"].temperature == second.fitted["ts"].temperature
    assert np.array_equal(first.fitted["hb"].accuracy, second.fitted["hb"].accuracy)
    assert first.confidence["nw_conf_routing"].tobytes() == second.confidence["nw_conf_routing"].tobytes()
    assert value(first, "ts", "nll") != value(second, "ts", "nll")


def test_same_seed_same_frame(run):
    first, second = (run_benchmark(run, QUICK, n_bootstrap=20, seed=7) for _ in range(2))
    pd.testing.assert_frame_equal(first.scores, second.scores, check_exact=True)
    assert not first.scores.equals(run_benchmark(run, QUICK, n_bootstrap=20, seed=8).scores)


def test_progress_runs_from_zero_to_one(run):
    calls = []
    run_benchmark(run, ("ts",), n_bootstrap=5, progress=lambda share, text: calls.append((share, text)))
    shares = [share for share, _ in calls]
    assert shares[0] == 0
    assert shares[-1] == 1
    assert shares == sorted(shares)
    assert any("Temperature scaling" in text for _, text in calls)


def test_bandwidth_reaches_the_kernel_family(run):
    result = run_benchmark(run, ("ts", "nw_conf", "nw_conf_routing"), bandwidth=(0.5, 2.0), n_bootstrap=0)
    assert result.fitted["nw_conf_routing"].multiplier.tolist() == [0.5, 2.0]
    assert result.fitted["nw_conf"].multiplier.tolist() == [0.5]
    chosen = run_benchmark(run, ("nw_conf_routing",), bandwidth="cv_nll", n_bootstrap=0)
    assert chosen.fitted["nw_conf_routing"].choice is not None


def test_custom_feature(run):
    custom = CustomFeature((1, 3), "mean")
    result = run_benchmark(run, ("nw_conf_routing",), feature=custom, n_bootstrap=0)
    assert result.feature == "mean(H1,H3)"
    cal, _ = split(run.n_samples)
    assert result.fitted["nw_conf_routing"].regressors[:, 1] == pytest.approx(feature(run, custom)[cal])


def test_confidence_as_feature_is_the_one_regressor_kernel(run):
    result = run_benchmark(run, ("nw_conf", "nw_conf_routing"), feature="confidence", n_bootstrap=0)
    assert result.confidence["nw_conf_routing"].tobytes() == result.confidence["nw_conf"].tobytes()


def test_clipping_is_reported_for_the_kernel_family(result):
    assert result.clipping["method"].tolist() == ["nw_conf", "nw_conf_entropy", "nw_conf_routing"]
    assert result.clipping[["clipped_low", "clipped_high"]].to_numpy().min() >= 0
    assert result.clipping["n_tied"].tolist() == [0, 0, 0]


# ---- runs that lack something


def test_run_without_a_profile_skips_routing_with_a_note(run):
    plain = dataclasses.replace(run, entropies=np.empty((run.n_samples, 0)))
    result = run_benchmark(plain, n_bootstrap=5)
    assert "nw_conf_routing" not in result.fitted
    assert "routing profile" in result.skipped["nw_conf_routing"]
    assert result.tertile_feature is None
    assert result.scores.query("metric == 'worst_tertile_ece'")["value"].isna().all()
    assert result.scores.query("metric == 'ece'")["value"].notna().all()
    assert "worst_tertile_ece" in result.table().columns


def test_run_without_a_profile_can_use_an_extra_column(run):
    score = np.random.default_rng(0).normal(size=run.n_samples)
    plain = dataclasses.replace(run, entropies=np.empty((run.n_samples, 0)), extra={"score": score})
    result = run_benchmark(plain, QUICK, feature="score", n_bootstrap=0)
    assert "nw_conf_routing" in result.fitted
    assert result.tertile_feature == "score"
    assert value(result, "ts", "worst_tertile_ece") > 0


def test_run_without_logits_is_refused(run):
    with pytest.raises(MissingData, match="no logits"):
        run_benchmark(dataclasses.replace(run, logits=None))
    with pytest.raises(MissingData, match="no labels"):
        run_benchmark(dataclasses.replace(run, labels=None))


def test_bad_settings_are_named(run):
    with pytest.raises(UnknownName, match="methods"):
        run_benchmark(run, ("ts", "magic"))
    with pytest.raises(UnknownName, match="feature"):
        run_benchmark(run, feature="magic")
    with pytest.raises(InvalidInput, match="n_bootstrap"):
        run_benchmark(run, n_bootstrap=-1)
    with pytest.raises(InvalidInput, match="at least 40 samples"):
        run_benchmark(run.subset(np.arange(39)))


def test_small_run():
    result = run_benchmark(make_run(n=60, n_classes=3), n_bootstrap=10)
    assert result.scores.query("metric not in ('mce',)")["value"].notna().all()


def test_calibration_half_without_an_error(run):
    """Every method takes its fallback and says so; no probability is lost."""
    cal, _ = split(run.n_samples)
    labels = run.labels.copy()
    labels[cal] = run.predictions[cal]
    result = run_benchmark(dataclasses.replace(run, labels=labels), n_bootstrap=0)
    assert not result.fitted["ts"].converged
    assert any("Temperature scaling" in note for note in result.notes)
    assert result.scores["value"].notna().all()


# ---- bootstrap


def prediction_of(run, method):
    halves = halve(run)
    fitted = make_calibrator(method, "r_std").fit_samples(halves.calibration)
    return predict(fitted, halves.evaluation)[0], halves


@pytest.mark.parametrize("method", ["none", "vs", "bbq", "nw_conf_routing"])
def test_one_of_each_sample_gives_the_metrics(run, method):
    prediction, halves = prediction_of(run, method)
    sums = Sums.of(prediction, halves.evaluation.known_labels)
    resampled = sums.metrics(np.ones((2, 600)))
    expected = all_scores(prediction, halves.evaluation, halves.tertile_rho)
    for metric in BOOTSTRAPPED:
        assert resampled[metric] == pytest.approx([expected[metric]] * 2, abs=1e-12), metric


def test_counts_give_the_metrics_of_the_repeated_rows(run):
    """The definition: repeat the rows, recompute."""
    prediction, halves = prediction_of(run, "ts")
    labels = halves.evaluation.known_labels
    counts = resample_counts(600, 3, np.random.default_rng(5))
    resampled = Sums.of(prediction, labels).metrics(counts)
    for draw in range(3):
        rows = np.repeat(np.arange(600), counts[draw].astype(int))
        confidence, correct = prediction.confidence[rows], prediction.correct[rows]
        assert rows.size == 600
        expected = {
            "ece": metrics.ece(confidence, correct),
            "nll": metrics.nll(prediction.probabilities[rows], labels[rows]),
            "brier": metrics.brier(prediction.probabilities[rows], labels[rows]),
            "accuracy": correct.mean(),
        }
        for metric, number in expected.items():
            assert resampled[metric][draw] == pytest.approx(number, abs=1e-12), metric


def test_interval_of_the_accuracy_is_binomial(run):
    result = run_benchmark(run, ("ts",), n_bootstrap=2000)
    row = result.scores.query("method == 'ts' and metric == 'accuracy'").iloc[0]
    spread = 1.96 * np.sqrt(row["value"] * (1 - row["value"]) / 600)
    assert row["ci_high"] - row["ci_low"] == pytest.approx(2 * spread, rel=0.1)
    assert row["ci_low"] < row["value"] < row["ci_high"]
    assert result.bootstrap["ts"]["accuracy"].shape == (2000,)


def test_an_ece_has_the_interval_of_its_debiased_value_and_what_cannot_have_one_has_none(run):
    result = run_benchmark(run, ("ts",), n_bootstrap=20)
    rows = result.scores.query("method == 'ts'").set_index("metric")[["debiased", "ci_low", "ci_high"]]
    for metric, matching in (("ece", "equal_width"), ("adaptive_ece", "equal_mass")):
        found = debiased_ece(result.confidence["ts"], result.correct["ts"], matching=matching)
        assert rows.loc[metric].tolist() == [found.estimate, found.low, found.high]
    without = rows.index[rows["ci_low"].isna()]
    assert set(without) == {"worst_tertile_ece", "mce", "classwise_ece", "smooth_ece"}


def test_paired_interval_is_narrower_than_its_parts(result):
    paired = result.bootstrap["ts"]["delta_nll"].std()
    assert paired < 0.7 * result.bootstrap["none"]["nll"].std()
    difference = result.bootstrap["ts"]["nll"] - result.bootstrap["none"]["nll"]
    assert result.bootstrap["ts"]["delta_nll"].tolist() == difference.tolist()


def test_resampling_in_blocks_changes_nothing(run, monkeypatch):
    whole = run_benchmark(run, ("ts",), n_bootstrap=30)
    monkeypatch.setattr("engine.benchmark.run.COUNTS_PER_BLOCK", 600 * 7)
    blocks = run_benchmark(run, ("ts",), n_bootstrap=30)
    pd.testing.assert_frame_equal(whole.scores, blocks.scores)


# ---- many runs


def test_seed_aggregation_by_hand():
    scores = pd.DataFrame(
        {
            "run_id": ["a", "b", "c"],
            "method": ["ts"] * 3,
            "metric": ["ece"] * 3,
            "value": [0.1, 0.3, 0.7],
        }
    )
    runs = pd.DataFrame(
        {
            "run_id": ["a", "b", "c"],
            "suite": ["s"] * 3,
            "backbone": ["vit"] * 3,
            "dataset": ["d"] * 3,
            "variant": ["block_ar", "block_ar", "baseline"],
            "block_size": pd.array([2, 2, None], dtype="Int64"),
        }
    )
    table = aggregate_seeds(scores, runs)
    assert table["variant"].tolist() == ["block_ar", "baseline"]
    assert table["mean"].tolist() == pytest.approx([0.2, 0.7])
    assert table["std"].tolist() == pytest.approx([0.1, 0.0])  # ddof 0
    assert table["n"].tolist() == [2, 1]
    with pytest.raises(InvalidInput, match="none for c"):
        aggregate_seeds(scores, runs[:2])


def test_rank_one_counts_by_hand():
    scores = pd.DataFrame(
        [
            (split_, method, "ece", number)
            for split_, numbers in enumerate([(0.0, 0.2, 0.1), (0.0, 0.1, 0.1 + 1e-15), (0.0, 0.3, 0.4)])
            for method, number in zip(("none", "ts", "hb"), numbers, strict=True)
        ],
        columns=["split", "method", "metric", "value"],
    )
    table = rank_one_counts(scores, "split").set_index("method")
    assert "none" not in table.index
    # ts wins the third split and shares the second; hb wins the first and shares the second
    assert table["n_first"].to_dict() == {"ts": 2, "hb": 2}
    assert table.loc["ts", "mean"] == pytest.approx(0.2)
    assert table.loc["ts", "mean_rank"] == pytest.approx((2 + 1 + 1) / 3)
    assert table["share"].tolist() == pytest.approx([2 / 3, 2 / 3])
    with pytest.raises(InvalidInput, match="metric"):
        rank_one_counts(scores, "split", metric="delta_accuracy")


# ---- sensitivity


def test_calibration_sizes(run):
    frame = calibration_size_sensitivity(run, ("none", "ts", "nw_conf_routing"), sizes=(50, 600, 5000), n_draws=3)
    assert frame["size"].unique().tolist() == [50, 600]  # the half has 600
    assert len(frame) == 2 * 3 * 3 * len(HEADLINE)
    full = frame.query("size == 600 and method == 'ts' and metric == 'ece'")["value"]
    assert full.tolist() == pytest.approx([full.iloc[0]] * 3, abs=1e-6)
    benchmark = run_benchmark(run, ("ts",), n_bootstrap=0)
    assert full.iloc[0] == pytest.approx(value(benchmark, "ts", "ece"), abs=1e-6)
    small = frame.query("size == 50 and method == 'ts' and metric == 'nll'")["value"]
    assert small.nunique() == 3
    unfitted = frame.query("method == 'none' and metric == 'ece'")["value"]
    assert unfitted.tolist() == [unfitted.iloc[0]] * 6
    with pytest.raises(InvalidInput, match="sizes"):
        calibration_size_sensitivity(run, sizes=(5000,))


def test_splits(run):
    frame = split_variance(run, ("ts", "hb"), n_splits=3)
    assert frame["split"].unique().tolist() == [42, 43, 44]
    first = frame.query("split == 42 and method == 'hb' and metric == 'ece'")["value"].item()
    assert first == value(run_benchmark(run, ("hb",), n_bootstrap=0), "hb", "ece")
    second = frame.query("split == 43 and method == 'hb' and metric == 'ece'")["value"].item()
    assert second == value(run_benchmark(run, ("hb",), n_bootstrap=0, seed=43), "hb", "ece")
    assert rank_one_counts(frame, "split")["n_first"].sum() >= 3


def test_bandwidth_modes(run):
    frame = bandwidth_sensitivity(run)
    assert frame["mode"].unique().tolist() == ["0.5x", "1x", "2x", "cv_nll", "oracle_ece"]
    ece = frame.query("metric == 'ece'").set_index("mode")
    expected = run_benchmark(run, ("nw_conf_routing",), bandwidth=2.0, n_bootstrap=0)
    assert ece.loc["2x", "value"] == pytest.approx(value(expected, "nw_conf_routing", "ece"), abs=1e-12)
    grid = [
        value(run_benchmark(run, ("nw_conf_routing",), bandwidth=m, n_bootstrap=0), "nw_conf_routing", "ece")
        for m in (0.25, 0.5, 1.0, 2.0, 4.0)
    ]
    assert ece.loc["oracle_ece", "value"] == pytest.approx(min(grid), abs=1e-12)
    chosen = run_benchmark(run, ("nw_conf_routing",), bandwidth="cv_nll", n_bootstrap=0)
    assert ece.loc["cv_nll", "multiplier"] == chosen.fitted["nw_conf_routing"].choice.multiplier


def test_the_two_axes_are_independent(run):
    expected = run_benchmark(run, ("nw_conf_routing",), bandwidth=(0.5, 4.0), n_bootstrap=0)
    lab = MatchedLab.prepare(run)
    found = lab.score("nw_conf_routing", (0.5, 4.0))
    assert found["ece"] == pytest.approx(value(expected, "nw_conf_routing", "ece"), abs=1e-12)
    assert found["ece"] != lab.score("nw_conf_routing", (4.0, 0.5))["ece"]


def test_bandwidths_without_the_feature(run):
    plain = dataclasses.replace(run, entropies=np.empty((run.n_samples, 0)))
    with pytest.raises(MissingData, match="r_std"):
        bandwidth_sensitivity(plain)
    assert "nw_conf_routing" not in MatchedLab.prepare(plain).members


def test_feature_ablation(run):
    custom = CustomFeature((1, 2), "max")
    frame = feature_ablation(run, ("r_std", "r_agg", "concentration", "confidence", custom))
    ece = frame.query("metric == 'ece'").set_index("feature")
    assert ece.index.tolist() == ["r_std", "r_agg", "concentration", "confidence", "max(H1,H2)"]
    benchmark = run_benchmark(run, ("nw_conf", "nw_conf_entropy", "nw_conf_routing"), n_bootstrap=0)
    routing, alone, entropy = (value(benchmark, m, "ece") for m in ("nw_conf_routing", "nw_conf", "nw_conf_entropy"))
    assert ece.loc["r_std", "value"] == pytest.approx(routing, abs=1e-12)
    assert ece.loc["confidence", "value"] == pytest.approx(alone, abs=1e-12)
    assert ece.loc["r_std", "delta_vs_confidence"] == pytest.approx(alone - routing, abs=1e-12)
    assert ece.loc["r_std", "delta_vs_pred_entropy"] == pytest.approx(entropy - routing, abs=1e-9)
    assert ece.loc["r_agg", "value"] == pytest.approx(ece.loc["concentration", "value"], abs=1e-6)


def test_feature_ablation_without_a_profile(run):
    plain = dataclasses.replace(run, entropies=np.empty((run.n_samples, 0)))
    frame = feature_ablation(plain)
    assert set(frame["feature"]) == {"pred_entropy", "confidence"}
