"""Many runs: means and spreads over seeds, and who comes first how often."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from engine.benchmark.methods import REFERENCE
from engine.benchmark.scores import METRICS
from engine.core.errors import InvalidInput
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
