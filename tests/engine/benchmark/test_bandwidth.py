"""The kernel family over many bandwidths: the numbers of the benchmark, and the regressions behind them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from engine.benchmark import MatchedLab, Smoother, bandwidth_sensitivity, run_benchmark
from engine.benchmark.bandwidth import FAMILY, LAB_MULTIPLIERS, PATHS, pair_on
from engine.benchmark.scores import HEADLINE
from engine.benchmark.setup import CONTROLS
from engine.benchmark.smoothing import variation
from engine.core.binning import split, tertiles
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import RunData
from engine.features import feature
from engine.kernel import Surface, nw_regress, nw_surface, scott_bandwidth
from engine.kernel.selection import MULTIPLIERS


def make_run(n: int = 400, seed: int = 0) -> RunData:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    logits = rng.normal(size=(n, 4)) * 2
    logits[np.arange(n), labels] += 2
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    confidence = (powers / powers.sum(axis=1, keepdims=True)).max(axis=1)
    predictions = logits.argmax(axis=1)
    return RunData("run", confidence, predictions == labels, rng.beta(5, 2, (n, 3)), logits, labels, predictions)


@pytest.fixture(scope="module")
def run() -> RunData:
    return make_run()


@pytest.fixture(scope="module")
def curves(run):
    return MatchedLab.prepare(run, "r_std").curves()


def test_multiples_are_log_spaced_and_hold_the_papers_five():
    assert LAB_MULTIPLIERS[0] == 1 / 8
    assert LAB_MULTIPLIERS[-1] == 8
    assert np.diff(np.log2(LAB_MULTIPLIERS)) == pytest.approx(0.25)
    assert set(MULTIPLIERS) <= set(LAB_MULTIPLIERS)


@pytest.mark.parametrize(("path", "multiplier"), [("both", 0.5), ("confidence", 2.0), ("feature", 4.0)])
def test_curves_are_the_benchmarks_numbers(run, curves, path: str, multiplier: float):
    pair = {"both": (0.5, 0.5), "confidence": (2.0, 1.0), "feature": (1.0, 4.0)}[path]
    expected = run_benchmark(run, FAMILY, bandwidth=pair, n_bootstrap=0).table()
    for method in FAMILY:
        found = curves.along(path, method).set_index("multiplier").loc[multiplier]
        for metric in HEADLINE:
            assert found[metric] == pytest.approx(expected.loc[method, metric], abs=1e-12)


def test_clip_rates_are_the_benchmarks(run, curves):
    result = run_benchmark(run, ("nw_conf_routing",), bandwidth=0.125, n_bootstrap=0)
    clipping = result.clipping.set_index("method").loc["nw_conf_routing"]
    found = curves.along("both", "nw_conf_routing").iloc[0]
    assert found["clip_high"] == clipping["clipped_high"] > 0
    assert found["clip_low"] == clipping["clipped_low"]
    assert found["tied"] == clipping["n_tied"]


def test_every_path_has_every_stop_and_they_meet_at_scott(curves):
    assert len(curves.table) == len(PATHS) * len(LAB_MULTIPLIERS) * len(FAMILY)
    for method in FAMILY:
        at_scott = [curves.along(path, method).set_index("multiplier").loc[1.0, "ece"] for path in PATHS]
        assert at_scott[0] == at_scott[1] == at_scott[2]
    alone = curves.along("feature", "nw_conf")["ece"]
    assert alone.nunique() == 1, "confidence alone has no second axis to move"
    assert curves.along("confidence", "nw_conf")["ece"].tolist() == curves.along("both", "nw_conf")["ece"].tolist()


def test_marks_are_the_sensitivity_studys(run, curves):
    modes = bandwidth_sensitivity(run, feature="r_std").drop_duplicates("mode").set_index("mode")["multiplier"]
    assert curves.marks == {"scott": 1.0, "cv_nll": modes["cv_nll"], "oracle_ece": modes["oracle_ece"]}


def test_progress_reaches_the_end_in_order(run):
    seen: list[float] = []
    MatchedLab.prepare(run, "r_std").curves(lambda share, _: seen.append(share))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


def test_without_the_feature_the_controls_remain(run):
    plain = dataclasses.replace(run, entropies=np.empty((run.n_samples, 0)))
    for lab in (MatchedLab.prepare(plain, "r_std"), MatchedLab.prepare(run, "confidence")):
        assert tuple(lab.members) == CONTROLS
        assert lab.smoother.feature is None
        assert lab.smoother.shrinkage((1.0, 1.0)) is None
        assert set(lab.smoother.slices((1.0, 1.0)).controls) == set(CONTROLS)
        with pytest.raises(MissingData, match="feature"):
            lab.smoother.surface((1.0, 1.0))
    assert tuple(MatchedLab.prepare(run, "pred_entropy").members) == CONTROLS
    with pytest.raises(MissingData, match="logits"):
        MatchedLab.prepare(dataclasses.replace(run, logits=None))


# ---- the regressions


def test_slices_are_regressions_at_the_tertile_means(run):
    smoother = MatchedLab.prepare(run, "r_std").smoother
    rows, _ = split(run.n_samples)
    rho, confidence, correct = feature(run, "r_std")[rows], run.confidence[rows], run.correct[rows].astype(float)
    groups = tertiles(rho).index
    found = smoother.slices((2.0, 0.5), n_points=9)
    widths = scott_bandwidth(np.column_stack([confidence, rho]), dimension=2) * (2.0, 0.5)
    for position, name in enumerate(("low", "mid", "high")):
        centre = rho[groups == position].mean()
        query = np.column_stack([found.confidence, np.full(9, centre)])
        expected = nw_regress(np.column_stack([confidence, rho]), correct, query, widths)
        drawn = ~np.isnan(found.tertiles[name])
        assert drawn.sum() >= 6
        assert found.tertiles[name][drawn] == pytest.approx(expected[drawn], abs=1e-9)
    alone = nw_regress(confidence, correct, found.confidence, widths[0])
    assert found.controls["nw_conf"] == pytest.approx(alone, abs=1e-9)
    entropy = feature(run, "pred_entropy")[rows]
    usual = nw_regress(confidence, entropy, found.confidence, widths[0] / 2)
    both = np.column_stack([confidence, entropy])
    query = np.column_stack([found.confidence, usual])
    expected = nw_regress(both, correct, query, scott_bandwidth(both, dimension=2) * (2.0, 0.5))
    drawn = ~np.isnan(found.controls["nw_conf_entropy"])
    assert found.controls["nw_conf_entropy"][drawn] == pytest.approx(expected[drawn], abs=1e-9)


def test_surface_is_the_regression_and_blank_where_it_rests_on_nothing(run):
    lab = MatchedLab.prepare(run, "r_std")
    smoother, fitted = lab.smoother, lab.members["nw_conf_routing"].at((0.25, 0.5))
    low, high = fitted.regressors.min(axis=0), fitted.regressors.max(axis=0)
    grid = tuple(np.linspace(low[axis], high[axis], 16) for axis in (0, 1))
    expected = nw_surface(fitted.regressors, fitted.correct, fitted.bandwidth, grid)
    found = smoother.surface((0.25, 0.5), n_points=16)
    drawn = expected.weight >= 1
    assert 0 < drawn.sum() < drawn.size
    assert found.value[drawn] == pytest.approx(expected.value[drawn], abs=1e-12)
    assert np.isnan(found.value[~drawn]).all()


def test_variation_is_what_the_feature_adds_at_one_confidence():
    value = np.array([[0.2, 0.4], [0.5, 0.5], [np.nan, 0.9]])
    weight = np.array([[1.0, 3.0], [2.0, 2.0], [0.5, 2.0]])
    found = variation(Surface(np.arange(3.0), np.arange(2.0), value, weight))
    # around 0.35, 0.5 and 0.9: (1 * 0.15^2 + 3 * 0.05^2 + 0 + 0) / (4 + 4 + 2)
    assert found == pytest.approx(np.sqrt((0.0225 + 3 * 0.0025) / 10))


def test_scores_of_a_stop_are_found_again(curves):
    assert curves.at((1.0, 4.0))["ece"].tolist() == [
        curves.along("feature", method).set_index("multiplier").loc[4.0, "ece"] for method in FAMILY
    ]
    assert len(curves.at((1.0, 1.0))) == len(FAMILY)
    assert curves.at((2.0, 4.0)) is None


def test_shrinkage_is_the_formula(run):
    smoother = MatchedLab.prepare(run, "r_std").smoother
    rho = feature(run, "r_std")[split(run.n_samples)[0]]
    groups = tertiles(rho).index
    distance = rho[groups == 2].mean() - rho[groups == 0].mean()
    width = 8 * scott_bandwidth(rho, dimension=2)[0]
    assert smoother.distance == pytest.approx(distance)
    assert smoother.shrinkage((0.5, 8.0)) == pytest.approx(np.tanh(distance**2 / (4 * width**2)))


def test_a_run_without_logits_is_smoothed_alike(run):
    without = Smoother.prepare(dataclasses.replace(run, logits=None, labels=None, predictions=None), "r_std")
    with_logits = MatchedLab.prepare(run, "r_std").smoother
    assert set(without.slices((1.0, 1.0)).controls) == {"nw_conf"}
    one, other = without.slices((1.0, 1.0)).tertiles["high"], with_logits.slices((1.0, 1.0)).tertiles["high"]
    assert one == pytest.approx(other, abs=1e-9, nan_ok=True)


def test_cells_gather_every_sample():
    confidence = np.array([0.0, 0.1, 0.9, 1.0])
    smoother = Smoother.of(confidence, np.array([True, False, True, True]), np.array([0.0, 0.0, 2.0, 2.0]), None)
    cells = smoother.cells(2)
    assert cells["count"].tolist() == [2, 2]
    assert cells["confidence"].tolist() == pytest.approx([0.05, 0.95])
    assert cells["feature"].tolist() == [0.0, 2.0]
    assert cells["accuracy"].tolist() == [0.5, 1.0]


def test_a_feature_without_variance_is_ignored():
    rng = np.random.default_rng(0)
    confidence = rng.random(60)
    smoother = Smoother.of(confidence, rng.random(60) < confidence, np.ones(60), None)
    assert smoother.scott["feature"] == 0
    assert smoother.centres == {"low": 1.0}
    assert smoother.shrinkage((1.0, 1.0)) == 0.0
    found = smoother.slices((1.0, 1.0))
    assert found.tertiles["low"] == pytest.approx(found.controls["nw_conf"], nan_ok=True)
    assert len(smoother.cells()) <= 22


def test_a_multiple_must_be_positive(run):
    with pytest.raises(InvalidInput, match="multiplier"):
        MatchedLab.prepare(run, "r_std").smoother.slices((1.0, 0.0))
    assert pair_on("feature", 3.0) == (1.0, 3.0)
