"""Is there a better routing scalar?"""

import streamlit as st

from app.components.feature_builder import build_feature
from app.components.fragment import fragment
from app.components.long_work import long_work
from app.components.page import open_page
from app.loaders import results_features as results
from app.plots import features as plots
from app.plots.gap import tertile_curves
from app.plots.rows import TEST_LABELS
from engine.feature_search import search_candidates
from engine.features import CustomFeature
from engine.verdict_features import search_sentence

page = open_page("features")
view = page.view


def candidates(own: CustomFeature | None) -> None:
    """The seven features and the viewer's own."""
    table = results.candidates(view, own)
    page.text(
        f"The seven features of the paper{'' if own is None else ', and yours'}: both tests on the samples chosen, and "
        "three scores of AR-CondCal with each on the held-out half (ECE overall and in the worst tertile, NLL).",
        "candidates",
    )
    page.table(
        table,
        "candidates",
        names={
            "label": "Scalar", "max_gap": "Largest gap", "paper": "p, paper's", "audited": "p, audited",
            "ece": "ECE", "worst_tertile_ece": "Worst tertile", "nll": "NLL",
        },
        formats={
            "max_gap": "%.3f", "paper": "%.4f", "audited": "%.4f", "ece": "%.4f",
            "worst_tertile_ece": "%.4f", "nll": "%.4f",
        },
    )  # fmt: skip
    if table.isna().to_numpy().any():
        page.text(
            "A cell is empty where the run lacks what it takes (a profile, logits), or where no confidence bin holds "
            "enough samples of both outer tertiles.",
            "gaps",
        )


@fragment
def build() -> None:
    """The choices redraw this part only."""
    left, right = st.columns([1, 3])
    with left:
        own = build_feature(results.layer_names(view))
    if own is not None:
        with right:
            figure = tertile_curves(results.gap(view, own), page.theme)
            page.figure(figure, "own", alt="Accuracy against confidence by tertile of the scalar")
        page.text(results.verdict(view, own).sentence, "own")
        fitted = results.calibrated(view, own)
        if fitted.contrasts is None:
            page.text(f"AR-CondCal cannot be fitted here: {fitted.missing}.", "fitted")
        else:
            figure = plots.kernel_contrasts(fitted.contrasts, page.theme)
            page.figure(figure, "contrasts", alt="AR-CondCal with the scalar minus its controls")
    else:
        right.info("Choose at least one layer.")
    candidates(own)


def search() -> None:
    """Every scalar tried, with what the trying costs; the verdict stands above it."""
    head = st.container()
    left, right = st.columns([2, 3])
    with left:
        test = st.radio(
            "Test", ["audited", "paper"], format_func=TEST_LABELS.__getitem__, key="test", bind="query-params",
            horizontal=True,
        )  # fmt: skip
        shuffles = st.select_slider(
            "Shuffled searches", [100, 200, 500, 1000], 200, key="shuffles", bind="query-params"
        )
        found = long_work("search", *results.search_job(view, shuffles), label="Search again")
    with head:
        waiting = (
            f"The search over {len(search_candidates(view.run.n_layers))} scalars has not finished: no verdict yet."
        )
        page.verdict(waiting if found is None else search_sentence(found))
        page.caption("This page makes its own scalars: the sidebar's feature has no say here, all else there has.")
        page.heading("Every scalar tried, and the price of trying")
    if found is None:
        return
    with left:
        figure = plots.shuffled_best(found.tests[test], page.theme)
        page.figure(figure, "shuffled", alt="Best p of searches on shuffled routing")
    with right:
        page.figure(plots.search_rows(found, test, page.theme), "search", alt="p-value of every scalar")
        page.caption("Dashed: p = 0.05 for a scalar named beforehand. Grey: p small enough for the best of all these.")
    with st.expander("All scalars as a table"):
        page.table(
            found.table.sort_values(test),
            "search",
            names={
                "label": "Scalar", "audited": "p, audited", "audited_holm": "Holm, audited", "paper": "p, paper's",
                "paper_holm": "Holm, paper's",
            },
            formats=dict.fromkeys(("audited", "audited_holm", "paper", "paper_holm"), "%.4f"),
        )  # fmt: skip


if view.run.n_layers == 0:
    page.verdict("This run has no routing profile, so there is no routing scalar to build or to search for.")
    page.heading("What this run does hold")
    candidates(None)
elif view.run.n_samples < 2:
    page.verdict("One sample is too few to search for a routing scalar.")
else:
    search()
    page.heading("A scalar of your own")
    page.caption("One that was picked after looking at many has earned the p-value of a search, not its own.")
    build()
page.how(r"""
**The search** tries every layer's entropy $H_l$, the mean, spread, largest, smallest, range and slope of all layers,
and each of them times confidence, by both tests. The smallest of $m$ p-values is small by chance. Corrected p-values
(Holm; for the best one that is $m\,p$) allow for it, but trust each single test. **Shuffled routing** does not: whole
routing rows change places among samples of like confidence (equal-mass bins of 100), and the whole search is done
again. Its p-value is $(1 + \#\{\text{shuffled best} \le \text{best}\}) / (1 + \#\text{shuffles})$. The grey area is
where the best p must fall for that to be 5 % or less.
**AR-CondCal** is fitted with your scalar on one half of all samples of the run and judged on the other; the worst
tertile is one of the spread over all layers. The controls are the same kernel on confidence alone, and on confidence
and predictive entropy; intervals come from 500 paired resamples and hold together (Bonferroni).
""")
page.finish()
