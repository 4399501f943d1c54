"""Parts of the Reliability page: calibrators, other runs, the map by tertile, classes."""

from collections.abc import Mapping, Sequence

import streamlit as st

from app.compute import reliability as compute
from app.plots import reliability as plots
from app.report.study import Diagram
from app.shell.page import Page
from engine.calibrators import CALIBRATORS

SCOPES = {"cells": "every other cell, one run each", "cell": "this cell, other seeds and ensembles"}
DEFAULT_METHODS = ["none", "ts", "isotonic"]
MOST_RUNS = 12
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
    """Any calibrators, fitted on one half and shown on the other."""
    methods = st.multiselect(
        "Calibrators", list(CALIBRATORS), DEFAULT_METHODS, format_func=lambda name: CALIBRATORS[name].label,
        key="methods", bind="query-params",
    )  # fmt: skip
    shown, problems = compute.calibrated_by(page.view, methods)
    if shown:
        page.caption(
            f"Population: benchmark. Fitted on {shown[0].n_calibration:,} samples of the run, shown on the other "
            f"{shown[0].n_evaluation:,}; the slice does not apply."
        )
        small_multiples(page, [(found.label, found.diagram) for found in shown], "calibrator")
    for note in problems:
        page.text(f"Not shown: {note}.")
    for found in shown:
        if found.note:
            page.text(f"{found.label}: {found.note}")


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
