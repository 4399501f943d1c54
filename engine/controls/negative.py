"""The negative control: how often does each test raise a false alarm on this run?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from engine.controls.simulation import Fit, Simulator, rejection_rate
from engine.core import validation
from engine.core.types import FloatArray, Progress
from engine.gaps.settings import TestSettings
from engine.gaps.statistics import TESTS

_TOLERATED_INFLATION = 2.0


@dataclass(frozen=True, eq=False)
class FalseAlarms:
    """How often each test rejects when correctness depends on confidence alone.

    table : one row per test: label, rejections, n_replicates, rate, rate_low, rate_high (95 % Wilson), untestable.
    p_values : the p-values behind it; missing where a data set could not be tested, which counts as no rejection.
    """

    table: pd.DataFrame
    p_values: Mapping[str, FloatArray]
    alpha: float
    n_replicates: int
    fit: Fit
    seed: int

    def rate(self, test: str) -> float:
        """Share of simulated data sets in which the test rejects."""
        validation.choice("test", test, self.p_values)
        return float(self.table.set_index("test")["rate"][test])


def raises_false_alarms(false_alarm: float, alpha: float) -> bool:
    """Whether a test rejects more than twice as often as it should where only confidence matters."""
    return false_alarm > _TOLERATED_INFLATION * alpha


def false_alarm_rate(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    tests: Sequence[str] = tuple(TESTS),
    n_replicates: int = 1000,
    alpha: float = 0.05,
    seed: int = 42,
    fit: Fit = "logistic",
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> FalseAlarms:
    """Keep confidence and rho, simulate correctness from a fit of accuracy on confidence alone.

    A sound test rejects about alpha of these data sets. One that rejects more mistakes confidence, which its bins
    failed to match, for rho.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    bench = Simulator(confidence, correct, rho, tests, fit, settings)
    rng = np.random.default_rng(seed)
    threshold = bench.probability.astype(np.float32)
    collected: dict[str, list[FloatArray]] = {test: [] for test in bench.tests}
    batches = bench.batches(n_replicates, 1)
    for done, size in enumerate(batches):
        outcomes = rng.random((size, bench.n_samples), dtype=np.float32) < threshold
        for test, batch in bench.tests.items():
            collected[test].append(batch.summarise(outcomes))
        if progress is not None:
            progress((done + 1) / len(batches), "simulating data sets without effect")
    p_values = {test: bench.tests[test].pvalues(np.concatenate(parts)) for test, parts in collected.items()}
    rows = [
        {"test": test, "label": bench.tests[test].preset.label, **rejection_rate(values, alpha)}
        for test, values in p_values.items()
    ]
    return FalseAlarms(pd.DataFrame(rows), p_values, alpha, n_replicates, fit, seed)
