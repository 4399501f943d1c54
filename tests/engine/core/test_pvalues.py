"""Corrections against statsmodels, and the Monte-Carlo p-value by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import InvalidInput, UnknownName
from engine.core.pvalues import adjust_pvalues, adjust_tested, monte_carlo_pvalue, sign_test


def test_monte_carlo_pvalue_counts_ties_and_is_never_zero():
    draws = np.array([0.1, 0.3, 0.3 + 1e-15, 0.5])
    assert monte_carlo_pvalue(0.3, draws) == (1 + 3) / (1 + 4)
    assert monte_carlo_pvalue(9.0, draws) == 1 / 5


def test_sign_test_by_hand():
    assert sign_test(np.array([1.0, 2.0, 3.0, 4.0, 5.0])).p == pytest.approx(1 / 32)
    assert sign_test(np.array([1.0, 1.0, 1.0, 1.0, -1.0])).p == pytest.approx(6 / 32)
    assert sign_test(np.array([1.0, 0.0, 0.0])).p == pytest.approx(1 / 2)  # ties leave one run
    assert sign_test(np.zeros(5)).p == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
@pytest.mark.parametrize(
    ("method", "peer"), [("bonferroni", "bonferroni"), ("holm", "holm"), ("benjamini_hochberg", "fdr_bh")]
)
def test_adjustments_agree_with_statsmodels(method: str, peer: str, p: list[float]):
    multitest = pytest.importorskip("statsmodels.stats.multitest")
    expected = multitest.multipletests(p, method=peer)[1]
    assert adjust_pvalues(p, method) == pytest.approx(expected, abs=1e-12)


def test_bad_pvalues_are_refused():
    with pytest.raises(InvalidInput, match="p:"):
        adjust_pvalues([0.1, 1.2], "holm")
    with pytest.raises(InvalidInput, match="p:"):
        adjust_pvalues([0.1, np.nan], "holm")
    with pytest.raises(UnknownName, match="bonferroni, holm"):
        adjust_pvalues([0.1], "sidak")


def test_tests_that_could_not_run_do_not_count():
    found = adjust_tested([0.01, np.nan, 0.04], "bonferroni")
    np.testing.assert_allclose(found, [0.02, np.nan, 0.08])
    assert np.isnan(adjust_tested([np.nan], "holm")).all()
    assert adjust_tested([], "holm").size == 0
