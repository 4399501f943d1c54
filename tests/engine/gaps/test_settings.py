"""The settings of the tests are checked where they are made."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InvalidInput
from engine.gaps import TestSettings, matched_gap


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n_bins": 0}, "n_bins"),
        ({"n_bins": 2.5}, "n_bins"),
        ({"min_support": 0}, "min_support"),
        ({"quantiles": (0.6, 0.4)}, "quantiles"),
        ({"quantiles": 0.3}, "quantiles"),
    ],
)
def test_what_cannot_be_set_is_named(wrong: dict, named: str):
    with pytest.raises(InvalidInput, match=named):
        TestSettings(**wrong)


def test_the_counts_are_those_of_the_matched_gap():
    rng = np.random.default_rng(0)
    confidence, rho = rng.random(300), rng.random(300)
    correct, settings = rng.random(300) < confidence, TestSettings(7, 3, (0.2, 0.7))
    gap = matched_gap(confidence, correct, rho, **settings.keywords)
    assert np.array_equal(settings.tabulate(confidence, correct, rho).counts, gap.contingency.counts)
    assert (gap.n_bins, gap.min_support) == (7, 3)
