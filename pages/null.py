"""Could that gap be chance?"""

import streamlit as st

from app.compute import null as compute
from app.compute.gap import verdict as judged
from app.parts import headlines
from app.plots import null as plots
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import open_page
from engine.gaps import STATISTICS

LABELS = {name: statistic.label for name, statistic in STATISTICS.items()}
METHODS = {"exact": "exact", "hypergeometric": "simulated counts", "shuffle": "shuffled samples (the paper's way)"}
PERMUTATIONS = (100, 200, 500, 1000, 2000, 5000, 10_000)

page = open_page("null")
view = page.view
page.require_feature()

verdict = judged(view)
page.verdict(*headlines.of_null(verdict))


@fragment
def draw_null() -> None:
    """The choices redraw this part only."""
    controls, main = st.columns([1, 3])
    with controls:
        statistic = st.radio("Statistic", LABELS, format_func=LABELS.get, key="statistic", bind="query-params")
        methods = [method for method in METHODS if method in STATISTICS[statistic].methods]
        method = st.radio("Null", methods, format_func=METHODS.get, key="method", bind="query-params")
        permutations = st.select_slider(
            "Permutations", PERMUTATIONS, 5000, key="permutations", bind="query-params", disabled=method == "exact",
            help="The exact method needs none.",
        )  # fmt: skip
    with main:
        work = compute.permutation(view, statistic, method, permutations)
        test = long_work("permutation", work, label="Permute again")
        if test is None:
            page.shown.pop("figure-null", None)  # that of the choice before
            return
        page.figure(plots.null_distribution(test, page.theme), "null", alt="Null distribution with the observed value")


draw_null()

tabs = page.tabs("By bin, and by number of bins", "Do the three nulls agree?")
with next(tabs):
    left, right = st.columns(2)
    with left:
        page.figure(
            plots.bin_contributions(verdict.paper, page.theme), "bins", alt="Gap of each bin against its null range"
        )
    with right:
        curve = long_work("p-bins", compute.p_by_bins(view), label="Vary the number of bins")
        if curve is not None:
            figure = plots.p_against_bins(curve, verdict.alpha, page.theme)
            page.figure(figure, "p-bins", alt="p-value by number of bins")
    match = compute.match_quality(view)
    page.text(
        "Within-bin rank correlation of the feature with confidence: "
        f"{match['equal_width']} in the paper's bins, {match['equal_mass']} in those of the primary test. "
        "If this is far from zero, a test on those bins may attribute to the feature what is due to confidence."
    )
with next(tabs):
    agreement = long_work("nulls", compute.nulls(view, METHODS), label="Compare the three nulls")
    if agreement is not None:
        page.table(
            agreement,
            "agreement",
            names={"statistic": "Statistic", "method": "Null", "observed": "Observed", "p": "p"},
            formats={"observed": "%.4f", "p": "p"},
        )
page.how(r"""
Inside each confidence bin the feature is permuted; the cuts stay. Group sizes and the number of correct samples $k$ of
a bin are then fixed, and the correct counts of the groups are multivariate hypergeometric, independently over bins. So
$p = 1 - \prod_b P(\text{gap}_b < \text{observed})$ can be summed instead of simulated, comparing gaps as whole numbers.
The simulated nulls use $p = (1 + \text{hits}) / (1 + P)$. The weighted gap and CMH are convolved over bins; the trend,
which uses every sample and not only the outer thirds, is always shuffled.
""")
page.finish()
