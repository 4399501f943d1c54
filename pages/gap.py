"""At the same confidence, does accuracy depend on routing?"""

import pandas as pd
import streamlit as st

from app.compute import gap as compute
from app.parts import headlines
from app.plots import gap as plots
from app.shell.fragment import fragment
from app.shell.page import open_page
from engine.core.labels import RUNGS

page = open_page("gap")
view = page.view
page.require_feature()

verdict = compute.verdict(view)
page.verdict(headlines.of_answer(verdict), verdict.detail)
test = verdict.paper
gap = test.gap


@fragment
def draw_effect() -> None:
    """The choice of the rung redraws this part only."""
    left, right = st.columns([1, 3])
    rungs = range(len(RUNGS) if view.row["has_logits"] else 1)
    with left:
        rung = st.radio(
            "Compare accuracy with what is expected", rungs, format_func=lambda rung: f"given {RUNGS[rung]}",
            key="rung", bind="query-params", help="From the top down, more of the model's output is held fixed.",
        )  # fmt: skip
        if len(rungs) == 1:
            page.caption("More than confidence needs logits, which this run lacks.", "rungs")
    with right:
        figure = plots.effect_by_decile(compute.effect(view, rung), view.feature_label, verdict.alpha, page.theme)
        page.figure(figure, "effect", alt=f"Accuracy minus prediction by decile. {figure.layout.title.text}")


draw_effect()
tabs = page.tabs("The paper's picture", "Given more of the output", "Bins and cuts", "The paper's Table 1")
with next(tabs):
    page.text(verdict.paper_sentence)
    show_mid = st.toggle("Show the middle tertile", key="mid", bind="query-params")
    page.figure(
        plots.tertile_curves(test, page.theme, show_mid=show_mid),
        "curves",
        alt="Accuracy against confidence by tertile",
    )
    for note in gap.notes:
        page.text(note)
with next(tabs):
    if len(verdict.ladder) > 1:
        page.table(
            pd.DataFrame(verdict.ladder).assign(given=RUNGS),
            "ladder",
            names={"given": "Given", "effect": "Effect", "standard_error": "Standard error", "p_value": "p"},
            formats={"effect": "%+.3f", "standard_error": "%.3f", "p_value": "p"},
        )
    else:
        page.text("More than confidence needs logits, which this run lacks.")
with next(tabs):
    left, right = st.columns(2)
    with left:
        page.figure(plots.support_bars(gap, page.theme), "support", alt="Samples in each bin by tertile")
    with right:
        counts, edges = compute.feature_histogram(view)
        histogram = plots.feature_histogram(counts, edges, gap.contingency.cuts, view.feature_label, page.theme)
        page.figure(histogram, "feature", alt="Distribution of the feature with its cuts")
with next(tabs):
    if gap.max_gap is None:
        page.text("No bin holds enough samples of both outer thirds.")
    else:
        low, quarter, middle = gap.support
        table = pd.DataFrame([
            {
                "max_gap": gap.max_gap, "max_ci": "[{:.3f}, {:.3f}]".format(*verdict.gap.max_gap_ci),
                "weighted_gap": gap.weighted_gap, "ci": "[{:.3f}, {:.3f}]".format(*verdict.gap.weighted_gap_ci),
                "bins": f"{gap.n_shared}/{gap.n_bins}",
                "support": f"{low:.0f}/{quarter:.0f}/{middle:.0f}", "null": test.null.percentiles[2],
                "p": test.p_value,
            }
        ])  # fmt: skip
        names = {
            "max_gap": "Largest gap", "max_ci": "Largest, 95 %", "weighted_gap": "Weighted gap",
            "ci": "Weighted, 95 %", "bins": "Bins shared", "support": "Support min/q25/median", "null": "Null 97.5 %",
            "p": "Exact p",
        }  # fmt: skip
        formats = {"max_gap": "%.3f", "weighted_gap": "%.3f", "null": "%.3f", "p": "p"}
        page.table(table, "table1", names=names, formats=formats)

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
