"""What Reliability shows, computed once for all viewers. Objects are shared: do not change them."""

from collections.abc import Sequence

import pandas as pd

from app.compute.cache import load_run
from app.compute.jobs import Work
from app.compute.keep import keep
from app.state.selection import telling_first
from app.state.view import View
from engine.benchmark import BenchmarkResult, run_benchmark
from engine.benchmark.setup import MIN_SAMPLES
from engine.calibrators import CALIBRATORS
from engine.core.binning import N_BINS, TERTILES, Matching, tertiles
from engine.core.errors import MissingData
from engine.core.labels import METHODS, is_ensemble, name_cells
from engine.core.types import Progress
from engine.metrics.mechanism import ReliabilityMap, reliability_map
from engine.metrics.reliability import Diagram, class_table, diagram_of
from engine.verdict.answers import RELIABILITY


@keep(max_entries=512, by=lambda view, matching: (view.selection.of_any_feature, matching))
def diagram(view: View, matching: Matching = "equal_width") -> Diagram | None:
    """The diagram of the chosen samples; None if the slice is empty in this run."""
    stored = view.stored(RELIABILITY)()
    if stored is not None:
        return stored[matching]
    run = view.run  # loaded in here, so that a remembered diagram of another run needs none of its samples
    return diagram_of(run.confidence, run.correct, view.selection.protocol.n_bins, matching) if run.n_samples else None


@keep(
    max_entries=128, by=lambda view, method, name: (view.selection.run_id, method, name)
)  # fmt: skip
def fitted(view: View, method: str, feature_name: str) -> BenchmarkResult:
    """One calibrator on the whole run."""
    run = load_run(view.cache, view.selection.run_id, with_logits=True)
    result = run_benchmark(run, [method], feature=feature_name, n_bootstrap=0)
    if method in result.skipped:
        raise MissingData("feature of that name", CALIBRATORS[method].label, "choose another feature in the sidebar")
    return result


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


Grid = dict[str, dict[str, Diagram]]


def cells_like(view: View) -> list[str]:
    """The chosen run and one of its variant (its seed if there) for every other backbone and data set, all with logits.

    Of a run without routing, the others are Block-AR's or whatever variant with routing comes first.
    """
    own, runs = view.row, telling_first(view.runs)
    kept = runs[runs["has_logits"] & ~runs["ensemble"] & (runs["n_samples"] >= MIN_SAMPLES)]
    routed = kept[kept["n_layers"] > 0]
    variant = own["variant"] if own["n_layers"] or routed.empty else routed["variant"].iloc[0]
    other = (kept["backbone"] != own["backbone"]) | (kept["dataset"] != own["dataset"])
    same = kept[other & (kept["variant"] == variant)]
    other_seed = (same["seed"] != own["seed"]).fillna(True)
    first = same[other_seed.groupby([same["backbone"], same["dataset"]]).rank("first") == 1].index
    return [*kept.index.intersection([own["run_id"]]), *first]


def grid(view: View, run_ids: Sequence[str], methods: Sequence[str]) -> Work[dict[str, dict[str, Diagram]]]:
    """Calibrators on the evaluated half of each run, fitted on the other half, as far as the run can bear them."""
    cache, names = view.cache, name_cells(view.runs)

    def compute(progress: Progress) -> dict[str, dict[str, Diagram]]:
        found = {}
        for position, run_id in enumerate(run_ids):
            progress(position / len(run_ids), view.names[run_id].full)
            result = run_benchmark(cache.load(run_id), methods, n_bootstrap=0)
            found[" · ".join(names.loc[run_id, ["backbone_name", "dataset_name"]])] = {
                METHODS.get(name, name): diagram_of(
                    result.confidence[name], result.correct[name], N_BINS, "equal_width"
                )
                for name in methods
                if name in result.confidence
            }
        return found

    return Work(("reliability grid", tuple(run_ids), tuple(methods)), view.kept_by, compute)


@keep(max_entries=64, by=lambda view: view.selection)
def by_tertile(view: View) -> dict[str, Diagram]:
    """The diagram of each tertile of the feature that holds samples; none if the run lacks the feature."""
    if view.rho is None:
        return {}
    run, protocol = view.run, view.selection.protocol
    index = tertiles(view.rho, protocol.quantiles).index
    return {
        f"{name} tertile": diagram_of(run.confidence[own], run.correct[own], protocol.n_bins, "equal_width")
        for position, name in enumerate(TERTILES)
        if (own := index == position).any()
    }


@keep(max_entries=64, by=lambda view: view.selection)
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
