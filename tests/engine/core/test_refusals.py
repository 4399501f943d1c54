"""Arguments that used to end in a traceback, a warning or a dead machine: each is refused by name, or answered."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from engine import features, gaps, kernel, metrics, probes
from engine.benchmark import MatchedLab, calibration_size_sensitivity, run_benchmark, split_variance
from engine.calibrators import CALIBRATORS
from engine.controls import false_alarm_rate, power_curve
from engine.core import binning, pvalues
from engine.core.errors import InvalidInput, MissingData, UnknownName
from engine.core.types import RunData
from engine.features import CustomFeature
from engine.features.search import search_candidates
from engine.metrics import mechanism, reliability
from engine.paper import claims, published
from engine.store import RunRecord

RNG = np.random.default_rng(0)
C, T, R = RNG.random(60), RNG.random(60) < 0.5, RNG.random(60)
LOGITS, LABELS = RNG.normal(size=(60, 3)), np.arange(60) % 3
HUGE = 10**12


def run(**changes: object) -> RunData:
    columns = {"confidence": C, "correct": T, "entropies": RNG.random((60, 2)), "logits": LOGITS, "labels": LABELS}
    return RunData("run", **(columns | changes))


def record(**changes: object) -> RunRecord:
    columns = dict.fromkeys(("run_id", "suite", "backbone", "dataset", "variant"), "a") | {
        "confidence": C,
        "correct": T,
    }
    return RunRecord(**(columns | changes))


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: metrics.ece(C, T, n_bins=HUGE), "n_bins"),
        (lambda: metrics.mce(C, T, n_bins=HUGE), "n_bins"),
        (lambda: metrics.classwise_ece(np.full((2, 1000), 1e-3), [0, 1], n_bins=1_000_000), "n_bins"),
        (lambda: reliability.class_table(C, T, LABELS, n_bins=HUGE), "n_bins"),
        (lambda: mechanism.error_curve(C, T, R, n_bins=HUGE), "n_bins"),
        (lambda: gaps.permutation_test(C, T, R, method="shuffle", n_permutations=HUGE), "n_permutations"),
        (lambda: gaps.bootstrap_gap(C, T, R, n_resamples=HUGE), "n_resamples"),
        (lambda: false_alarm_rate(C, T, R, n_replicates=HUGE), "n_replicates"),
        (lambda: power_curve(C, T, R, n_replicates=HUGE), "n_replicates"),
        (lambda: probes.audit(C, R[:, None], T, hidden=HUGE), "hidden"),
        (lambda: probes.audit(C, R[:, None], T, epochs=HUGE), "epochs"),
        (lambda: run_benchmark(run(), n_bootstrap=HUGE), "n_bootstrap"),
        (lambda: binning.split(HUGE), "n"),
        (lambda: search_candidates(HUGE), "n_layers"),
    ],
)
def test_absurd_sizes_are_refused_before_memory_is_taken(call, argument: str):
    with pytest.raises(InvalidInput, match="at most") as refused:
        call()
    assert refused.value.argument == argument


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: binning.split(10, seed=-1), "seed"),
        (lambda: binning.split(10, seed=None), "seed"),
        (lambda: reliability.class_table(C, T, LABELS, n_bins=None), "n_bins"),
        (lambda: gaps.primary_bins(None), "n_samples"),
        (lambda: pvalues.adjust_tested(["a"], "holm"), "p"),
        (lambda: pvalues.adjust_tested(0.5, "holm"), "p"),
        (lambda: pvalues.wilson_interval(["a"], [1]), "successes"),
        (lambda: pvalues.wilson_interval([1, 1], [1, 1, 1]), "successes"),
        (lambda: metrics.nll(np.array([[0.5, 0.5]]), [1e308]), "labels"),
        (lambda: metrics.nll(np.array([[0.5, 0.5]]), [1e30]), "labels"),
        (lambda: kernel.shrinkage(None, 1.0), "distance"),
        (lambda: kernel.scott_bandwidth([[1.0, 2.0], [3.0]]), "x"),
        (lambda: kernel.nw_regress(R, T, R, ["a"]), "bandwidth"),
        (lambda: kernel.cv_nll_bandwidth(R, np.zeros((60, 1)), np.zeros(60)), "logits"),
        (lambda: kernel.cv_nll_bandwidth(R, LOGITS, LABELS, seed=-1), "seed"),
        (lambda: CALIBRATORS["nw_conf"](bandwidth="cv_nll").fit(LOGITS[:4], LABELS[:4]), "logits"),
        (lambda: CALIBRATORS["nw_conf"](bandwidth=None).fit(LOGITS, LABELS), "bandwidth"),
        (lambda: CALIBRATORS["nw_conf"](bandwidth=1j).fit(LOGITS, LABELS), "bandwidth"),
        (lambda: run_benchmark(run(), methods=1.0), "methods"),
        (lambda: run_benchmark(run(), methods="ts"), "methods"),
        (lambda: probes.audit(C, R[:, None], T, names=3), "names"),
        (lambda: probes.audit(C, R[:, None], T, lr="fast"), "lr"),
        (lambda: probes.descriptor(run(), layer_names=1), "layer_names"),
        (lambda: mechanism.depth_profile(R[:, None], T, names=np.nan), "names"),
        (lambda: mechanism.depth_profile(R[:, None], T, n_sources=False), "n_sources"),
        (lambda: features.check_layers([1], None), "n_layers"),
        (lambda: CustomFeature(None), "layers"),
        (lambda: CustomFeature(()), "layers"),
        (lambda: CustomFeature((1,), "median"), "summary"),
        (lambda: published.load(np.zeros(2)), "table"),
        (lambda: kernel.nw_surface(np.column_stack([R, R]), T, 1.0, []), "grid"),
        (lambda: split_variance(run(), ["ts"], seed=None), "seed"),
        (lambda: MatchedLab.prepare(run()).smoother.slices(1), "multiplier"),
        (lambda: MatchedLab.prepare(run()).smoother.shrinkage(None), "multiplier"),
        (lambda: run(logits=LOGITS * np.nan).probs, "logits"),
        (lambda: run(logits=np.full((60, 3), 1e308)).probs, "logits"),
        (lambda: features.predictive_entropy(run(logits=np.zeros((60, 0)))), "logits"),
        (lambda: record(extra=[]), "extra"),
        (lambda: record(epochs=[]), "epochs"),
        (lambda: record(layers=3), "layers"),
        (lambda: record(layers=["a"]), "layers"),
        (lambda: record(entropies=[[1.0], [0.5, 0.5]]), "entropies"),
        (lambda: record(created_at="today"), "created_at"),
        (lambda: run(entropies=None), "entropies"),
        (lambda: run(correct=[True] * 60), "correct"),
        (lambda: run(logits=LOGITS.astype(complex)), "logits"),
        (lambda: run(extra={"score": R[:, None]}), "extra['score']"),
        (lambda: features.feature(run(extra={"score": R * np.nan}), "score"), "extra['score']"),
        (lambda: features.feature(run(entropies=np.full((60, 2), np.nan)), "r_agg"), "entropies"),
        (lambda: features.feature(run(entropies=np.full((60, 2), np.inf)), "r_std"), "entropies"),
        (lambda: features.feature(run(confidence=C * np.nan), "r_agg_x_conf"), "confidence"),
        (lambda: calibration_size_sensitivity(run(), ["ts"], sizes=None), "sizes"),
    ],
)
def test_the_culprit_is_named(call, argument: str):
    with pytest.raises(InvalidInput) as refused:
        call()
    assert refused.value.argument == argument


@pytest.mark.parametrize(
    "call",
    [
        lambda far: mechanism.spearman(far, R),
        lambda far: mechanism.compare_outcomes(far, T),
        lambda far: mechanism.depth_profile(far[:, None], T),
        lambda far: kernel.scott_bandwidth(far),
        lambda far: kernel.solve_temperature(np.column_stack([far, -far]), C),
        lambda far: CALIBRATORS["ts"]().fit(np.column_stack([far, -far]), np.zeros(60)),
    ],
)
def test_numbers_whose_differences_would_overflow_are_refused(call):
    far = np.where(np.arange(60) % 2, 1e308, -1e308)
    with pytest.raises(InvalidInput, match=re.escape("within single precision")):
        call(far)
    call(far / 1e271)  # 1e37 is no trouble


def test_bandwidths_far_below_the_spread_take_the_nearest_neighbour():
    x, t = np.array([0.0, 0.5, 1.0]), np.array([1.0, 2.0, 3.0])
    for width in (1e-12, 1e-300, 5e-324):
        assert kernel.nw_regress(x, t, np.array([0.1, 0.5, 0.9]), width) == pytest.approx([1, 2, 3])
    surface = kernel.nw_surface(np.column_stack([x, x]), t, 1e-300, (x, x))
    assert np.diag(surface.value) == pytest.approx([1, 2, 3])
    assert np.isnan(surface.value[0, 2])


@pytest.mark.parametrize("value", [0.0, 0.3, 1e30, -1e37])
def test_values_too_close_for_a_histogram(value: float):
    close = np.where(T, value, np.nextafter(value, 1))
    outcomes = mechanism.compare_outcomes(close, T)
    assert (np.diff(outcomes.edges) > 0).all()
    assert outcomes.share_correct.sum() == pytest.approx(1)
    assert outcomes.share_wrong.sum() == pytest.approx(1)


def test_shrinkage_does_not_overflow():
    assert kernel.shrinkage(1e30, 1e-300) == 1.0
    assert kernel.shrinkage(0.2, 0.1) == pytest.approx(np.tanh(1.0))


def test_a_feature_that_a_run_lacks_is_still_missing_data():
    with pytest.raises(MissingData):
        features.feature(run(), CustomFeature((HUGE,)))
    with pytest.raises(UnknownName, match="shape"):
        features.feature(run(), np.zeros((3, 3)))


def test_claims_over_incomplete_tables_are_not_checkable():
    whole = published.load_all()
    for name, frame in whole.items():
        outcomes = {result.outcome for result in claims.audit(whole | {name: frame.iloc[:0]})}
        assert outcomes <= set(claims.OUTCOMES)
    zeros = {name: frame.assign(value=0.0 * pd.to_numeric(frame["value"])) for name, frame in whole.items()}
    assert len(claims.audit(zeros)) == len(claims.CLAIMS)
