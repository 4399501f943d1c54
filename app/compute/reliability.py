"""What Reliability shows, computed once for all viewers. Objects are shared: do not change them."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from app.compute.cache import load_run
from app.compute.keep import keep
from app.report.study import Diagram, diagram_of
from app.state.selection import feature_label
from app.state.view import View
from engine.benchmark import BenchmarkResult, run_benchmark
from engine.calibrators import CALIBRATORS
from engine.calibrators.base import FEATURE
from engine.core.binning import Matching
from engine.core.errors import InvalidInput, MissingData
from engine.core.labels import is_ensemble
from engine.metrics.mechanism import ReliabilityMap, reliability_map
from engine.metrics.reliability import class_table


@keep(max_entries=512, by=lambda view, matching: (view.selection.of_any_feature, matching))
def diagram(view: View, matching: Matching = "equal_width") -> Diagram | None:
    """The diagram of the chosen samples; None if the slice is empty in this run."""
    run = view.run  # loaded in here, so that a remembered diagram of another run needs none of its samples
    return diagram_of(run.confidence, run.correct, view.selection.protocol.n_bins, matching) if run.n_samples else None


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A calibrator on the held-out half, with what a reader should know about its fit."""

    label: str
    diagram: Diagram
    n_calibration: int
    n_evaluation: int
    note: str


@keep(
    max_entries=128, by=lambda view, method, name: (view.selection.run_id, method, name),
    spinner="Fitting on the calibration half",
)  # fmt: skip
def fitted(view: View, method: str, feature_name: str) -> BenchmarkResult:
    """One calibrator on the whole run."""
    run = load_run(view.cache, view.selection.run_id, with_logits=True)
    result = run_benchmark(run, [method], feature=feature_name, n_bootstrap=0)
    if method in result.skipped:
        raise MissingData("feature of that name", CALIBRATORS[method].label, "choose another feature in the sidebar")
    return result


def calibrated(view: View, method: str) -> Calibrated:
    """A calibrator fitted on one half of the whole run, shown on the other; raises what the engine raises."""
    with_feature = FEATURE in CALIBRATORS[method].needs
    return _calibrated(view, method, view.selection.feature if with_feature else "confidence")


@keep(
    max_entries=512,
    by=lambda view, method, name: (view.selection.run_id, method, name, view.selection.protocol.n_bins),
)
def _calibrated(view: View, method: str, feature_name: str) -> Calibrated:
    result = fitted(view, method, feature_name)
    label = CALIBRATORS[method].label
    if FEATURE in CALIBRATORS[method].needs and feature_name != "r_std":
        label = f"Kernel on confidence and {feature_label(feature_name)}"
    n_bins = view.selection.protocol.n_bins
    return Calibrated(
        label,
        diagram_of(result.confidence[method], result.correct[method], n_bins, "equal_width"),
        result.n_calibration,
        result.n_evaluation,
        result.fitted[method].note,
    )


def calibrated_by(view: View, methods: Sequence[str]) -> tuple[list[Calibrated], list[str]]:
    """Those of the calibrators that this run can bear, and why it cannot bear the others."""
    found, problems = [], []
    for method in methods:
        try:
            found.append(calibrated(view, method))
        except (MissingData, InvalidInput) as error:
            problems.append(str(error))
    return found, list(dict.fromkeys(problems))


def grid_runs(view: View, scope: str) -> list[str]:
    """Other runs to set beside this one: those of its own cell, or one single model of every other cell."""
    runs, own, cells = view.runs, view.row, view.cells(of_any_suite=True)
    same = cells == cells[own["run_id"]]
    if scope == "cell":
        return runs.index[same & (runs.index != own["run_id"])].tolist()
    single = runs[~is_ensemble(runs["suite"]) & ~same]
    # The cell's run of the same seed where there is one, its first otherwise.
    other_seed = (single["seed"] != own["seed"]).fillna(True)
    ordered = single.assign(cell=cells, other_seed=other_seed).sort_values("other_seed", kind="stable")
    # Imported runs all carry the same placeholder cell, so each counts for itself.
    firsts = ordered[ordered["seed"].isna() | ~ordered.duplicated("cell")]
    return firsts.sort_values(["dataset", "backbone", "variant"], kind="stable").index.tolist()


def named_diagrams(view: View, run_ids: Sequence[str]) -> list[tuple[str, Diagram]]:
    """The diagrams of other runs that have samples in the slice, under the names that tell them apart."""
    found = []
    for run_id in run_ids:
        shown, row = diagram(view.of_run(run_id)), view.runs.loc[run_id]
        if shown is not None:  # imported runs have no cell to be told apart by, only their ids
            found.append((run_id if pd.isna(row["seed"]) else view.names[run_id].full, shown))
    return found


@keep(max_entries=64, by=lambda view: view.selection.alone)
def tertile_map(view: View) -> ReliabilityMap | None:
    """Accuracy minus confidence by tertile and bin; None if the run lacks the feature."""
    if view.rho is None:
        return None
    protocol = view.selection.protocol
    return reliability_map(
        *view.samples, n_bins=protocol.n_bins, min_count=protocol.min_support, quantiles=protocol.quantiles
    )


@keep(max_entries=64, by=lambda view: view.selection.of_any_feature)
def classes(view: View) -> pd.DataFrame | None:
    """Calibration by predicted class; None if the run does not say what was predicted."""
    run = view.run
    if run.predictions is None:
        return None
    return class_table(run.confidence, run.correct, run.predictions, n_bins=view.selection.protocol.n_bins)


@keep(max_entries=256, by=lambda view, label: (view.selection.of_any_feature, label))
def class_diagram(view: View, label: int) -> Diagram:
    """p_k against 1[y = k]; without logits, the samples predicted as k."""
    n_bins, run = view.selection.protocol.n_bins, view.run_with_logits
    if run.logits is None or run.labels is None:
        own = run.predictions == label
        return diagram_of(run.confidence[own], run.correct[own], n_bins, "equal_width")
    return diagram_of(run.probs[:, label], run.labels == label, n_bins, "equal_width")
