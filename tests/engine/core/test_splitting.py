"""The shared split: the protocol's permutation, cut in the middle."""

import numpy as np
import pytest

from engine.core.binning import split
from engine.core.errors import InvalidInput


def test_split_is_the_protocols_permutation():
    fitted, evaluated = split(10)
    order = np.random.default_rng(42).permutation(10)
    assert fitted.tolist() == order[:5].tolist()
    assert evaluated.tolist() == order[5:].tolist()


@pytest.mark.parametrize("n", [2, 3, 61, 1000])
def test_every_row_is_on_one_side_and_the_odd_one_is_evaluated(n):
    fitted, evaluated = split(n, seed=7)
    assert sorted([*fitted, *evaluated]) == list(range(n))
    assert (fitted.size, evaluated.size) == (n // 2, n - n // 2)


def test_another_seed_is_another_split():
    assert split(100)[0].tolist() != split(100, seed=1)[0].tolist()


@pytest.mark.parametrize("n", [1, 0, 2.5])
def test_too_few_samples_are_refused(n):
    with pytest.raises(InvalidInput, match="n: expected a whole number of at least 2"):
        split(n)
