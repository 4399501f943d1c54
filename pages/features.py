"""Is there a better routing scalar?"""

import pandas as pd
import streamlit as st

from app.compute import features as compute
from app.parts import features as parts
from app.parts import headlines
from app.plots import features as plots
from app.plots.gap import tertile_curves
from app.shell.fragment import fragment
from app.shell.headline import Headline
from app.shell.long_work import long_work
from app.shell.page import open_page
from engine.core.labels import TESTS
from engine.features.search import FeatureSearch, search_candidates
from engine.verdict.features import search_sentence

# What the scalar of the viewer's own puts on the page.
BUILT = (
    "figure-own", "text-own", "text-fitted", "figure-contrasts", "text-candidates", "table-candidates", "text-gaps",
)  # fmt: skip

page = open_page("features")
view = page.view


def candidates() -> pd.DataFrame | None:
    """The features that the run has, or None as long as they are being tested."""
    return long_work("candidates", compute.candidates(view), label="Test the named features")


@fragment
def build() -> None:
    """The choices redraw this part only."""
    for item in BUILT:  # the page as a file holds what is shown now
        page.shown.pop(item, None)
    left, right = st.columns([1, 3])
    with left:
        own = parts.build_feature(compute.layer_names(view))
    if own is None:
        right.info("Choose at least one layer.")
        parts.list_candidates(page, candidates())
        return
    with right:
        figure = tertile_curves(compute.gap(view, own), page.theme)
        figure.layout.height *= 0.8  # tests, calibration and the table follow below it
        page.figure(figure, "own", alt="Accuracy against confidence by tertile of the scalar")
    judged = long_work("own", compute.verdict(view, own), label="Test this scalar")
    if judged is not None:
        page.text(judged.sentence, "own")
    fitted = long_work("fitted", compute.calibrated(view, own), label="Fit AR-CondCal with this scalar")
    if fitted is not None and fitted.contrasts is None:
        page.text(f"AR-CondCal cannot be fitted here: {fitted.missing}.", "fitted")
    elif fitted is not None:
        figure = plots.kernel_contrasts(fitted.contrasts, page.theme)
        page.figure(figure, "contrasts", alt="AR-CondCal with the scalar minus its controls")
    parts.list_candidates(page, candidates(), compute.own_row(own, judged, fitted))


def search() -> FeatureSearch | None:
    """Every scalar tried, with what the trying costs; the verdict stands above it."""
    head = st.container()
    left, right = st.columns([2, 3])
    with left:
        test = st.radio(
            "Test", ["verdict", "paper"], format_func=TESTS.__getitem__, key="test", bind="query-params",
            horizontal=True,
        )  # fmt: skip
        shuffles = st.select_slider(
            "Shuffled searches", [100, 200, 500, 1000], 200, key="shuffles", bind="query-params"
        )
        found = long_work("search", compute.search(view, shuffles), label="Search again")
    with head:
        n_scalars = len(search_candidates(view.run.n_layers))
        waiting = f"The search over {n_scalars} scalars is still running; there is no verdict yet."
        if found is None:
            page.verdict(Headline("cannot_tell", "Not known yet: the search is running"), waiting)
        else:
            page.verdict(headlines.of_search(found), search_sentence(found))
        page.caption("This page ignores the sidebar's feature and uses its other settings.")
    if found is None:
        return None
    with left:
        figure = plots.shuffled_best(found.tests[test], page.theme)
        page.figure(figure, "shuffled", alt="Best p of searches on shuffled routing")
    with right:
        page.figure(plots.search_rows(found, test, page.theme), "search", alt="p-value of every scalar")
        page.caption(
            "Dashed: p = 0.05 for a scalar chosen in advance. Grey: p small enough for the best of all scalars."
        )
    return found


if view.run.n_layers == 0:
    said = "This run has no routing profile, so there is no routing scalar to build or to search for."
    page.verdict(Headline("cannot_tell", "Cannot tell: this run has no routing profile"), said)
    parts.list_candidates(page, candidates())
elif view.run.n_samples < 2:
    page.end("One sample is too few to search for a routing scalar.")
else:
    with st.container():  # it grows, and a control below that moves would no longer be in the address
        found = search()
    tabs = page.tabs("A scalar of your own", "All scalars as a table")
    with next(tabs):
        page.caption("If you picked it after trying several, use the search p-value.")
        build()
    with next(tabs):
        if found is not None:
            parts.list_search(page, found, st.session_state["test"])
page.how(r"""
**The search** tries every layer's entropy $H_l$, the mean, spread, largest, smallest, range and slope of all layers,
and each of them times confidence, by the verdict's test (trend and shape combined) and by the paper's. The smallest of
$m$ p-values tends to be small by chance. Corrected p-values (Holm; for the best one that is $m\,p$) account for
it, but assume that each single test is valid. **Shuffled routing** does not: whole routing rows are permuted among
samples with similar confidence (the primary test's bins), and the whole search is
repeated. Its p-value is $(1 + \#\{\text{shuffled best} \le \text{best}\}) / (1 + \#\text{shuffles})$. The
grey area is where the best p must fall for that to be 5 % or less. **AR-CondCal** is fitted
with your scalar on one half of all samples of the run and judged on the other; the worst tertile is one of the spread
over all layers. The controls are the same kernel on confidence alone, and on confidence and predictive entropy;
intervals are those of the Calibrators page, simultaneous (Bonferroni).
""")
page.finish()
