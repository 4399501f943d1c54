"""The negative control: how often does each test raise a false alarm on this run?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import binom

from engine.controls.simulation import FITS, SIMULATED, Fit, Simulator, rejection_rate
from engine.core import validation
from engine.core.rounding import Rounding, find_rounding
from engine.core.threads import side_by_side
from engine.core.types import BEHIND, FloatArray, Progress
from engine.gaps.settings import TestSettings

_TOLERATED_INFLATION = 1.5
_BY_ACCIDENT = 0.01
_EXTREME = 0.025
_WORTH_A_SECOND_LOOK = 1.1
_SECOND_LOOK = 3


@dataclass(frozen=True, eq=False)
class FalseAlarms:
    """How often each test rejects when correctness depends on confidence alone.

    table : one row per test, of the world in which it rejects most: label, fit, rejections, n_replicates, rate,
    rate_low, rate_high (95 % Wilson), untestable, broken. by_fit : the same for every world.
    p_values : behind `table`; missing where a data set could not be tested, which counts as no rejection.
    rounding : what was found of lost digits; the world `restored` is tried only then, and counts only for a test whose
    answer on this run could be one of that world (`lost_digits_explain`).
    """

    table: pd.DataFrame
    by_fit: pd.DataFrame
    p_values: Mapping[str, FloatArray] = field(metadata=BEHIND)
    rounding: Rounding | None
    alpha: float
    n_replicates: int
    seed: int

    def rate(self, test: str) -> float:
        """Share of simulated data sets in which the test rejects, in the worst world."""
        return float(self._of(test, "rate"))

    def broken(self, test: str) -> bool:
        """Whether its rejections are not to be believed (`raises_false_alarms`)."""
        return bool(self._of(test, "broken"))

    def _of(self, test: str, column: str) -> Any:
        validation.choice("test", test, list(self.table["test"]))
        return self.table.set_index("test")[column][test]


def raises_false_alarms(rejections: int, n_replicates: int, alpha: float) -> bool:
    """Whether a test rejects more than 1.5 alpha of the data sets without effect beyond doubt.

    P(Binomial(n, 1.5 alpha) >= rejections) < 0.01: hardly ever of a test that rejects 1.5 alpha, and never of a sound
    one.
    """
    return bool(binom.sf(rejections - 1, n_replicates, min(_TOLERATED_INFLATION * alpha, 1)) < _BY_ACCIDENT)


def lost_digits_explain(p_value: float | None, restored: FloatArray, alpha: float) -> bool:
    """Whether a test rejects on the run, but by no more than where only the lost digits of confidence matter.

    restored : p-values of that world, in which the lost digits follow rho as closely as can be. Whether they do cannot
    be seen, so a rejection has to be rarer there than 1 in 40.
    """
    return p_value is not None and float(np.nanquantile(restored, _EXTREME)) <= p_value <= alpha


def false_alarm_rate(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    tests: Sequence[str] = SIMULATED,
    n_replicates: int = 400,
    alpha: float = 0.05,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> FalseAlarms:
    """Keep confidence and rho, simulate correctness in worlds where only confidence matters.

    Accuracy is a logistic, a spline and an isotonic fit on confidence, and, where recorded confidences are rounded or
    tied, one on confidences whose lost digits are restored in the order of rho: the worst they can have hidden. A sound
    test rejects about alpha of the data sets of each. Where a test rejects somewhat more, three times as many are added
    before it is judged.
    """
    validation.draws("n_replicates", n_replicates)
    validation.seed(seed)
    validation.fraction("alpha", alpha)
    bench = Simulator(confidence, correct, rho, tests, settings)
    bench.check(n_replicates, len(FITS) * (1 + _SECOND_LOOK))
    rounding = find_rounding(confidence)
    fits = FITS if rounding is not None else FITS[:-1]

    def in_world(fit: Fit) -> dict[str, FloatArray]:
        accuracy = bench.world(fit)
        place = FITS.index(fit)
        found = _pvalues(bench, accuracy, n_replicates, (seed, place))
        if any((values <= alpha).mean() > _WORTH_A_SECOND_LOOK * alpha for values in found.values()):
            more = _pvalues(bench, accuracy, _SECOND_LOOK * n_replicates, (seed, place, 1))
            found = {test: np.concatenate([values, more[test]]) for test, values in found.items()}
        return found

    rows, p_values = [], {}
    for done, (fit, found) in enumerate(zip(fits, side_by_side(in_world, fits), strict=True)):
        for test, values in found.items():
            rate = rejection_rate(values, alpha)
            broken = raises_false_alarms(int(rate["rejections"]), values.size, alpha)
            if broken and fit == "restored":
                broken = lost_digits_explain(bench.p_value(test), values, alpha)
            rows.append({"test": test, "label": bench.tests[test].label, "fit": fit, **rate, "broken": broken})
            p_values[test, fit] = values
        if progress is not None:
            progress((done + 1) / len(fits), "simulating data sets without effect")
    by_fit = pd.DataFrame(rows)
    counts = by_fit[(by_fit["fit"] != "restored") | by_fit["broken"]]
    worst = by_fit.loc[counts.groupby("test", sort=False)["rate"].idxmax()].reset_index(drop=True)
    kept = {row["test"]: p_values[row["test"], row["fit"]] for _, row in worst.iterrows()}
    return FalseAlarms(worst, by_fit, kept, rounding, alpha, n_replicates, seed)


def _pvalues(bench: Simulator, accuracy: FloatArray, n_replicates: int, seed: Sequence[int]) -> dict[str, FloatArray]:
    summaries = bench.summarise([accuracy], n_replicates, seed)
    return {test: bench.tests[test].pvalues(summary) for test, (summary,) in summaries.items()}
