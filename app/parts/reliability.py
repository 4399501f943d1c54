"""Parts of the Reliability page: calibrators, other runs, the map by tertile, classes."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.compute import reliability as compute
from app.compute.mechanism import ensemble_pair
from app.plots import reliability as plots
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.benchmark.setup import ROUTING
from engine.calibrators import CALIBRATORS
from engine.core.labels import ensemble_size, signed
from engine.metrics.reliability import Diagram

SCOPES = {"cells": "every other cell, one run each", "cell": "this cell, other seeds and ensembles"}
DEFAULT_METHODS = ["none", "ts", "rcmmc", ROUTING]
"""The paper's four columns."""
MOST_RUNS, MOST_CELLS = 12, 4
PER_ROW = 3
BINS = {
    "bin": "Bin", "lower": "From", "upper": "To", "count": "Samples", "mean_confidence": "Mean confidence",
    "accuracy": "Accuracy", "accuracy_low": "95 % low", "accuracy_high": "95 % high", "gap": "Difference",
}  # fmt: skip
CLASSES = {
    "predicted": "Predicted class", "count": "Samples", "accuracy": "Accuracy", "mean_confidence": "Confidence",
    "gap": "Difference", "gap_low": "95 % low", "gap_high": "95 % high", "ece": "ECE",
}  # fmt: skip
_WHOLE = {"bin", "predicted", "count"}


def decimals(names: Mapping[str, str]) -> dict[str, str]:
    """Three decimals for every column that is neither a name nor a count."""
    return dict.fromkeys(names.keys() - _WHOLE, "%.3f")


def small_multiples(page: Page, panels: Sequence[tuple[str, Diagram]], key: str) -> None:
    """Named diagrams, three to a row; columns of a narrow window stack by themselves."""
    for start in range(0, len(panels), PER_ROW):
        row = panels[start : start + PER_ROW]
        for offset, (column, (name, shown)) in enumerate(zip(st.columns(PER_ROW), row, strict=False)):
            title = f"{name}: ECE {shown.summary.ece:.3f}"
            with column:
                figure = plots.diagram(shown.table, page.theme, title=title, height=300, small=True)
                page.figure(figure, f"{key}-{start + offset}", alt=f"Reliability diagram. {title}")


def calibrators(page: Page) -> None:
    """Any calibrators on any cells, the chosen run's first, fitted on one half and shown on the other."""
    names = {page.view.names[run_id].full: run_id for run_id in compute.cells_like(page.view)}
    if not names:
        page.text("No run of this cache has logits, so no calibrator can be fitted.")
        return
    left, right = st.columns(2)
    chosen = left.multiselect("Runs", names, list(names)[:MOST_CELLS], key="grid-cells", bind="query-params")
    methods = right.multiselect(
        "Calibrators", list(CALIBRATORS), DEFAULT_METHODS, format_func=lambda name: CALIBRATORS[name].label,
        key="methods", bind="query-params",
    )  # fmt: skip
    if not chosen or not methods:
        return
    work = compute.grid(page.view, [names[name] for name in chosen], methods)
    found = long_work("reliability-grid", work, label="Fit these calibrators on each run")
    if found is None:
        return
    best = [min(row, key=lambda name: row[name].summary.ece) for row in found.values()]
    title = f"Lowest ECE in each row: {', '.join(best)}"
    page.figure(plots.diagram_grid(found, page.theme, title=title), "calibrator-grid", alt="Reliability diagrams")
    page.caption(
        "Population: benchmark, the evaluated half; the slice does not apply. Bars: accuracy; red: over-confident, "
        "blue: under-confident, against the mean confidence of the bin."
    )


def run_grid(page: Page) -> None:
    """The same diagram of other runs."""
    scope = st.radio("Runs", list(SCOPES), format_func=SCOPES.get, horizontal=True, key="grid", bind="query-params")
    ids = compute.grid_runs(page.view, scope)
    panels = compute.named_diagrams(page.view, ids[:MOST_RUNS])
    if not panels:
        page.text("This cache holds no such run with samples in this slice.")
    if len(ids) > MOST_RUNS:
        page.text(f"The first {MOST_RUNS} of {len(ids)} runs are shown; choose any other in the sidebar.")
    small_multiples(page, panels, "run")


def worst_tertile(page: Page) -> None:
    """How worst-tertile ECE is made: the ECE of each tertile, and which is worst; beside the ensemble's."""
    pair = ensemble_pair(page.view)
    views = {page.view.names[page.view.selection.run_id].run: page.view}
    if pair is not None:
        views = {"last epoch": pair[0], f"ensemble of {ensemble_size(pair[1].row['suite'])} epochs": pair[1]}
    rows = {name: found for name, view in views.items() if (found := compute.by_tertile(view))}
    if not rows:
        page.text(f"The tertiles cannot be drawn: {page.view.missing}.")
        return
    worst = {name: max(row, key=lambda tertile: row[tertile].summary.ece) for name, row in rows.items()}
    eces = [rows[name][tertile].summary.ece for name, tertile in worst.items()]
    title = f"The {next(iter(worst.values()))} of {page.view.feature_label} is worst: ECE {eces[0]:.4f}"
    title += f"; worst of the ensemble {eces[1]:.4f} ({signed(eces[1] - eces[0], 4)})" if len(eces) > 1 else ""
    figure = plots.diagram_grid(rows, page.theme, title=title, marked=set(worst.items()))
    page.figure(figure, "worst-tertile", alt="Reliability diagram of each tertile, the worst marked")
    page.caption("Worst-tertile ECE is the largest ECE of the three tertiles of the chosen feature on these samples.")


def tertiles(page: Page) -> None:
    """The tertile x confidence map."""
    found = compute.tertile_map(page.view)
    if found is None:
        page.text(f"The map cannot be drawn: {page.view.missing}.")
        return
    page.caption(
        "In each cell: accuracy minus confidence (red: over-confident, blue: under-confident) and, in brackets, the "
        f"number of samples; blank below {found.min_count}."
    )
    page.figure(
        plots.tertile_map(found, page.view.feature_label, page.theme), "map",
        alt="Accuracy minus confidence by confidence bin and tertile",
    )  # fmt: skip
    if found.empty:
        page.text(f"Ties leave no sample in: {', '.join(found.empty)}.")


def classes(page: Page) -> None:
    """Calibration by predicted class, and one class on its own."""
    table = compute.classes(page.view)
    if table is None:
        page.text("This run has no predicted classes, so there is no view by class.")
        return
    label = st.selectbox(
        "Class drawn on its own", table["predicted"].tolist(), key="drawn", bind="query-params", width=240
    )
    left, right = st.columns(2)
    with left:
        page.figure(plots.class_gaps(table, page.theme), "classes", alt="Accuracy minus confidence by predicted class")
    with right:
        shown = compute.class_diagram(page.view, int(label))
        whole = bool(page.view.row["has_logits"])
        figure = plots.class_diagram(shown.table, shown.summary.ece, label, page.theme, whole=whole)
        page.figure(figure, "class", alt=f"Reliability diagram of class {label}")
        page.caption(
            f"All samples, by the probability given to class {label}."
            if whole
            else f"Samples predicted as class {label}; other probabilities are not stored with this run."
        )
    page.table(table, "by-class", names=CLASSES, formats=decimals(CLASSES))
