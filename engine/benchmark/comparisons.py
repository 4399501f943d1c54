"""Methods compared: means over seeds, ranks, who leads and how firmly, the scoreboard, AR-CondCal and its controls."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t

from engine.benchmark.run import BenchmarkResult
from engine.benchmark.scores import BOOTSTRAPPED, METRICS
from engine.benchmark.setup import CONTROLS, REFERENCE, ROUTING
from engine.core import validation
from engine.core.errors import InvalidInput
from engine.core.labels import UNPLACED, places
from engine.core.types import CELL


def aggregate_seeds(scores: pd.DataFrame, runs: pd.DataFrame, by: Sequence[str] = CELL) -> pd.DataFrame:
    """Mean, population standard deviation (ddof 0) and number of runs of each cell, method and metric.

    `scores` stacks the tidy frames of several runs; `runs` has a row per run_id with the columns of `by`.
    """
    missing = set(scores["run_id"]) - set(runs["run_id"])
    if missing:
        raise InvalidInput("runs", "a row for every run of scores", f"none for {', '.join(sorted(missing))}")
    joined = scores.merge(runs[["run_id", *by]], on="run_id", validate="many_to_one")
    grouped = joined.groupby([*by, "method", "metric"], sort=False, dropna=False)["value"]
    table = grouped.agg(mean="mean", std=lambda values: values.std(ddof=0), n="count").reset_index()
    return table.astype({"n": "int64"})


def split_trials(splits: pd.DataFrame) -> pd.DataFrame:
    """The tidy frame of `split_variance`, of one run or stacked, with a column `trial`: each split of each run."""
    return splits.assign(trial=splits["run_id"] + "/" + splits["split"].astype(str))


def ranks(scores: pd.DataFrame, trial: str, metric: str = "ece") -> pd.DataFrame:
    """Rank of each method in each trial (splits, runs) of a tidy frame, 1 the best; equal values share the better rank.

    The uncalibrated model does not compete. The rows of the metric that have a value, with a column `rank`.
    """
    if metric not in METRICS or METRICS[metric].lower_is_better is None:
        raise InvalidInput("metric", "a metric with a better end", repr(metric))
    kept = scores[(scores["metric"] == metric) & (scores["method"] != REFERENCE)].dropna(subset=["value"])
    # Methods that agree to rounding (TS and ETS often do) share their rank.
    rounded = kept.assign(value=kept["value"].round(12))
    rank = rounded.groupby(trial)["value"].rank(method="min", ascending=bool(METRICS[metric].lower_is_better))
    return kept.assign(rank=rank.astype("int64"))


def rank_one_counts(scores: pd.DataFrame, trial: str, metric: str = "ece") -> pd.DataFrame:
    """How often each method has the best value of a metric over the trials (splits, runs) of a tidy frame.

    The uncalibrated model does not compete; methods tied for the first place are all counted. Columns: method, n_first,
    n_trials, share, mean_rank, mean, std (ddof 0).
    """
    ranked = ranks(scores, trial, metric)
    table = (
        ranked.assign(first=ranked["rank"] == 1)
        .groupby("method", sort=False)
        .agg(
            n_first=("first", "sum"),
            n_trials=("first", "size"),
            mean_rank=("rank", "mean"),
            mean=("value", "mean"),
            std=("value", lambda values: values.std(ddof=0)),
        )
    )
    table.insert(2, "share", table["n_first"] / table["n_trials"])
    return table.reset_index()


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


def _check_metric(metric: str) -> None:
    if not METRICS[validation.choice("metric", metric, METRICS)].lower_is_better:
        raise InvalidInput("metric", "a metric of which less is better", repr(metric))


def leader_in_run(result: BenchmarkResult, metric: str, *, alpha: float = 0.05) -> Leader | None:
    """The best method of one run; None if the run has no value of the metric (worst-tertile ECE without a profile).

    Another method is clearly worse if the interval of its difference to the best is above zero
    (`BenchmarkResult.difference`, level 1 - alpha).
    """
    _check_metric(metric)
    validation.fraction("alpha", alpha)
    values = result.table()[metric]
    competing = values.drop(REFERENCE).dropna()
    if competing.empty:
        return None
    best = str(competing.round(12).idxmin())
    rivals = [str(name) for name in competing.index if name != best]
    n_alike = None
    if result.n_bootstrap and metric in BOOTSTRAPPED:
        n_alike = sum(not result.difference(metric, name, best, 1 - alpha).low > 0 for name in rivals)
    return Leader(metric, best, float(competing[best]), float(values[REFERENCE]), len(rivals), n_alike)


def leader_over_seeds(scores: pd.DataFrame, metric: str) -> Leader | None:
    """The method with the lowest mean over the runs of a tidy frame, and in how many of them it is the best."""
    _check_metric(metric)
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


@dataclass(frozen=True, eq=False)
class Scoreboard:
    """Every method and metric.

    Attributes
    ----------
    rows : tidy: method, metric, value, debiased, low, high, std, place. One run: its value, with its debiased value and
        95 % interval where it has them, std NaN. Several: mean, mean -+ std over runs (ddof 0). place is 1 for the best
        and 2 for the second-best of a metric as printed; the uncalibrated model is not placed.
    runs : tidy: run_id, method, metric, value.
    n_runs : how many.
    """

    rows: pd.DataFrame
    runs: pd.DataFrame
    n_runs: int

    def metric(self, name: str) -> pd.DataFrame:
        """The rows of a metric that have a value, indexed by method."""
        kept = self.rows[(self.rows["metric"] == name) & self.rows["value"].notna()]
        return kept.set_index("method")


def scoreboard(results: Sequence[BenchmarkResult]) -> Scoreboard:
    """The scoreboard of the benchmarks of one run or of several runs of a cell."""
    if not results:
        raise InvalidInput("results", "at least one benchmark", "none")
    runs = pd.concat([result.scores for result in results], ignore_index=True)
    n_runs = len(results)
    if n_runs == 1:
        rows = runs.rename(columns={"ci_low": "low", "ci_high": "high"}).assign(std=float("nan"))
    else:
        cell = runs[["run_id"]].drop_duplicates().assign(all=0)
        rows = aggregate_seeds(runs, cell, by=("all",)).rename(columns={"mean": "value"})
        rows = rows.assign(low=rows["value"] - rows["std"], high=rows["value"] + rows["std"], debiased=float("nan"))
    rows = rows[["method", "metric", "value", "debiased", "low", "high", "std"]]
    return Scoreboard(rows.assign(place=_places(rows)), runs[["run_id", "method", "metric", "value"]], n_runs)


def _places(rows: pd.DataFrame) -> list[int]:
    placed = dict.fromkeys(rows.index, UNPLACED)
    for name, part in rows[rows["method"] != REFERENCE].groupby("metric", sort=False):
        metric = METRICS[str(name)]
        if metric.lower_is_better is not None:
            values = [float(value) for value in part["value"]]
            found = places(values, metric.digits, lower_is_better=metric.lower_is_better)
            placed |= dict(zip(part.index, found, strict=True))
    return list(placed.values())


CONTRASTED = ("ece", "worst_tertile_ece", "nll")
"""The metrics on which AR-CondCal is set against its controls: the two of the paper's figure, and the likelihood."""
COLUMNS = ["control", "metric", "difference", "low", "high", "clear", "n"]


def contrast_in_run(
    result: BenchmarkResult, metrics: Sequence[str] = CONTRASTED, *, alpha: float = 0.05
) -> pd.DataFrame:
    """AR-CondCal minus each control on the evaluated half of one run; negative where AR-CondCal is better.

    Columns: control, metric, difference D, low and high (`BenchmarkResult.difference`), clear (whether they leave out
    zero), n (resamples). The level is 1 - alpha / m with m the number of rows that have an interval (Bonferroni), so
    that all hold together. Empty if AR-CondCal was left out.
    """
    _check(metrics, alpha, METRICS)
    if ROUTING not in result.methods:
        return pd.DataFrame(columns=COLUMNS)
    if not result.n_bootstrap:
        raise InvalidInput("result", "a benchmark with bootstrap resamples", "none")
    pairs = [(control, metric) for metric in metrics for control in CONTROLS if control in result.methods]
    level = 1 - alpha / max(sum(metric in BOOTSTRAPPED for _, metric in pairs), 1)
    found = []
    for control, metric in pairs:
        each = result.difference(metric, ROUTING, control, level)
        clear = each.low > 0 or each.high < 0
        found.append((control, metric, each.estimate, each.low, each.high, clear, result.n_bootstrap))
    return pd.DataFrame(found, columns=COLUMNS)


def contrast_over_seeds(
    scores: pd.DataFrame, metrics: Sequence[str] = CONTRASTED, *, alpha: float = 0.05
) -> pd.DataFrame:
    """The same from the tidy scores of several runs: the mean of the paired differences D_s over seeds.

    low, high = D -+ q s / sqrt(n), s the standard deviation of D_s (ddof 1), q Student's quantile of 1 - alpha / 2m
    with n - 1 degrees of freedom. Runs without AR-CondCal do not count; with one run there is no spread: both are NaN.
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
    level = 1 - alpha / (2 * max(len(rows), 1))
    found = []
    for control, metric, difference, error, n in rows:
        reach = float(t.ppf(level, n - 1)) * error if n > 1 else np.nan
        low, high = difference - reach, difference + reach
        found.append((control, metric, difference, low, high, low > 0 or high < 0, n))
    return pd.DataFrame(found, columns=COLUMNS)


def _check(metrics: Sequence[str], alpha: float, valid: Collection[str]) -> None:
    for metric in metrics:
        validation.choice("metrics", metric, valid)
    validation.fraction("alpha", alpha)
