"""What a cache can say about a conclusion, and the one test that decides it over runs.

A conclusion that something is absent is "supported" when nothing here speaks against it, which is no proof of absence.
Over runs, "reliably better" is an exact one-sided sign test at 5 %: the number of runs that are better is
Binomial(n, 1/2) where nothing is there, ties left out. Where there are too few runs for the test to reach 5 % at all,
the conclusion is "not answerable" rather than supported.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy.stats import binom

from engine.types import FloatArray

Outcome = Literal["supported", "not supported", "not answerable"]
OUTCOMES: tuple[Outcome, ...] = ("supported", "not supported", "not answerable")
ALPHA = 0.05


@dataclass(frozen=True)
class Finding:
    """What the cache says: in words, as numbers, and what that means for the conclusion."""

    outcome: Outcome
    found: str
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SignTest:
    """How many runs gain. p : P(at least as many | fair signs), 1 if all are ties."""

    n_better: int
    n_runs: int
    mean: float
    p: float


def sign_test(gains: FloatArray) -> SignTest:
    """One-sided exact sign test of gains (positive: better) over runs."""
    values = np.asarray(gains, dtype=np.float64)
    better, tied = int((values > 0).sum()), int((values == 0).sum())
    p = float(binom.sf(better - 1, values.size - tied, 0.5)) if values.size > tied else 1.0
    return SignTest(better, int(values.size), float(values.mean()) if values.size else np.nan, p)


def fewest_runs(n_comparisons: int = 1) -> int:
    """Runs from which a sign test can reject at all: 2^-n <= alpha / m for the smallest of m p-values under Holm.

    5 for one comparison, 6 for two (or two sides), 7 for four or five.
    """
    return math.ceil(math.log2(n_comparisons / ALPHA))


def too_few(n: int, what: str, n_comparisons: int = 1) -> Finding:
    """Fewer runs than a verdict over them needs."""
    needed = fewest_runs(n_comparisons)
    return Finding("not answerable", f"{n} {what}; a verdict over runs needs {needed}", {"n": n})


def decide(contradicted: bool, found: str, numbers: Mapping[str, float]) -> Finding:
    """Supported unless contradicted."""
    return Finding("not supported" if contradicted else "supported", found, numbers)
