"""At the same confidence, does accuracy depend on routing?"""

import pandas as pd
import streamlit as st

from app.compute import gap as compute
from app.plots import gap as plots
from app.shell.page import open_page

page = open_page("gap")
view = page.view
page.require_feature()

verdict = compute.verdict(view)
page.verdict(verdict.detail, answer=verdict.answer)
test, bootstrap = verdict.paper, verdict.gap
gap = test.gap

show_mid = st.toggle("Show the middle tertile", key="mid", bind="query-params")
page.figure(
    plots.tertile_curves(test, page.theme, show_mid=show_mid), "curves", alt="Accuracy against confidence by tertile"
)
left, right = st.columns(2)
with left:
    page.figure(plots.support_bars(gap, page.theme), "support", alt="Samples in each bin by tertile")
with right:
    counts, edges = compute.feature_histogram(view)
    histogram = plots.feature_histogram(counts, edges, gap.contingency.cuts, view.feature_label, page.theme)
    page.figure(histogram, "feature", alt="Distribution of the feature with its cuts")

if gap.max_gap is not None:
    intervals = {"largest gap": bootstrap.max_gap_ci, "weighted gap": bootstrap.weighted_gap_ci}
    values = {"largest gap": gap.max_gap, "weighted gap": gap.weighted_gap}
    rows = [{"name": n, "value": values[n], "low": ci[0], "high": ci[1]} for n, ci in intervals.items()]
    page.figure(plots.gap_intervals(rows, page.theme), "intervals", alt="Both gaps with bootstrap intervals")
    page.heading("The numbers of the paper's Table 1, for this run")
    low, quarter, middle = gap.support
    table = pd.DataFrame([
        {
            "max_gap": gap.max_gap, "weighted_gap": gap.weighted_gap,
            "ci": "[{:.3f}, {:.3f}]".format(*bootstrap.weighted_gap_ci), "bins": f"{gap.n_shared}/{gap.n_bins}",
            "support": f"{low:.0f}/{quarter:.0f}/{middle:.0f}", "null": test.null.percentiles[2], "p": test.p_value,
        }
    ])  # fmt: skip
    names = {
        "max_gap": "Largest gap", "weighted_gap": "Weighted gap", "ci": "95 % interval (weighted)",
        "bins": "Bins shared", "support": "Support min/q25/median", "null": "Null 97.5 %", "p": "Exact p",
    }  # fmt: skip
    formats = {"max_gap": "%.3f", "weighted_gap": "%.3f", "null": "%.3f", "p": "%.4f"}
    page.table(table, "table1", names=names, formats=formats)
for note in gap.notes:
    page.text(note)

page.how(r"""
Samples are cut into three groups by the feature and into bins by confidence. In each bin that holds enough of both
outer groups the accuracies are compared:
$\text{largest gap} = \max_b |a_b^{low} - a_b^{high}|$ and
$\text{weighted gap} = \sum_b w_b |a_b^{low} - a_b^{high}| / \sum_b w_b$ with $w_b = \min(n_b^{low}, n_b^{high})$.
The grey band is where 95 % of permutations of the feature inside each bin would put an outer tertile's accuracy.
Intervals come from resampling all samples 5,000 times with the cuts fixed. An absolute gap is folded at zero, so
resampling noise moves it upwards and the point may lie below its interval.
""")
page.finish()
