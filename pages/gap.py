"""At the same confidence, does accuracy depend on routing?"""

from functools import partial

import pandas as pd
import streamlit as st

from app.compute import gap as compute
from app.parts import gap as parts
from app.parts import headlines
from app.parts.gap import verdict as judged
from app.plots import gap as plots
from app.shell.fragment import fragment
from app.shell.page import Page, open_page
from app.shell.presenter import controls_and_figure
from engine.core.labels import RUNGS

page = open_page("gap")
view = page.view
page.require_feature()

head = st.container()
verdict = judged(view)
with head:
    page.verdict(headlines.of_answer(verdict), verdict.detail)


@fragment
def draw_effect() -> None:
    """The choice of the rung redraws this part only."""
    left, right = controls_and_figure()
    rungs = range(len(RUNGS) if view.row["has_logits"] else 1)
    with left:
        rung = st.radio(
            "Compare accuracy with what is expected", rungs, format_func=lambda rung: f"given {RUNGS[rung]}",
            key="rung", bind="query-params", help="From the top down, more of the model's output is held fixed.",
        )  # fmt: skip
        if len(rungs) == 1:
            page.caption("More than confidence needs logits, which this run lacks.", "rungs")
    with right:
        page.beside(partial(of_rung, rung), lambda view: headlines.of_answer(judged(view)))


def of_rung(rung: int, side: Page) -> None:
    """The effect by decile given more of the output or less."""
    found = compute.effect(side.view, rung)
    figure = plots.effect_by_decile(found, side.view.feature_label, verdict.alpha, page.theme)
    side.figure(figure, "effect", alt=f"Accuracy minus prediction by decile. {figure.layout.title.text}")


def picture(side: Page) -> None:
    """The tertile curves of the paper's test."""
    found = judged(side.view)
    side.text(found.paper_sentence, "picture")
    figure = plots.tertile_curves(found.paper, page.theme, show_mid=show_mid)
    side.figure(figure, "curves", alt=f"Accuracy against confidence by tertile. {figure.layout.title.text}")
    for note in found.paper.gap.notes:
        side.text(note)


def bins_and_cuts(side: Page) -> None:
    """How many samples the test compares, and where the feature is cut."""
    counted = judged(side.view).paper.gap
    left, right = st.columns(2)
    with left:
        side.figure(plots.support_bars(counted, page.theme), "support", alt="Samples in each bin by tertile")
    with right:
        counts, edges = compute.feature_histogram(side.view)
        cuts, label = counted.contingency.cuts, side.view.feature_label
        figure = plots.feature_histogram(counts, edges, cuts, label, page.theme)
        side.figure(figure, "feature", alt="Distribution of the feature with its cuts")


def ladder(side: Page) -> None:
    """The effect on every rung."""
    rungs = judged(side.view).ladder
    if len(rungs) == 1:
        side.text("More than confidence needs logits, which this run lacks.")
        return
    names = {"given": "Given", "effect": "Effect", "standard_error": "Standard error", "p_value": "p"}
    formats = {"effect": "%+.3f", "standard_error": "%.3f", "p_value": "p"}
    side.table(pd.DataFrame(rungs).assign(given=RUNGS), "ladder", names=names, formats=formats)


draw_effect()
tabs = page.tabs("The paper's picture", "Given more of the output", "Bins and cuts", "The paper's Table 1")
with next(tabs):
    show_mid = st.toggle("Show the middle tertile", key="mid", bind="query-params")
    page.beside(picture)
with next(tabs):
    page.beside(ladder)
with next(tabs):
    page.beside(bins_and_cuts)
with next(tabs):
    page.beside(parts.table1)

page.how(r"""
**By decile.** Samples are compared inside bins of about 100 samples with similar confidence (the primary test's bins).
Each sample's residual is its correctness minus the accuracy of its bin; residuals are averaged over deciles of the
feature inside the bins. The band has the exact mean and variance of permuting the feature inside each bin, and holds
all deciles at once in 95 % of permutations. The line is the primary trend test's slope. Given more than confidence,
correctness and the feature are each regressed on those outputs (ridge regression on splines, five-fold cross-fitting),
and the residuals of both take their places.

**The paper's picture.** Samples are cut into three groups by the feature and into bins by confidence. In each bin that
holds enough of both outer groups the accuracies are compared:
$\text{largest gap} = \max_b |a_b^{low} - a_b^{high}|$ and
$\text{weighted gap} = \sum_b w_b |a_b^{low} - a_b^{high}| / \sum_b w_b$ with $w_b = \min(n_b^{low}, n_b^{high})$.
The grey band is where 95 % of permutations of the feature inside each bin would put an outer tertile's accuracy.
Intervals come from resampling all samples 5,000 times with the cuts fixed. An absolute gap is folded at zero, so
resampling noise moves it upwards and the point may lie below its interval.
""")
page.finish()
