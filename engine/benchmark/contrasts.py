"""AR-CondCal against its matched controls: paired differences with their noise."""

from collections.abc import Callable, Collection, Sequence

import numpy as np
import pandas as pd
from scipy.stats import norm, t

from engine.benchmark.bootstrap import BOOTSTRAPPED
from engine.benchmark.run import BenchmarkResult
from engine.benchmark.scores import METRICS
from engine.benchmark.setup import ROUTING
from engine.core import validation
from engine.core.errors import InvalidInput

CONTROLS = ("nw_conf", "nw_conf_entropy")
CONTRASTED = ("ece", "worst_tertile_ece", "nll")
"""The metrics on which AR-CondCal is set against its controls: the two of the paper's figure, and the likelihood."""
COLUMNS = ["control", "metric", "difference", "error", "low", "high", "clear", "n"]


def contrast_in_run(
    result: BenchmarkResult, metrics: Sequence[str] = CONTRASTED, *, alpha: float = 0.05
) -> pd.DataFrame:
    """AR-CondCal minus each control on the evaluated half of one run; negative where AR-CondCal is better.

    Columns: control, metric, difference D, error (standard deviation of D over the bootstrap resamples, which all
    methods share), low and high, clear (whether they leave out zero), n (resamples).
    low, high = D -+ z error, z the normal quantile of 1 - alpha / 2m with m the number of rows (Bonferroni), so that
    all intervals hold together. Percentiles would shift D, because resampling inflates every ECE. Noise inflates the
    smaller of two ECEs more and so pulls D to zero: `clear` is sound, the size of a clear D is understated. Empty if
    AR-CondCal was left out.
    """
    _check(metrics, alpha, BOOTSTRAPPED)
    if ROUTING not in result.fitted:
        return pd.DataFrame(columns=COLUMNS)
    if not result.n_bootstrap:
        raise InvalidInput("result", "a benchmark with bootstrap resamples", "none")
    values = result.table()[list(metrics)].to_dict("index")
    rows = []
    for metric in metrics:
        for control in CONTROLS:
            if control not in values:
                continue
            drawn = result.bootstrap[ROUTING][metric] - result.bootstrap[control][metric]
            difference = float(values[ROUTING][metric]) - float(values[control][metric])
            rows.append((control, metric, difference, float(np.std(drawn, ddof=1)), result.n_bootstrap))
    return _with_intervals(rows, lambda level, _: float(norm.ppf(level)), alpha)


def contrast_over_seeds(
    scores: pd.DataFrame, metrics: Sequence[str] = CONTRASTED, *, alpha: float = 0.05
) -> pd.DataFrame:
    """The same from the tidy scores of several runs: the mean of the paired differences D_s over seeds.

    error = s / sqrt(n), s the standard deviation of D_s (ddof 1); the quantile is Student's with n - 1 degrees of
    freedom. Runs without AR-CondCal do not count; with one run there is no spread, so error, low and high are NaN.
    """
    _check(metrics, alpha, METRICS)
    wide = scores.pivot_table(index="run_id", columns=["method", "metric"], values="value", dropna=False)
    rows = []
    for metric in metrics:
        for control in CONTROLS:
            if (ROUTING, metric) not in wide or (control, metric) not in wide:
                continue
            paired = (wide[(ROUTING, metric)] - wide[(control, metric)]).dropna()
            if not paired.empty:
                error = float(paired.std(ddof=1)) / len(paired) ** 0.5 if len(paired) > 1 else np.nan
                rows.append((control, metric, float(paired.mean()), error, len(paired)))
    return _with_intervals(rows, lambda level, n: float(t.ppf(level, n - 1)) if n > 1 else np.nan, alpha)


def _with_intervals(
    rows: list[tuple[str, str, float, float, int]], quantile: Callable[[float, int], float], alpha: float
) -> pd.DataFrame:
    """Rows (control, metric, difference, error, n) with intervals that hold together."""
    level = 1 - alpha / (2 * max(len(rows), 1))
    found = []
    for control, metric, difference, error, n in rows:
        reach = quantile(level, n) * error
        low, high = difference - reach, difference + reach
        found.append((control, metric, difference, error, low, high, low > 0 or high < 0, n))
    return pd.DataFrame(found, columns=COLUMNS)


def _check(metrics: Sequence[str], alpha: float, valid: Collection[str]) -> None:
    for metric in metrics:
        validation.choice("metrics", metric, valid)
    validation.fraction("alpha", alpha)
