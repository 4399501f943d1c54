"""What the Calibrators page shows. Its long parts are described here and run by `app.shell.long_work`."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd

from app.compute.cache import load_run
from app.compute.jobs import Work
from app.compute.keep import keep
from app.compute.reliability import fitted
from app.report.study import Diagram, diagram_of
from app.state.view import View
from engine.benchmark import (
    BenchmarkResult,
    Scoreboard,
    calibration_size_sensitivity,
    run_benchmark,
    scoreboard,
    split_variance,
)
from engine.benchmark.setup import check_run
from engine.core.binning import N_BINS
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import Progress, RunData, part_of
from engine.verdict.answers import BENCHMARK
from engine.verdict.benchmark import BenchmarkVerdict, judge_run, judge_seeds

Result = TypeVar("Result")


@keep(max_entries=1024)
def obstacle(view: View, run_id: str) -> str:
    """Why calibrators cannot be fitted on a run, or empty."""
    run = load_run(view.cache, run_id)
    logits = np.empty((run.n_samples, 0)) if view.runs.loc[run_id, "has_logits"] else None  # nobody looks into them
    try:
        check_run(replace(run, logits=logits))
    except (MissingData, InvalidInput) as error:
        return str(error)
    return ""


def seeds_of_cell(view: View) -> list[str]:
    """The runs of the chosen run's cell that calibrators can be fitted on, by seed."""
    own, runs = view.row, view.runs
    if pd.isna(own["seed"]):
        return [own["run_id"]]
    cells = view.cells()
    cell = runs[(cells == cells[own["run_id"]]) & runs["has_logits"]].sort_values("seed", kind="stable")
    return [run_id for run_id in cell["run_id"] if not obstacle(view, run_id)]


def seed_names(view: View, run_ids: Sequence[str]) -> list[str]:
    """How the runs of a cell are told apart."""
    return [view.names[run_id].run for run_id in run_ids]


def benchmark(view: View, run_id: str) -> Work[BenchmarkResult]:
    """Every method on a run, with bootstrap intervals."""
    cache, name = view.cache, view.names[run_id].run

    def compute(progress: Progress) -> BenchmarkResult:
        progress(0.0, f"{name}: reading")
        run = cache.load(run_id)
        return run_benchmark(run, progress=part_of(progress, 0, 1, f"{name}: "))

    return Work(("benchmark", run_id), view.kept_by, compute, lambda: BENCHMARK.read(cache, run_id))


def _each_run(
    view: View, what: str, run_ids: Sequence[str], study: Callable[[RunData, Progress], Result]
) -> Work[list[Result]]:
    """The same study of every run, one after the other, with one progress over all."""
    cache, names = view.cache, seed_names(view, run_ids)

    def compute(progress: Progress) -> list[Result]:
        found = []
        for position, run_id in enumerate(run_ids):
            prefix = f"{names[position]}: " if len(run_ids) > 1 else ""

            def report(share: float, text: str, position: int = position, prefix: str = prefix) -> None:
                progress((position + share) / len(run_ids), prefix + text)

            found.append(study(cache.load(run_id), report))
        return found

    return Work((what, tuple(run_ids)), view.kept_by, compute)


def sizes(view: View, run_ids: Sequence[str]) -> Work[list[pd.DataFrame]]:
    """Every method refitted on fewer samples."""
    return _each_run(view, "sizes", run_ids, lambda run, report: calibration_size_sensitivity(run, progress=report))


def splits(view: View, run_ids: Sequence[str]) -> Work[list[pd.DataFrame]]:
    """Every method on ten random splits."""
    return _each_run(view, "splits", run_ids, lambda run, report: split_variance(run, progress=report))


@keep(max_entries=64, by=lambda _view, results, pooled: (tuple(result.run_id for result in results), pooled))
def judged(_view: View, results: list[BenchmarkResult], *, pooled: bool) -> tuple[Scoreboard, BenchmarkVerdict]:
    """Scores to compare and the verdict on them."""
    board = scoreboard(results)
    return board, judge_seeds(board.runs) if pooled else judge_run(results[0])


def diagram(view: View, benchmarked: BenchmarkResult, method: str) -> Diagram:
    """The reliability diagram of a method on the evaluated half, in the benchmark's own bins.

    It is fitted again: with the scores of all methods no predictions are stored.
    """
    result = fitted(view, method, benchmarked.feature)
    return diagram_of(result.confidence[method], result.correct[method], N_BINS, "equal_width")
