"""Worlds with a known answer: the controls must measure what was put into them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.controls import (
    SHAPES,
    SIMULATED,
    accuracy_given_confidence,
    false_alarm_rate,
    plant_gap,
    positive_control,
    power_curve,
    raises_false_alarms,
)
from engine.controls.negative import lost_digits_explain
from engine.controls.simulation import BatchTest, Layout, Simulator, chunks, restore_digits, sides
from engine.core.binning import tertiles
from engine.core.errors import InvalidInput, UnknownName
from engine.gaps import (
    TESTS,
    TestSettings,
    bootstrap_gap,
    cmh_test,
    combined_test,
    permutation_test,
    trend_test,
    weighted_gap_test,
)


def run(seed: int, n: int = 4000, noise: float | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Calibrated confidence; rho is independent, or a copy of confidence with this much noise."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1.2, n)
    rho = rng.normal(size=n) if noise is None else confidence + noise * rng.normal(size=n)
    return confidence, rng.random(n) < confidence, rho


def test_logistic_fit_recovers_its_own_model():
    rng = np.random.default_rng(0)
    confidence = rng.beta(3, 1.5, 60_000)
    truth = 1 / (1 + np.exp(-(-0.4 + 1.5 * np.log(confidence / (1 - confidence)))))
    fitted = accuracy_given_confidence(confidence, rng.random(60_000) < truth)
    assert np.abs(fitted - truth).max() < 0.02


def test_fits_are_functions_of_confidence_and_survive_certainty():
    confidence = np.array([0.0, 0.5, 0.5, 0.5, 1.0, 1.0])
    for correct in (np.zeros(6, dtype=bool), np.ones(6, dtype=bool), np.array([0, 1, 0, 1, 1, 1], dtype=bool)):
        for fit in ("logistic", "spline", "isotonic"):
            fitted = accuracy_given_confidence(confidence, correct, fit)
            assert ((fitted >= 0) & (fitted <= 1)).all()
            assert np.ptp(fitted[1:4]) == 0
        assert (np.diff(fitted) >= -1e-12).all()  # the isotonic one, last, never falls


def test_planting_keeps_the_gap_and_the_bins_accuracy_where_bounds_allow():
    bins = np.array([0] * 6 + [1] * 6)
    groups = np.array([0, 0, 0, 1, 2, 2] * 2)
    probability = np.array([0.6] * 6 + [0.98] * 6)
    planted = plant_gap(probability, bins, sides("monotone", groups, bins), 0.2)
    low, mid, high = (planted[groups == g].reshape(2, -1)[:, 0] for g in range(3))
    # Bin 0: low gains 0.2 * 2/5, high loses 0.2 * 3/5, and 3 * 0.08 - 2 * 0.12 = 0 keeps the accuracy.
    assert (low[0], mid[0], high[0]) == pytest.approx((0.68, 0.6, 0.48))
    assert planted[bins == 0].mean() == pytest.approx(0.6)
    # Bin 1: low cannot exceed 1, so high goes to 0.8 and the accuracy gives way.
    assert (low[1], mid[1], high[1]) == pytest.approx((1.0, 0.98, 0.8))
    assert plant_gap(probability, bins, sides("monotone", groups, bins), 0.0) == pytest.approx(probability)


def test_shapes_and_scales_of_planted_gaps():
    bins, groups = np.array([0] * 3 + [1] * 3), np.array([0, 1, 2] * 2)
    assert sides("monotone", groups, bins).tolist() == [1, 0, -1] * 2
    assert sides("U", groups, bins).tolist() == [-1, 1, -1] * 2
    assert sides("opposite signs", groups, bins).tolist() == [-1, 0, 1, 1, 0, -1]
    half = np.full(6, 0.5)
    # The middle third gains 0.3 * 2/3 and the outer two lose 0.3 * 1/3 each.
    assert plant_gap(half, bins, sides("U", groups, bins), 0.3)[:3] == pytest.approx([0.4, 0.7, 0.4])
    # On the odds scale: log-odds 0.1 / (0.5 * 0.5) apart, half of it on either side of even odds.
    odds = plant_gap(half, bins, sides("monotone", groups, bins), 0.1, "odds")[:3]
    assert odds == pytest.approx([1 / (1 + np.exp(-0.2)), 0.5, 1 / (1 + np.exp(0.2))])


def test_lost_digits_are_restored_in_the_order_of_rho():
    confidence, rho = np.array([0.4, 0.5, 0.5, 0.5, 0.8]), np.array([0.0, 3.0, 1.0, 2.0, 0.0])
    # 0.5 stands for 0.45 to 0.65: thirds of it have their middles at 0.4833, 0.55 and 0.6167.
    restored = restore_digits(confidence, rho)
    assert restored[1:4] == pytest.approx([0.45 + 0.2 * 5 / 6, 0.45 + 0.2 / 6, 0.55])
    assert restored[[0, 4]] == pytest.approx([0.4, 0.8])


@pytest.mark.parametrize(
    ("digits", "follows", "broken"), [(1, True, True), (1, False, False), (2, False, False), (6, True, False)]
)
def test_rounded_confidence_is_flagged_where_the_lost_digits_explain_a_rejection(digits, follows, broken):
    rng = np.random.default_rng(5)
    full = rng.random(6000)
    confidence = full.round(digits)
    rho = full - confidence if follows else rng.normal(size=6000)
    alarms = false_alarm_rate(confidence, rng.random(6000) < full, rho, tests=("verdict",))
    assert alarms.broken("verdict") is broken
    assert ("restored" in set(alarms.by_fit["fit"])) is (digits < 3)
    assert (alarms.rate("verdict") > 0.5) is broken  # a world that does not count is not the worst one


def test_what_lost_digits_explain():
    restored = np.array([np.nan, *np.linspace(0.001, 0.1, 100)])
    assert not lost_digits_explain(None, restored, 0.05)
    assert not lost_digits_explain(0.002, restored, 0.05)  # rarer than 1 in 40 there
    assert lost_digits_explain(0.004, restored, 0.05)
    assert not lost_digits_explain(0.06, restored, 0.05)  # nothing to explain


def test_what_counts_as_a_broken_control():
    """The 99 % quantile of Binomial(1000, 0.075) is 95; of 100, 14."""
    assert not raises_false_alarms(95, 1000, 0.05)
    assert raises_false_alarms(96, 1000, 0.05)
    assert not raises_false_alarms(14, 100, 0.05)
    assert not raises_false_alarms(100, 100, 0.9)


def test_planted_shapes_are_found_by_the_verdict_and_the_u_not_by_the_trend():
    data = run(2, n=4000)
    for shape in SHAPES:
        curve = power_curve(*data, deltas=(0.0, 0.2), tests=("verdict", "primary"), shape=shape, n_replicates=60)
        rates = curve.table.pivot(index="test", columns="delta", values="rate")
        assert rates.loc["verdict", 0.2] > 0.9
        assert rates.loc["primary", 0.2] > 0.9 if shape == "monotone" else rates.loc["primary", 0.2] < 0.3


def test_bisection_finds_what_the_whole_curve_finds():
    data = run(6, n=3000)
    found = positive_control(*data, n_replicates=80)
    curve = power_curve(*data, tests=("verdict",), n_replicates=80)
    assert found.detectable["monotone", "accuracy"] == pytest.approx(curve.detectable["verdict"], abs=1e-12)
    assert set(found.detectable) == {(shape, scale) for shape in SHAPES for scale in ("accuracy", "odds")}


def test_a_batch_of_verdicts_equals_the_single_test():
    confidence, _, rho = run(3, n=1500)
    bench = Simulator(confidence, np.ones(1500), rho, ("verdict",), TestSettings())
    accuracy = np.clip(bench.layout.confidence - 0.03 * bench.layout.rho, 0, 1)
    outcomes = np.random.default_rng(1).random((5, 1500)) < accuracy
    batched = bench.tests["verdict"].pvalues(bench.tests["verdict"].summarise(outcomes, accuracy))
    for p, outcome in zip(batched, outcomes, strict=True):
        correct = np.empty(1500, dtype=bool)
        correct[bench.order] = outcome
        # One Newton step stands for each outcome's own fit of confidence, which moves one of four parts a little.
        assert np.log(p) == pytest.approx(np.log(combined_test(confidence, correct, rho).p_value), abs=0.15)


@pytest.mark.parametrize("tied", [False, True], ids=["distinct", "tied"])
@pytest.mark.parametrize("test", TESTS)
def test_batched_pvalues_equal_the_single_test(test: str, tied: bool):
    confidence, _, rho = run(3, n=1500)
    if tied:  # a saturated softmax: more than half of the samples at exactly one
        confidence = np.where(confidence > 0.75, 1.0, confidence)
    layout, order = Layout.of(confidence, rho, (1 / 3, 2 / 3))
    outcomes = np.random.default_rng(1).random((12, 1500)) < np.clip(layout.confidence - 0.05 * layout.rho, 0, 1)
    preset = TESTS[test]
    batch = BatchTest(preset, layout, 5)
    batched = batch.pvalues(batch.summarise(outcomes))
    settings = {"n_bins": preset.bins_for(1500), "matching": preset.matching}
    single = {
        "max_gap": permutation_test,
        "weighted_gap": weighted_gap_test,
        "cmh": cmh_test,
        "trend": trend_test,
    }[preset.statistic]
    for p, outcome in zip(batched, outcomes, strict=True):
        correct = np.empty(1500, dtype=bool)
        correct[order] = outcome
        assert p == pytest.approx(single(confidence, correct, rho, **settings).p_value, abs=2e-5)


def test_primary_test_keeps_its_size_where_coarse_bins_fail():
    # A thousand worlds in which nothing is there: rho only echoes confidence.
    alarms = false_alarm_rate(*run(0, n=10_000, noise=0.02), tests=("primary", "paper_trend"), n_replicates=1000)
    assert 0.04 <= alarms.rate("primary") <= 0.065
    assert alarms.rate("paper_trend") > 0.5


def test_independent_rho_is_judged_fairly_by_every_test():
    alarms = false_alarm_rate(*run(1, n=6000), n_replicates=300)
    assert set(alarms.table["test"]) == set(SIMULATED)
    assert set(alarms.by_fit["fit"]) == {"logistic", "spline", "isotonic"}
    assert not alarms.table["broken"].any()
    assert (alarms.table["rate_low"] <= alarms.table["rate"]).all()
    assert (alarms.table["rate"] <= alarms.table["rate_high"]).all()


def test_power_rises_from_the_level_to_one():
    curve = power_curve(
        *run(2, n=6000), deltas=(0.0, 0.05, 0.1, 0.2, 0.4), tests=("paper", "primary"), n_replicates=200
    )
    for test in ("paper", "primary"):
        rates = curve.table.loc[curve.table["test"] == test, "rate"].to_numpy()
        assert rates[0] < 0.1
        assert (np.diff(rates) >= -0.03).all()
        assert rates[-1] > 0.95
    # The max over bins listens to one bin; the trend listens to all samples.
    assert curve.detectable["primary"] < 0.6 * curve.detectable["paper"]


def test_planted_worlds_really_hold_the_gap():
    confidence, _, rho = run(5, n=20_000)
    groups = tertiles(rho).index
    bins = np.zeros(confidence.size, dtype=np.int64)
    planted = plant_gap(np.full(confidence.size, 0.7), bins, sides("monotone", groups, bins), 0.1)
    drawn = np.random.default_rng(0).random(confidence.size) < planted
    assert drawn[groups == 0].mean() - drawn[groups == 2].mean() == pytest.approx(0.1, abs=0.03)


def test_a_power_never_reached_is_reported_as_such():
    curve = power_curve(*run(2, n=300), deltas=(0.0, 0.01), tests=("paper",), n_replicates=50)
    assert curve.detectable == {"paper": None}


def test_untestable_worlds_count_as_no_rejection():
    confidence, correct, _ = run(0, n=400)
    alarms = false_alarm_rate(confidence, correct, np.ones(400), n_replicates=20)
    assert (alarms.table["untestable"] >= 20).all()
    assert (alarms.table["rate"] == 0).all()


def test_same_seed_same_numbers_and_progress_reaches_one():
    data = run(4, n=1000)
    seen: list[float] = []
    first = false_alarm_rate(*data, n_replicates=30, seed=3, progress=lambda share, _: seen.append(share))
    second = false_alarm_rate(*data, n_replicates=30, seed=3)
    assert all(first.p_values[t].tobytes() == second.p_values[t].tobytes() for t in TESTS)
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


def test_bad_settings_are_named():
    data = run(0, n=100)
    with pytest.raises(UnknownName, match="verdict, paper, primary"):
        false_alarm_rate(*data, tests=("papre",))
    with pytest.raises(InvalidInput, match="alpha"):
        false_alarm_rate(*data, alpha=1.5)
    with pytest.raises(InvalidInput, match="n_replicates"):
        power_curve(*data, n_replicates=0)
    with pytest.raises(InvalidInput, match="deltas"):
        power_curve(*data, deltas=(-0.1, 0.2))
    for deltas in ((), None, 0.1):
        with pytest.raises(InvalidInput, match="deltas"):
            power_curve(*data, deltas=deltas)
    for tests in ((), None, "paper", [["paper"]]):
        with pytest.raises(InvalidInput, match="tests"):
            power_curve(*data, tests=tests)
    for function in (power_curve, false_alarm_rate):
        with pytest.raises(InvalidInput, match="seed"):
            function(*data, seed=-1)
    with pytest.raises(UnknownName, match="primary"):
        false_alarm_rate(*data, tests=("primary",), n_replicates=2).rate("paper")
    with pytest.raises(UnknownName, match="monotone"):
        power_curve(*data, shape="bump")
    with pytest.raises(UnknownName, match="odds"):
        power_curve(*data, scale="logit")


def test_ties_do_not_swallow_the_planted_gap():
    rng = np.random.default_rng(0)
    confidence = np.where(rng.random(4000) < 0.6, 1.0, rng.random(4000))
    data = (confidence, rng.random(4000) < 0.4 + 0.5 * confidence, rng.normal(size=4000))
    jittered = (np.clip(confidence - 1e-9 * rng.random(4000), 0, 1), *data[1:])
    settings = {"tests": ("primary",), "n_replicates": 150}
    found, reference = (power_curve(*each, **settings).detectable["primary"] for each in (data, jittered))
    assert found == pytest.approx(reference, rel=0.25)


def test_large_runs_have_no_untestable_worlds():
    data = run(1, n=60_000)
    curve = power_curve(*data, tests=("paper", "paper_weighted"), deltas=(0.0, 0.1, 0.3), n_replicates=20)
    assert (curve.table["untestable"] == 0).all()
    weighted = curve.table[curve.table["test"] == "paper_weighted"]
    assert weighted["rate"].tolist()[1:] == [1.0, 1.0]


def test_a_test_that_rejects_without_a_gap_detects_nothing():
    curve = power_curve(*run(0, n=10_000, noise=0.02), tests=("paper_trend",), deltas=(0.0, 0.1), n_replicates=60)
    assert curve.table["rate"].iloc[0] > 0.5
    assert curve.detectable == {"paper_trend": None}


def test_isotonic_fit_of_ties_is_the_weighted_one():
    confidence = np.array([0.5, 0.5, 0.6])
    for correct in ([0, 1, 0], [1, 0, 0]):
        fitted = accuracy_given_confidence(confidence, np.array(correct, dtype=bool), "isotonic")
        assert fitted == pytest.approx([1 / 3] * 3)


def test_batches_count_the_bins_where_there_are_more_of_them_than_samples():
    layout, _ = Layout.of(*(run(0, n=50)[i] for i in (0, 2)), (1 / 3, 2 / 3))
    batch = BatchTest(TESTS["paper"].over(1000), layout, 5)
    assert batch.width == 3000
    assert chunks(100, batch.width, budget=30_000) == [10] * 10


def test_more_worlds_than_memory_holds_are_refused():
    data = run(0, n=2000)
    with pytest.raises(InvalidInput, match="n_replicates"):
        power_curve(*data, deltas=np.linspace(0, 1, 500), n_replicates=100_000)
    with pytest.raises(InvalidInput, match="n_replicates"):
        false_alarm_rate(*data, tests=("paper",), settings=TestSettings(100, 1), n_replicates=1_000_000)
    with pytest.raises(InvalidInput, match="n_permutations"):
        permutation_test(*data, n_bins=100, min_support=1, method="hypergeometric", n_permutations=1_000_000)
    with pytest.raises(InvalidInput, match="n_resamples"):
        bootstrap_gap(*data, n_bins=100, n_resamples=1_000_000)


def test_a_test_over_other_bins_says_so():
    assert TESTS["paper"].over(15).label == "the paper's test"
    assert TESTS["paper"].over(30).label == "the paper's test, 30 bins"
    assert TESTS["paper_trend"].over(1).label == "trend, 1 bin"
    assert TESTS["primary"].over(30) == TESTS["primary"]


def test_a_statistic_that_nobody_registered_is_refused():
    """It used to fall into an `else` and get another statistic's value and name."""
    confidence, _, rho = run(0, n=200)
    layout, _ = Layout.of(confidence, rho, (1 / 3, 2 / 3))
    with pytest.raises(UnknownName, match="median_gap"):
        BatchTest(replace(TESTS["paper"], statistic="median_gap"), layout, 5)
