"""Is there a better routing scalar?"""

import pandas as pd
import streamlit as st

from app.compute import features as compute
from app.parts import features as parts
from app.plots import features as plots
from app.plots.gap import tertile_curves
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import open_page
from engine.core.labels import HEADLINES
from engine.features.search import search_candidates
from engine.verdict.features import search_sentence

# What the scalar of the viewer's own puts on the page.
BUILT = (
    "figure-own", "text-own", "text-fitted", "figure-contrasts", "text-candidates", "table-candidates", "text-gaps",
)  # fmt: skip

page = open_page("features")
view = page.view


def candidates() -> pd.DataFrame | None:
    """The seven features of the paper, or None as long as they are being tested."""
    return long_work("candidates", compute.candidates(view), label="Test the seven features")


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


def search() -> None:
    """Every scalar tried, with what the trying costs; the verdict stands above it."""
    head = st.container()
    left, right = st.columns([2, 3])
    with left:
        test = st.radio(
            "Test", ["primary", "paper"], format_func=HEADLINES.__getitem__, key="test", bind="query-params",
            horizontal=True,
        )  # fmt: skip
        shuffles = st.select_slider(
            "Shuffled searches", [100, 200, 500, 1000], 200, key="shuffles", bind="query-params"
        )
        found = long_work("search", compute.search(view, shuffles), label="Search again")
    with head:
        n_scalars = len(search_candidates(view.run.n_layers))
        waiting = f"The search over {n_scalars} scalars is still running; there is no verdict yet."
        page.verdict(waiting if found is None else search_sentence(found))
        page.caption("This page ignores the sidebar's feature and uses its other settings.")
        page.heading("All scalars, corrected for the search")
    if found is None:
        return
    with left:
        figure = plots.shuffled_best(found.tests[test], page.theme)
        page.figure(figure, "shuffled", alt="Best p of searches on shuffled routing")
    with right:
        page.figure(plots.search_rows(found, test, page.theme), "search", alt="p-value of every scalar")
        page.caption(
            "Dashed: p = 0.05 for a scalar chosen in advance. Grey: p small enough for the best of all scalars."
        )
    with st.expander("All scalars as a table"):
        page.table(
            found.table.sort_values(test),
            "search",
            names={
                "label": "Scalar", "primary": "p, primary", "primary_holm": "Holm, primary", "paper": "p, paper's",
                "paper_holm": "Holm, paper's",
            },
            formats=dict.fromkeys(("primary", "primary_holm", "paper", "paper_holm"), "%.4f"),
        )  # fmt: skip


if view.run.n_layers == 0:
    page.verdict("This run has no routing profile, so there is no routing scalar to build or to search for.")
    page.heading("What this run contains")
    parts.list_candidates(page, candidates())
elif view.run.n_samples < 2:
    page.verdict("One sample is too few to search for a routing scalar.")
else:
    with st.container():  # it grows, and a control below that moves would no longer be in the address
        search()
    page.heading("A scalar of your own")
    page.caption("If you picked it after trying several, use the search p-value.")
    build()
page.how(r"""
**The search** tries every layer's entropy $H_l$, the mean, spread, largest, smallest, range and slope of all layers,
and each of them times confidence, by both tests. The smallest of $m$ p-values tends to be small by chance. Corrected
p-values (Holm; for the best one that is $m\,p$) account for it, but assume that each single test is valid. **Shuffled
routing** does not: whole routing rows are permuted among samples with similar confidence (the primary test's bins), and
the whole search is repeated. Its p-value is $(1 + \#\{\text{shuffled best} \le \text{best}\}) / (1 +
\#\text{shuffles})$. The grey area is where the best p must fall for that to be 5 % or less. **AR-CondCal** is fitted
with your scalar on one half of all samples of the run and judged on the other; the worst tertile is one of the spread
over all layers. The controls are the same kernel on confidence alone, and on confidence and predictive entropy;
intervals come from 500 paired resamples and are simultaneous (Bonferroni).
""")
page.finish()
