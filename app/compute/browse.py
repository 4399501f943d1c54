"""What Reliability and Mechanism show, computed once for all viewers. Objects are shared: do not change them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from app.compute.cache import load_run, run_table
from app.compute.figures import Diagram, depth_of, diagram_of
from app.compute.keep import keep
from app.state.selection import Selection, feature_label
from app.state.view import View
from engine.benchmark import BenchmarkResult, run_benchmark
from engine.calibrators import CALIBRATORS
from engine.calibrators.base import FEATURE
from engine.core.binning import Matching
from engine.core.errors import InvalidInput, MissingData
from engine.core.labels import ensemble_size, format_p, is_ensemble
from engine.features import FEATURES
from engine.metrics.mechanism import (
    DepthProfile,
    ErrorRelation,
    ReliabilityMap,
    TrainingEntropy,
    relate_to_error,
    reliability_map,
    training_entropy,
)
from engine.metrics.reliability import class_table


def of_run(view: View, run_id: str) -> View:
    """The same view of another run."""
    return View(view.cache, view.runs, replace(view.selection, run_id=run_id, compare_id=None))


@keep(max_entries=512)
def _diagram(selection: Selection, matching: Matching, _view: View) -> Diagram | None:
    run = _view.run  # loaded in here, so that a remembered diagram of another run needs none of its samples
    return diagram_of(run.confidence, run.correct, selection.protocol.n_bins, matching) if run.n_samples else None


def diagram(view: View, matching: Matching = "equal_width") -> Diagram | None:
    """The diagram of the chosen samples; None if the slice is empty in this run."""
    return _diagram(view.selection.of_any_feature, matching, view)


@dataclass(frozen=True, eq=False)
class Calibrated:
    """A calibrator on the held-out half, with what a reader should know about its fit."""

    label: str
    diagram: Diagram
    n_calibration: int
    n_evaluation: int
    note: str


@keep(max_entries=128, show_spinner="Fitting on the calibration half")
def _fitted(fingerprint: str, run_id: str, method: str, feature_name: str, _view: View) -> BenchmarkResult:  # noqa: ARG001
    run = load_run(_view.cache, run_id, with_logits=True)
    result = run_benchmark(run, [method], feature=feature_name, n_bootstrap=0)
    if method in result.skipped:
        raise MissingData("feature of that name", CALIBRATORS[method].label, "choose another feature in the sidebar")
    return result


@keep(max_entries=512)
def _calibrated(
    fingerprint: str, run_id: str, method: str, feature_name: str, n_bins: int, _view: View
) -> Calibrated:  # fmt: skip
    result = _fitted(fingerprint, run_id, method, feature_name, _view)
    label = CALIBRATORS[method].label
    if FEATURE in CALIBRATORS[method].needs and feature_name != "r_std":
        label = f"Kernel on confidence and {feature_label(feature_name)}"
    return Calibrated(
        label,
        diagram_of(result.confidence[method], result.correct[method], n_bins, "equal_width"),
        result.n_calibration,
        result.n_evaluation,
        result.fitted[method].note,
    )


def calibrated(view: View, method: str) -> Calibrated:
    """A calibrator fitted on one half of the whole run, shown on the other; raises what the engine raises."""
    selection = view.selection
    name = selection.feature if FEATURE in CALIBRATORS[method].needs else "confidence"
    return _calibrated(selection.fingerprint, selection.run_id, method, name, selection.protocol.n_bins, view)


def calibrated_by(view: View, methods: Sequence[str]) -> tuple[list[Calibrated], list[str]]:
    """Those of the calibrators that this run can bear, and why it cannot bear the others."""
    fitted, problems = [], []
    for method in methods:
        try:
            fitted.append(calibrated(view, method))
        except (MissingData, InvalidInput) as error:
            problems.append(str(error))
    return fitted, list(dict.fromkeys(problems))


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
        shown, row = diagram(of_run(view, run_id)), view.runs.loc[run_id]
        if shown is not None:  # imported runs have no cell to be told apart by, only their ids
            found.append((run_id if pd.isna(row["seed"]) else view.names[run_id].full, shown))
    return found


@keep(max_entries=64)
def _reliability_map(selection: Selection, _view: View) -> ReliabilityMap:
    protocol = selection.protocol
    return reliability_map(
        _view.run.confidence,
        _view.run.correct,
        _view.rho,
        n_bins=protocol.n_bins,
        min_count=protocol.min_support,
        quantiles=protocol.quantiles,
    )


def tertile_map(view: View) -> ReliabilityMap | None:
    """Accuracy minus confidence by tertile and bin; None if the run lacks the feature."""
    return None if view.rho is None else _reliability_map(view.selection, view)


@keep(max_entries=64)
def _classes(selection: Selection, _view: View) -> pd.DataFrame:
    run = _view.run
    return class_table(run.confidence, run.correct, run.predictions, n_bins=selection.protocol.n_bins)


def classes(view: View) -> pd.DataFrame | None:
    """Calibration by predicted class; None if the run does not say what was predicted."""
    return None if view.run.predictions is None else _classes(view.selection.of_any_feature, view)


@keep(max_entries=256)
def _class_diagram(selection: Selection, label: int, _view: View) -> Diagram:
    n_bins = selection.protocol.n_bins
    run = _view.run_with_logits
    if run.logits is None or run.labels is None:
        own = run.predictions == label
        return diagram_of(run.confidence[own], run.correct[own], n_bins, "equal_width")
    return diagram_of(run.probs[:, label], run.labels == label, n_bins, "equal_width")


def class_diagram(view: View, label: int) -> Diagram:
    """p_k against 1[y = k]; without logits, the samples predicted as k."""
    return _class_diagram(view.selection.of_any_feature, label, view)


@keep(max_entries=128)
def _depth(selection: Selection, _view: View) -> DepthProfile:  # noqa: ARG001  (part of the key)
    return depth_of(_view.run, run_table(_view.cache, _view.run.run_id, "layers"))


def depth(view: View) -> DepthProfile | None:
    """The routing profile by layer; of a run without one, its extra columns; None if there are none either."""
    nothing = view.row["n_layers"] == 0 and not len(view.row["extra_names"])
    return None if nothing else _depth(view.selection.of_any_feature, view)


def stand_in(view: View) -> str:
    """The chosen feature, or what replaces it in a run that lacks it: r_agg, its last extra column, its confidence."""
    if view.rho is not None:
        return view.selection.feature
    return "r_agg" if view.run.n_layers else next(reversed(view.run.extra), "confidence")


@keep(max_entries=256)
def _relation(selection: Selection, name: str, _view: View) -> ErrorRelation:  # noqa: ARG001  (part of the key)
    return relate_to_error(_view.run.confidence, _view.run.correct, _view.feature(name))


def relation(view: View, name: str) -> ErrorRelation:
    """How a feature goes with being wrong; raises what the engine raises for one that the run lacks."""
    return _relation(view.selection.of_any_feature, name, view)


def known_features(view: View) -> list[str]:
    """The features that the run has what it takes for, its extra columns last, told without reading its samples."""
    row = view.row
    two_classes = row["has_logits"] and row["n_classes"] > 1  # one has no entropy
    has = {"profile": row["n_layers"] > 0, "logits": two_classes, "confidence": True}
    return [name for name, entry in FEATURES.items() if has[entry.needs]] + list(row["extra_names"])


def correlations(view: View) -> pd.DataFrame:
    """Every feature of this run against the error: rank correlation with interval and p, separation of wrong ones."""
    rows = []
    for name in known_features(view):
        found = relation(view, name)
        rank, outcomes = found.spearman, found.outcomes
        interval = "" if rank is None or rank.low is None else f"[{rank.low:.3f}, {rank.high:.3f}]"
        rows.append(
            {
                "feature": feature_label(name),
                "spearman": None if rank is None else rank.value,
                "interval": interval,
                "p": "" if rank is None else format_p(rank.p_value).removeprefix("p ").removeprefix("= "),
                "separation": outcomes.separation,
                "mean_correct": outcomes.mean_correct,
                "mean_wrong": outcomes.mean_wrong,
            }
        )
    return pd.DataFrame(rows)


def single_model(view: View) -> str:
    """The id of the single model behind this run: its own, unless it is an ensemble."""
    return view.selection.run_id.removesuffix(f"-last{ensemble_size(view.row['suite'])}")


def training(view: View) -> tuple[TrainingEntropy | None, dict[int, str]]:
    """Entropy through training of the single model behind this run, and the names of its layers."""
    run_id = single_model(view)
    if run_id not in view.runs.index:
        return None, {}
    layers = run_table(view.cache, run_id, "layers")
    names = dict(zip(layers["layer"], layers["name"], strict=True))
    return training_entropy(run_table(view.cache, run_id, "epochs")), names


def ensemble_pair(view: View) -> tuple[View, View] | None:
    """Last epoch and ensemble of this model, if the cache holds both and the slice leaves samples in both."""
    single, runs = single_model(view), view.runs
    of_it = [run_id for run_id, suite in runs["suite"].items() if run_id == f"{single}-last{ensemble_size(suite)}"]
    if single not in runs.index or not of_it:
        return None
    last, ensemble = of_run(view, single), of_run(view, of_it[0])
    return None if diagram(last) is None or diagram(ensemble) is None else (last, ensemble)
