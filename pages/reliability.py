"""Where is this run over- or under-confident?"""

import streamlit as st

from app import columns
from app.components.multiples import small_multiples
from app.components.page import Page, open_page
from app.loaders import results_browse as results
from app.plots import reliability as plots
from engine.calibrators import CALIBRATORS
from engine.verdict_browse import reliability_sentence

BINNINGS = {"equal_width": "equal width (the paper's)", "equal_mass": "equal mass"}
SCOPES = {"cells": "every other cell, one run each", "cell": "this cell, other seeds and ensembles"}
DEFAULT_METHODS = ["none", "ts", "isotonic"]
MOST_RUNS = 12


def calibrators(page: Page) -> None:
    """Any calibrators, fitted on one half and shown on the other."""
    page.heading("Calibrators, on samples they were not fitted on")
    methods = st.multiselect(
        "Calibrators", list(CALIBRATORS), DEFAULT_METHODS, format_func=lambda name: CALIBRATORS[name].label,
        key="methods", bind="query-params",
    )  # fmt: skip
    shown, problems = results.calibrated_by(page.view, methods)
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
    page.heading("Other runs under the same settings")
    scope = st.radio("Runs", list(SCOPES), format_func=SCOPES.get, horizontal=True, key="grid", bind="query-params")
    ids = results.grid_runs(page.view, scope)
    panels = results.named_diagrams(page.view, ids[:MOST_RUNS])
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
        figure = plots.class_diagram(shown.table, shown.summary.ece, label, page.theme, whole=whole)
        page.figure(figure, "class", alt=f"Reliability diagram of class {label}")
        page.caption(
            f"All samples, by the probability given to class {label}."
            if whole
            else f"Samples predicted as class {label}; other probabilities are not stored with this run."
        )
    page.table(table, "by-class", names=columns.CLASSES, formats=columns.decimals(columns.CLASSES))


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
page.heading("The bins")
page.table(main.table, "bins", names=columns.BINS, formats=columns.decimals(columns.BINS))
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
