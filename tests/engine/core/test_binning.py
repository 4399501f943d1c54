"""Bins and tertiles: every edge, every precision, ties."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.binning import confidence_bins, equal_mass_bins, equal_width_bins, histogram_edges, tertiles
from engine.core.contingency import tabulate
from engine.core.errors import InvalidInput, UnknownName


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_bins", [1, 2, 3, 7, 10, 15, 20, 49, 100, 1000])
def test_a_value_on_an_edge_lands_on_its_right(n_bins: int, dtype: type):
    edges = (np.arange(n_bins + 1) / n_bins).astype(dtype)
    expected = np.minimum(np.arange(n_bins + 1), n_bins - 1)  # 1 goes to the last bin
    assert equal_width_bins(edges, n_bins).tolist() == expected.tolist()
    just_below = np.nextafter(edges[1:], dtype(0))
    assert equal_width_bins(just_below, n_bins).tolist() == list(range(n_bins))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.integers(1, 60))
def test_equal_width_bins_agree_with_a_search_of_the_edges(values: list[float], n_bins: int):
    edges = np.arange(n_bins + 1) / n_bins
    expected = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, n_bins - 1)
    assert equal_width_bins(np.array(values), n_bins).tolist() == expected.tolist()


def test_naive_truncation_would_misplace_an_edge():
    # 0.29 * 100 is 28.999999999999996 in doubles: truncation is wrong, a search of the edges is not.
    assert int(0.29 * 100) == 28
    assert equal_width_bins(np.array([0.29]), 100).tolist() == [29]


@given(st.integers(1, 200), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_equal_mass_bins_are_even_sorted_and_stable(n: int, n_bins: int, seed: int):
    values = np.random.default_rng(seed).integers(0, 10, n) / 10
    if n < n_bins:
        with pytest.raises(InvalidInput, match="n_bins"):
            equal_mass_bins(values, n_bins)
        return
    bins = equal_mass_bins(values, n_bins)
    sizes = np.bincount(bins, minlength=n_bins)
    assert sizes.max() - sizes.min() <= 1
    order = np.lexsort((np.arange(n), values))  # ties keep the order of the samples
    assert (np.diff(bins[order]) >= 0).all()


def test_unknown_matching_lists_the_valid_ones():
    with pytest.raises(UnknownName, match="equal_width, equal_mass"):
        confidence_bins(np.array([0.5]), 15, "equal_height")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_tertiles_cut_where_numpy_does(values: list[float]):
    rho = np.array(values)
    groups = tertiles(rho)
    assert groups.cuts == pytest.approx(tuple(np.quantile(rho, [1 / 3, 2 / 3])), rel=1e-9, abs=1e-9)
    q1, q2 = groups.cuts
    expected = np.where(rho <= q1, 0, np.where(rho <= q2, 1, 2))
    assert groups.index.tolist() == expected.tolist()
    assert sum(groups.sizes) == rho.size


def test_tied_rho_reports_the_empty_groups():
    assert tertiles(np.ones(9)).empty == ("mid", "high")
    # Nine values, two levels: the cuts are order statistics 2.67 -> 0 and 5.33 -> 1.
    assert tertiles(np.array([0, 0, 0, 0, 1, 1, 1, 1, 1.0])).empty == ("high",)


def test_tabulate_by_hand():
    confidence = [0.1, 0.1, 0.9, 0.9, 0.9, 0.95]
    correct = [1, 0, 1, 1, 0, 1]
    rho = [1, 2, 3, 4, 5, 6]  # cuts at 1 + 5/3 = 2.67 and 1 + 10/3 = 4.33
    table = tabulate(confidence, correct, rho, n_bins=2)
    assert table.cuts == pytest.approx((float(Fraction(8, 3)), float(Fraction(13, 3))))
    assert table.counts.tolist() == [[[1, 1], [0, 0], [0, 0]], [[0, 0], [0, 2], [1, 1]]]
    assert table.n_samples == 6
    assert table.sizes.tolist() == [[2, 0, 0], [0, 2, 2]]


@pytest.mark.parametrize("quantiles", [(0.5,), (0.8, 0.2), (0.0, 0.5), (0.5, 1.0), 0.5, None, ("a", "b")])
def test_bad_quantiles_are_refused(quantiles):
    with pytest.raises(InvalidInput, match="quantiles"):
        tertiles(np.arange(5.0), quantiles)


def test_float32_rho_is_cut_at_the_exact_cut():
    one, more = np.float32(1), np.nextafter(np.float32(1), np.float32(2))
    rho = np.array([one] * 3 + [more] * 6, dtype=np.float32)
    # The lower cut lies between the two values: a third of the samples are below it.
    assert tertiles(rho).sizes == tertiles(rho.astype(np.float64)).sizes == (3, 6, 0)


def test_bins_may_be_any_whole_number_type_but_not_absurdly_many():
    values = np.linspace(0, 1, 500)
    assert tabulate(values, values > 0.5, values, n_bins=np.uint8(200)).n_bins == 200
    with pytest.raises(InvalidInput, match="n_bins"):
        tabulate(values, values > 0.5, values, n_bins=10**15)


@pytest.mark.parametrize("values", [[0.2, 0.4], [0.5], [1.0, 1.0 - 2**-53], [1e16, 1e16 + 2], [0.0, 5e-324]])
def test_histogram_edges_hold_all_values_and_rise(values: list[float]):
    edges = histogram_edges(np.array(values), 60)
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= min(values) <= max(values) <= edges[-1]
    assert np.histogram(values, edges)[0].sum() == len(values)


def test_histogram_edges_are_those_of_numpy_where_numpy_has_any():
    values = np.random.default_rng(0).normal(size=100)
    np.testing.assert_allclose(histogram_edges(values, 30), np.histogram_bin_edges(values, 30), rtol=1e-12)
