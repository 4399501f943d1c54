"""Rounded and tied confidence is found; ordinary confidence, however saturated, is not."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.rounding import find_rounding

CONFIDENCE = 1 - 0.9 * np.random.default_rng(0).beta(0.4, 2, 6000)
"""Piled near 1, as those of a trained network."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("decimals", "step"), [(1, 0.1), (2, 0.01), (3, 0.001), (4, 0.0001), (5, None), (6, None)])
def test_decimal_steps_are_recognised_in_either_precision(decimals, step, dtype):
    found = find_rounding(CONFIDENCE.round(decimals).astype(dtype))
    assert (found and found.step) == (step and pytest.approx(step))


@pytest.mark.parametrize("steps", [255, 20, 1024])
def test_other_steps_show_as_ties(steps):
    found = find_rounding(np.round(CONFIDENCE * steps) / steps)
    assert found is not None
    assert found.n_distinct == np.unique(np.round(CONFIDENCE * steps)).size < 2000


def test_the_limit_is_a_third_of_the_samples():
    """2,000 distinct values in 6,000 samples are enough, 1,999 are not; ties at exactly 1 count like any other."""
    tied = np.where(np.arange(6000) < 1999, CONFIDENCE, 1.0)
    found = find_rounding(np.where(np.arange(6000) < 1998, CONFIDENCE, 1.0))
    assert np.unique(tied).size == 2000
    assert find_rounding(tied) is None
    assert (found.n_samples, found.n_distinct, found.step) == (6000, 1999, None)


def test_saturated_confidence_in_double_precision_is_not_rounded():
    """All of these are 1 in single precision."""
    assert find_rounding(1 - 1e-9 * np.random.default_rng(1).random(500)) is None


def test_few_samples_are_judged_by_ties_alone():
    assert find_rounding([0.91, 0.64, 0.77]) is None
    assert find_rounding(np.arange(1, 30) / 30 // 0.01 / 100) is None
    assert find_rounding([0.5] * 4).step == 0.1


def test_the_sentence_says_what_to_do():
    sentence = find_rounding(CONFIDENCE.round(2)).sentence
    assert sentence.startswith("Confidence is rounded to 2 digits: ")
    assert sentence.endswith("Store confidence with more digits, or import logits.")
    assert find_rounding(np.full(3000, 1 / 3)).sentence.startswith(
        "Confidence has many ties: 1 distinct value in 3,000 samples."
    )
