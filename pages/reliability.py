"""Where is this run over- or under-confident?"""

import pandas as pd
import streamlit as st

from app.components.page import Page, open_page
from app.loaders import results_browse as results
from app.plots import reliability as plots
from app.selection import run_label
from engine.calibrators import CALIBRATORS
from engine.errors import InvalidInput, MissingData
from engine.verdict_browse import reliability_sentence

BINNINGS = {"equal_width": "equal width (the paper's)", "equal_mass": "equal mass"}
SCOPES = {"cells": "every other cell, one run each", "cell": "this cell, other seeds and ensembles"}
DEFAULT_METHODS = ["none", "ts", "isotonic"]
PER_ROW, MOST_RUNS = 3, 12


def small_multiples(page: Page, panels: list[tuple[str, results.Diagram]], key: str) -> None:
    """Diagrams side by side, three to a row; columns of a narrow window stack by themselves."""
    for start in range(0, len(panels), PER_ROW):
        row = panels[start : start + PER_ROW]
        for offset, (column, (name, shown)) in enumerate(zip(st.columns(PER_ROW), row, strict=False)):
            title = f"{name}: ECE {shown.summary.ece:.3f}"
            with column:
                figure = plots.diagram(shown.table, page.theme, title=title, height=300, small=True)
                page.figure(figure, f"{key}-{start + offset}", alt=f"Reliability diagram. {title}")


def calibrators(page: Page) -> None:
    """Any calibrators, fitted on one half and shown on the other."""
    page.heading("Calibrators, on samples they were not fitted on")
    methods = st.multiselect(
        "Calibrators", list(CALIBRATORS), DEFAULT_METHODS, format_func=lambda name: CALIBRATORS[name].label,
        key="methods", bind="query-params",
    )  # fmt: skip
    shown, problems = [], []
    for method in methods:
        try:
            shown.append(results.calibrated(page.view, method))
        except (MissingData, InvalidInput) as error:
            problems.append(str(error))
    if shown:
        page.caption(
            f"Population: benchmark. Fitted on {shown[0].n_calibration:,} samples of the run, shown on the other "
            f"{shown[0].n_evaluation:,}; the slice does not apply."
        )
        small_multiples(page, [(found.label, found.diagram) for found in shown], "calibrator")
    for note in dict.fromkeys(problems):
        page.text(f"Not shown: {note}.")
    for found in shown:
        if found.note:
            page.text(f"{found.label}: {found.note}")


def run_grid(page: Page) -> None:
    """The same diagram of other runs."""
    page.heading("Other runs under the same settings")
    scope = st.radio("Runs", list(SCOPES), format_func=SCOPES.get, horizontal=True, key="grid", bind="query-params")
    ids = results.grid_runs(page.view, scope)
    found = [(run_id, results.diagram(results.of_run(page.view, run_id))) for run_id in ids[:MOST_RUNS]]
    rows = page.view.runs
    # Imported runs have no cell to be told apart by, only their ids.
    names = {run_id: run_id if pd.isna(rows.loc[run_id, "seed"]) else run_label(rows.loc[run_id]) for run_id in ids}
    panels = [(names[run_id], shown) for run_id, shown in found if shown is not None]
    if not panels:
        page.text("This cache holds no such run with samples in this slice.")
    if len(ids) > MOST_RUNS:
        page.text(f"The first {MOST_RUNS} of {len(ids)} runs are shown; Sweep has all of them.")
    small_multiples(page, panels, "run")


def tertiles(page: Page) -> None:
    """The tertile x confidence map."""
    page.heading("By confidence and tertile of the feature")
    found = results.tertile_map(page.view)
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
    page.heading("By class")
    table = results.classes(page.view)
    if table is None:
        page.text("This run does not say which class was predicted, so there is no view by class.")
        return
    label = st.selectbox(
        "Class drawn on its own", table["predicted"].tolist(), key="drawn", bind="query-params", width=240
    )
    left, right = st.columns(2)
    with left:
        page.figure(plots.class_gaps(table, page.theme), "classes", alt="Accuracy minus confidence by predicted class")
    with right:
        shown = results.class_diagram(page.view, int(label))
        whole = bool(page.view.row["has_logits"])
        figure = plots.diagram(
            shown.table, page.theme, title=f"Class {label}: ECE {shown.summary.ece:.3f}", height=420,
            x=f"probability given to class {label}" if whole else f"confidence in class {label}",
            y=f"share that is class {label}",
        )  # fmt: skip
        page.figure(figure, "class", alt=f"Reliability diagram of class {label}")
        page.caption(
            f"All samples, by the probability given to class {label}."
            if whole
            else f"Samples predicted as class {label}; other probabilities are not stored with this run."
        )
    names = {
        "predicted": "Predicted class", "count": "Samples", "accuracy": "Accuracy", "mean_confidence": "Confidence",
        "gap": "Difference", "gap_low": "95 % low", "gap_high": "95 % high", "ece": "ECE",
    }  # fmt: skip
    page.table(table, "by-class", names=names, formats=dict.fromkeys(list(names)[2:], "%.3f"))


def bins_table(page: Page, table: pd.DataFrame) -> None:
    """The bins of the main diagram."""
    page.heading("The bins")
    names = {
        "bin": "Bin", "lower": "From", "upper": "To", "count": "Samples", "mean_confidence": "Mean confidence",
        "accuracy": "Accuracy", "accuracy_low": "95 % low", "accuracy_high": "95 % high",
        "gap": "Difference",
    }  # fmt: skip
    page.table(
        table, "bins", names=names, formats=dict.fromkeys([n for n in names if n not in ("bin", "count")], "%.3f")
    )


page = open_page("reliability")
view = page.view
page.verdict(reliability_sentence(results.diagram(view).summary), controls=False)
if view.selection.slice.outcome != "all":
    page.text("This slice was chosen by outcome, so its accuracy is fixed and its calibration errors mean nothing.")

matching = st.radio(
    "Bins", list(BINNINGS), format_func=BINNINGS.get, horizontal=True, key="binning", bind="query-params"
)
main = results.diagram(view, matching)
other = None if view.selection.compare_id is None else results.of_run(view, view.selection.compare_id)
sides = [(view, "main")] if other is None else [(view, "main"), (other, "compare")]
for column, (side, key) in zip(st.columns(len(sides)), sides, strict=True):
    with column:
        if len(sides) > 1:
            page.caption(side.label)
        shown = results.diagram(side, matching)
        if shown is None:
            page.text("No sample of this run is in the slice.")
            continue
        title = f"ECE {shown.summary.ece:.3f}. {plots.diagram_title(shown.table)}"
        page.figure(
            plots.diagram(shown.table, page.theme, title=title, height=560), key, alt=f"Reliability diagram. {title}"
        )

calibrators(page)
tertiles(page)
run_grid(page)
classes(page)
bins_table(page, main.table)
page.how(r"""
Samples are put in bins by confidence. In each bin the accuracy is drawn against the mean confidence, with Wilson's 95 %
interval; on the dashed line they are equal. $\text{ECE} = \sum_b \frac{n_b}{n} |\text{acc}_b - \text{conf}_b|$, always
over equal-width bins. A perfectly calibrated run would still show about
$\frac{1}{n} \sum_b \sqrt{2 V_b / \pi}$ with $V_b = \sum_{i \in b} c_i (1 - c_i)$, from sampling noise alone.
A bin or class is called clearly over- or under-confident when its interval leaves out the mean confidence; with 15
bins one such interval in a calibrated run is no surprise. Classes are those predicted, because the true class is not
known when the confidence is read. Calibrators are fitted on a random half (seed 42) and drawn on the other half.
""")
page.finish()
