"""The scores of one run, or of the runs of one cell, as a reader compares them: values, intervals, places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from engine.benchmark.aggregate import aggregate_seeds
from engine.benchmark.methods import REFERENCE
from engine.benchmark.run import BenchmarkResult
from engine.benchmark.scores import METRICS
from engine.core.errors import InvalidInput
from engine.core.ranking import UNPLACED, places


@dataclass(frozen=True, eq=False)
class Scoreboard:
    """Every method and metric.

    Attributes
    ----------
    rows : tidy: method, metric, value, low, high, std, place. One run: its value with its 95 % bootstrap interval, std
        NaN. Several: mean, mean -+ std over runs (ddof 0). place is 1 for the best and 2 for the second-best of a
        metric as printed; the uncalibrated model is not placed.
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
        rows = rows.assign(low=rows["value"] - rows["std"], high=rows["value"] + rows["std"])
    rows = rows[["method", "metric", "value", "low", "high", "std"]]
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
