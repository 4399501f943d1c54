"""The permutation test and the bootstrap beside the ways of resampling that they replace."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from engine.controls import power_curve
from engine.core.binning import equal_width_bins, tertiles
from engine.core.types import BoolArray, FloatArray, IntArray
from engine.gaps import bootstrap_gap, permutation_test
from engine.gaps.settings import MIN_SUPPORT
from tests.bench.data import samples
from tests.bench.runner import Case, Work

RESAMPLES = 5000


def _cells(bins: IntArray, groups: IntArray, correct: BoolArray) -> IntArray:
    return np.bincount((bins * 3 + groups) * 2 + correct, minlength=90).reshape(15, 3, 2)


def _gaps(counts: IntArray) -> tuple[float, float]:
    sizes = counts.sum(axis=2)
    weights = np.minimum(sizes[:, 0], sizes[:, 2])
    kept = weights >= MIN_SUPPORT
    gaps = np.abs(counts[kept, 0, 1] / sizes[kept, 0] - counts[kept, 2, 1] / sizes[kept, 2])
    return float(gaps.max()), float(weights[kept] @ gaps / weights[kept].sum())


def permute_in_bins(confidence: FloatArray, correct: BoolArray, rho: FloatArray) -> FloatArray:
    """Max gaps of 5000 within-bin permutations, one permutation and one bincount at a time."""
    rng = np.random.default_rng(42)
    bins, groups = equal_width_bins(confidence), tertiles(rho).index
    members = [np.flatnonzero(bins == b) for b in range(15)]
    values = np.empty(RESAMPLES)
    shuffled = groups.copy()
    for index in range(RESAMPLES):
        for rows in members:
            shuffled[rows] = rng.permutation(groups[rows])
        values[index] = _gaps(_cells(bins, shuffled, correct))[0]
    return values


def resample_rows(confidence: FloatArray, correct: BoolArray, rho: FloatArray) -> FloatArray:
    """Both gaps of 5000 bootstrap samples: rows drawn, the fixed cuts applied to them, counted."""
    rng = np.random.default_rng(42)
    n = confidence.size
    low, high = tertiles(rho).cuts
    values = np.empty((RESAMPLES, 2))
    for index in range(RESAMPLES):
        rows = rng.integers(0, n, n)
        drawn = rho[rows]
        groups = (drawn > low).astype(np.int64) + (drawn > high)
        values[index] = _gaps(_cells(equal_width_bins(confidence[rows]), groups, correct[rows]))
    return values


def resample_cells(confidence: FloatArray, correct: BoolArray, rho: FloatArray) -> FloatArray:
    """The same with every row's cell worked out beforehand, the quickest way to resample rows."""
    rng = np.random.default_rng(42)
    n = confidence.size
    cells = (equal_width_bins(confidence) * 3 + tertiles(rho).index) * 2 + correct
    values = np.empty((RESAMPLES, 2))
    for index in range(RESAMPLES):
        values[index] = _gaps(np.bincount(cells[rng.integers(0, n, n)], minlength=90).reshape(15, 3, 2))
    return values


def _exact() -> tuple[Work, Mapping[str, Work]]:
    data = samples()
    return lambda: permutation_test(*data), {
        "shuffle (ours)": lambda: permutation_test(*data, method="shuffle"),
        "per-bin permutation + bincount": lambda: permute_in_bins(*data),
    }


def _hypergeometric() -> tuple[Work, Mapping[str, Work]]:
    data = samples()
    return lambda: permutation_test(*data, method="hypergeometric"), {
        "shuffle (ours)": lambda: permutation_test(*data, method="shuffle"),
        "per-bin permutation + bincount": lambda: permute_in_bins(*data),
    }


def _bootstrap() -> tuple[Work, Mapping[str, Work]]:
    data = samples()
    return lambda: bootstrap_gap(*data), {"rows resampled": lambda: resample_rows(*data)}


def _bootstrap_cells() -> tuple[Work, Mapping[str, Work]]:
    data = samples()
    return lambda: bootstrap_gap(*data), {"rows resampled, cells known": lambda: resample_cells(*data)}


def _power() -> tuple[Work, Mapping[str, Work]]:
    data = samples()
    return lambda: power_curve(*data, deltas=np.linspace(0, 0.3, 20).tolist(), tests=("paper",)), {}


CASES: tuple[Case, ...] = (
    Case("max gap, exact p", _exact, target=300, repeats=3),
    Case("max gap, hypergeometric, P = 5000", _hypergeometric, target=80, repeats=3),
    Case("gap bootstrap, B = 5000", _bootstrap, target=100, repeats=3),
    Case("gap bootstrap against known cells", _bootstrap_cells, repeats=3),
    Case("paper's test, power at 20 gaps x 1000 worlds", _power, limit_seconds=1.5, repeats=3),
)
