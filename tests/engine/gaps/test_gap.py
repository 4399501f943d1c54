"""The matched-confidence gap by hand, its invariances and its refusals."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InvalidInput
from engine.gaps import matched_gap


def two_bins() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bin A (0.3): low 6 samples, 3 right; high 8, 6 right. Bin B (0.9): low 10, 9 right; high 5, 3 right."""
    rows = [(0.3, 0.0, 6, 3), (0.3, 1.0, 8, 6), (0.9, 0.0, 10, 9), (0.9, 1.0, 5, 3)]
    confidence = np.concatenate([np.full(n, c) for c, _, n, _ in rows])
    rho = np.concatenate([np.full(n, r) for _, r, n, _ in rows])
    correct = np.concatenate([np.arange(n) < k for _, _, n, k in rows])
    return confidence, correct, rho


def test_gap_by_hand():
    confidence, correct, rho = two_bins()
    result = matched_gap(confidence, correct, rho, quantiles=(0.4, 0.5))
    # 16 low, 13 high: both quantiles are 0, so low = {0}, mid empty, high = {1}.
    assert result.contingency.empty_tertiles == ("mid",)
    gap_a, gap_b = 3 / 6 - 6 / 8, 9 / 10 - 3 / 5
    assert result.max_gap == pytest.approx(abs(gap_b))
    assert result.weighted_gap == pytest.approx((6 * abs(gap_a) + 5 * abs(gap_b)) / (6 + 5))
    assert result.signed_gap == pytest.approx((6 * gap_a + 5 * gap_b) / (6 + 5))
    assert (result.n_shared, result.n_bins) == (2, 15)
    assert result.support == (5.0, 5.25, 5.5)
    shared = result.bins[result.bins["shared"]]
    assert shared["gap"].tolist() == pytest.approx([gap_a, gap_b])


def test_minimum_support_drops_bins():
    confidence, correct, rho = two_bins()
    result = matched_gap(confidence, correct, rho, quantiles=(0.4, 0.5), min_support=6)
    assert result.n_shared == 1
    assert result.max_gap == pytest.approx(abs(3 / 6 - 6 / 8))


def random_data(seed: int, n: int = 2000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 1.5, n)
    return confidence, rng.random(n) < confidence, rng.normal(size=n)


@pytest.mark.parametrize("matching", ["equal_width", "equal_mass"])
def test_invariances(matching: str):
    confidence, correct, rho = random_data(0)
    base = matched_gap(confidence, correct, rho, matching=matching)
    order = np.random.default_rng(1).permutation(rho.size)
    shuffled = matched_gap(confidence[order], correct[order], rho[order], matching=matching)
    assert (shuffled.contingency.counts == base.contingency.counts).all()
    rescaled = matched_gap(confidence, correct, (rho - rho.min()) / np.ptp(rho), matching=matching)
    assert (rescaled.contingency.counts == base.contingency.counts).all()
    mirrored = matched_gap(confidence, correct, 1 - rho, matching=matching)  # low and high swap
    assert mirrored.max_gap == pytest.approx(base.max_gap)
    assert mirrored.weighted_gap == pytest.approx(base.weighted_gap)
    assert mirrored.signed_gap == pytest.approx(-base.signed_gap)


def test_constant_rho_says_what_is_missing():
    confidence, correct, _ = random_data(0)
    result = matched_gap(confidence, correct, np.ones_like(confidence))
    assert result.max_gap is None
    assert result.weighted_gap is None
    assert result.support is None
    assert any("mid tertile is empty" in note for note in result.notes)
    assert any("no confidence bin" in note for note in result.notes)


@pytest.mark.parametrize("value", [0, 1])
def test_all_wrong_or_all_correct_has_no_gap(value: int):
    confidence, _, rho = random_data(0)
    result = matched_gap(confidence, np.full(rho.size, value), rho)
    assert result.max_gap == 0
    assert result.weighted_gap == 0


def test_three_samples_share_no_bin():
    result = matched_gap([0.5, 0.5, 0.5], [1, 0, 1], [1, 2, 3])
    assert (result.max_gap, result.n_shared) == (None, 0)


@pytest.mark.parametrize(
    ("arguments", "culprit"),
    [
        (([0.5, 0.5], [1, 0], [1]), "rho"),
        (([0.5, 0.5], [1], [1, 2]), "correct"),
        (([0.5, np.nan], [1, 0], [1, 2]), "confidence"),
        (([0.5, 0.5], [1, 0], [1, np.inf]), "rho"),
        (([0.5, 1.5], [1, 0], [1, 2]), "confidence"),
        (([0.5, 0.5], [1, 3], [1, 2]), "correct"),
        (([], [], []), "confidence"),
    ],
)
def test_bad_input_is_named(arguments, culprit):
    with pytest.raises(InvalidInput) as caught:
        matched_gap(*arguments)
    assert caught.value.argument == culprit


@pytest.mark.parametrize("changes", [{"n_bins": 0}, {"n_bins": 2.5}, {"min_support": 0}, {"min_support": True}])
def test_bad_settings_are_named(changes):
    with pytest.raises(InvalidInput) as caught:
        matched_gap([0.5, 0.5], [1, 0], [1, 2], **changes)
    assert caught.value.argument == next(iter(changes))


def test_fewer_samples_than_equal_mass_bins_is_refused():
    with pytest.raises(InvalidInput, match="n_bins"):
        matched_gap([0.5, 0.6], [1, 0], [1, 2], matching="equal_mass")
