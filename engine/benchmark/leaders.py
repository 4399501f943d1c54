"""Who has the best value of a metric, and how firmly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import norm

from engine.benchmark.aggregate import aggregate_seeds, rank_one_counts
from engine.benchmark.methods import REFERENCE
from engine.benchmark.run import BenchmarkResult
from engine.benchmark.scores import METRICS
from engine.core import validation
from engine.core.errors import InvalidInput


@dataclass(frozen=True)
class Leader:
    """The calibrator with the lowest value of a metric; the uncalibrated model does not compete.

    Attributes
    ----------
    value, uncalibrated : of the method and without calibration (means over seeds where there are several).
    value_std, uncalibrated_std : over seeds (ddof 0); 0 for one run.
    n_rivals : other methods. n_alike : how many of them are not clearly worse; None over seeds.
    n_runs, n_first : runs, and those of them in which this method is the best.
    """

    metric: str
    method: str
    value: float
    uncalibrated: float
    n_rivals: int
    n_alike: int | None = None
    value_std: float = 0.0
    uncalibrated_std: float = 0.0
    n_runs: int = 1
    n_first: int = 1

    @property
    def improves(self) -> bool:
        """Whether it is below the uncalibrated value at all."""
        return self.value < self.uncalibrated


def _check(metric: str) -> None:
    if not METRICS[validation.choice("metric", metric, METRICS)].lower_is_better:
        raise InvalidInput("metric", "a metric of which less is better", repr(metric))


def leader_in_run(result: BenchmarkResult, metric: str, *, alpha: float = 0.05) -> Leader | None:
    """The best method of one run; None if the run has no value of the metric (worst-tertile ECE without a profile).

    Another method is clearly worse if its paired difference D to the best exceeds z error: error the standard deviation
    of D over the bootstrap resamples, z the normal quantile of 1 - alpha / 2.
    """
    _check(metric)
    validation.fraction("alpha", alpha)
    values = result.table()[metric]
    competing = values.drop(REFERENCE).dropna()
    if competing.empty:
        return None
    best = str(competing.round(12).idxmin())
    rivals = [str(name) for name in competing.index if name != best]
    n_alike = None
    if result.n_bootstrap:
        z = float(norm.ppf(1 - alpha / 2))
        errors = [np.std(result.bootstrap[name][metric] - result.bootstrap[best][metric], ddof=1) for name in rivals]
        n_alike = sum(
            competing[name] - competing[best] <= z * error for name, error in zip(rivals, errors, strict=True)
        )
    return Leader(metric, best, float(competing[best]), float(values[REFERENCE]), len(rivals), n_alike)


def leader_over_seeds(scores: pd.DataFrame, metric: str) -> Leader | None:
    """The method with the lowest mean over the runs of a tidy frame, and in how many of them it is the best."""
    _check(metric)
    kept = scores[scores["metric"] == metric].dropna(subset=["value"])
    n_runs = kept["run_id"].nunique()
    cells = aggregate_seeds(kept, kept[["run_id"]].drop_duplicates().assign(all=0), by=("all",)).set_index("method")
    competing = cells[cells["n"] == n_runs].drop(index=REFERENCE, errors="ignore")
    if competing.empty:
        return None
    best = str(competing["mean"].round(12).idxmin())
    first = rank_one_counts(kept, "run_id", metric).set_index("method")["n_first"].to_dict()
    mean, std = cells["mean"].to_dict(), cells["std"].to_dict()
    return Leader(
        metric, best, float(mean[best]), float(mean[REFERENCE]), len(competing) - 1,
        value_std=float(std[best]), uncalibrated_std=float(std[REFERENCE]), n_runs=n_runs, n_first=int(first[best]),
    )  # fmt: skip
