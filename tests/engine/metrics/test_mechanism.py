"""Depth, outcomes, rank correlation, error curve, 2-D map and training matrix, against hand values and scipy."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from engine.core.binning import equal_width_bins, tertiles
from engine.core.errors import InvalidInput
from engine.metrics.mechanism import (
    compare_outcomes,
    depth_profile,
    error_curve,
    relate_to_error,
    reliability_map,
    spearman,
    training_entropy,
)


def toy(n: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = np.sqrt(rng.random(n))
    return confidence, rng.random(n) < confidence, rng.random(n) + 0.5 * confidence


def test_depth_profile_by_hand():
    profile = depth_profile([[0.2, 1.0], [0.4, 0.8], [0.9, 0.6]], [1, 1, 0], names=["a", "b"], n_sources=[2, None])
    assert profile.mean == pytest.approx([1.5 / 3, 2.4 / 3])
    assert profile.std == pytest.approx([np.sqrt((0.09 + 0.01 + 0.16) / 3), np.sqrt((0.04 + 0 + 0.04) / 3)])
    assert profile.mean_correct == pytest.approx([0.3, 0.9])
    assert profile.mean_wrong == pytest.approx([0.9, 0.6])
    assert (profile.names, profile.n_sources) == (("a", "b"), (2, None))
    assert (profile.lowest, profile.highest) == (0, 1)


def test_depth_profile_without_a_wrong_prediction_has_no_mean_of_wrong():
    profile = depth_profile([[0.2], [0.4]], [True, True])
    assert np.isnan(profile.mean_wrong).all()
    assert profile.names == ("layer 1",)


@pytest.mark.parametrize(
    ("values", "options", "argument"),
    [(np.empty((2, 0)), {}, "values"), ([[1.0], [2.0]], {"names": ["a", "b"]}, "names"),
     ([[1.0], [2.0]], {"n_sources": []}, "n_sources")],
)  # fmt: skip
def test_depth_profile_refuses(values, options, argument):
    with pytest.raises(InvalidInput) as caught:
        depth_profile(values, [1, 0], **options)
    assert caught.value.argument == argument


def test_spearman_by_hand():
    # Ranks 1 2 3 4 5 against 2 1 4 3 5: r = 1 - 6 * (1 + 1 + 1 + 1 + 0) / (5 * 24) = 0.8.
    found = spearman([10, 20, 30, 40, 50], [2.0, 1.0, 4.0, 3.0, 5.0])
    assert found.value == pytest.approx(0.8)
    t = 0.8 * np.sqrt(3 / (1 - 0.64))
    assert found.p_value == pytest.approx(2 * stats.t.sf(t, 3))
    half = 1.959963984540054 * np.sqrt((1 + 0.32) / 2)
    assert (found.low, found.high) == pytest.approx((np.tanh(np.arctanh(0.8) - half), np.tanh(np.arctanh(0.8) + half)))
    assert not found.clear


def test_spearman_with_ties_is_pearson_of_mean_ranks():
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 5, 300), rng.integers(0, 3, 300)
    found = spearman(x, y)
    assert found.value == pytest.approx(stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic)


def test_spearman_interval_covers_at_its_level():
    """For a normal pair the population value is 6 / pi asin(r / 2); 95 % of intervals hold it (se 1.1 % over 400)."""
    rng = np.random.default_rng(2)
    truth = 6 / np.pi * np.arcsin(0.6 / 2)
    hits = 0
    for _ in range(400):
        x = rng.standard_normal(120)
        found = spearman(x, 0.6 * x + 0.8 * rng.standard_normal(120))
        hits += found.low <= truth <= found.high
    assert 0.92 <= hits / 400 <= 0.98


def test_spearman_of_perfect_order_and_of_what_cannot_be_ranked():
    perfect = spearman(np.arange(50.0), np.arange(50.0))
    assert perfect.value == pytest.approx(1)
    assert perfect.low > 0.99
    assert perfect.clear
    assert spearman([1.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 4.0]) is None
    assert spearman([1.0, 2.0], [1.0, 2.0]) is None
    assert spearman([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]).low is None


def test_outcomes_by_hand():
    # wrong 2, 4 against correct 1, 2, 3: pairs won 1 + 0.5 (tie) + 0 for the 2, and 3 for the 4, out of 6.
    found = compare_outcomes([1, 2, 3, 2, 4], [1, 1, 1, 0, 0], n_bins=3)
    assert found.separation == pytest.approx(4.5 / 6)
    assert (found.mean_correct, found.mean_wrong) == (2, 3)
    assert (found.n_correct, found.n_wrong) == (3, 2)
    assert found.edges.tolist() == [1, 2, 3, 4]
    assert found.share_correct == pytest.approx([1 / 3, 1 / 3, 1 / 3])
    assert found.share_wrong == pytest.approx([0, 0.5, 0.5])


def test_outcomes_equal_the_pairwise_count_and_scipy():
    _, correct, rho = toy(400)
    found = compare_outcomes(rho, correct)
    wrong, right = rho[~correct], rho[correct]
    assert found.separation == pytest.approx((wrong[:, None] > right[None, :]).mean())
    assert found.p_value == pytest.approx(stats.mannwhitneyu(wrong, right).pvalue)
    assert found.share_correct.sum() == pytest.approx(1)


def test_outcomes_with_an_empty_group_or_one_value():
    alone = compare_outcomes([0.1, 0.2], [1, 1])
    assert (alone.mean_wrong, alone.separation, alone.p_value) == (None, None, None)
    assert alone.share_wrong.sum() == 0
    same = compare_outcomes(np.ones(10), np.arange(10) % 2)
    assert (same.separation, same.p_value) == (0.5, 1.0)


def test_error_curve_by_hand():
    # rho cuts at the median 1.5; errors |c - t|: 0.2, 0.6 and 0.1, 0.3.
    curve = error_curve([0.8, 0.6, 0.9, 0.7], [1, 0, 1, 1], [0.0, 1.0, 2.0, 3.0], n_bins=2)
    assert curve["rho"].tolist() == [0.5, 2.5]
    assert curve["error"].tolist() == pytest.approx([0.4, 0.2])
    assert curve["expected"].tolist() == pytest.approx([0.16 + 0.24, 0.09 + 0.21])
    half = stats.t.ppf(0.975, 1) * np.array([0.2, 0.1])  # sd / sqrt(2) of two values is half their distance
    assert (curve["error"] - curve["error_low"]).tolist() == pytest.approx(half.tolist())


def test_error_curve_of_a_calibrated_model_follows_its_expectation():
    confidence, correct, rho = toy(40_000)
    curve = error_curve(confidence, correct, rho)
    assert curve["count"].tolist() == [2000] * 20
    inside = curve["expected"].between(curve["error_low"], curve["error_high"])
    assert inside.sum() >= 17  # 19 expected of 20


def test_error_curve_keeps_ties_together():
    confidence, correct, _ = toy(300)
    rho = np.repeat([0.0, 0.0, 1.0], 100)
    curve = error_curve(confidence, correct, rho)
    assert curve[["rho", "count"]].to_numpy().tolist() == [[0, 200], [1, 100]]
    assert len(error_curve(confidence, correct, np.zeros(300))) == 1
    assert np.isnan(error_curve([0.5], [1], [0.3])["error_low"][0])


def test_relation_ties_the_parts_together():
    confidence, correct, rho = toy()
    relation = relate_to_error(confidence, correct, rho)
    expected = stats.spearmanr(rho, np.abs(confidence - correct))
    assert relation.spearman.value == pytest.approx(expected.statistic)
    assert relation.spearman.p_value == pytest.approx(expected.pvalue)
    assert relation.outcomes.n_wrong == (~correct).sum()
    assert relation.curve["count"].sum() == 2000


def test_map_equals_a_loop_and_blanks_thin_cells():
    confidence, correct, rho = toy()
    found = reliability_map(confidence, correct, rho, n_bins=10, min_count=5)
    group, column = tertiles(rho).index, equal_width_bins(confidence, 10)
    for g in range(3):
        for b in range(10):
            cell = (group == g) & (column == b)
            assert found.counts[g, b] == cell.sum()
            if cell.sum() < 5:
                assert np.isnan(found.gap[g, b])
            else:
                assert found.gap[g, b] == pytest.approx(correct[cell].mean() - confidence[cell].mean())
    assert np.isnan(found.gap).any()  # the toy has thin cells at low confidence
    tertile, column = found.largest
    assert abs(found.gap[("low", "mid", "high").index(tertile), column]) == np.nanmax(np.abs(found.gap))


def test_map_by_hand_and_of_a_constant_feature():
    found = reliability_map([0.9] * 5 + [0.2] * 4, [1, 1, 1, 0, 0, 1, 1, 1, 1], np.zeros(9), n_bins=2)
    assert found.gap[0].tolist() == pytest.approx([np.nan, 0.6 - 0.9], nan_ok=True)
    assert found.counts[0].tolist() == [4, 5]
    assert found.empty == ("mid", "high")
    assert found.largest == ("low", 1)
    assert reliability_map([0.9], [1], [0.0]).largest is None


def test_training_matrix():
    frame = pd.DataFrame({
        "epoch": [3, 3, 6, 6], "layer": [1, 2, 1, 2], "mean_entropy": [1.0, 0.9, 0.7, 0.95], "std_entropy": [0.0] * 4
    })  # fmt: skip
    found = training_entropy(frame)
    assert found.epochs.tolist() == [3, 6]
    assert found.layers.tolist() == [1, 2]
    assert found.mean.tolist() == [[1.0, 0.7], [0.9, 0.95]]
    assert found.change.tolist() == pytest.approx([-0.3, 0.05])
    assert training_entropy(frame.iloc[:0]) is None
