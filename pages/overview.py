"""What is in this cache, and what does the protocol say about it?"""

import streamlit as st

from app.compute import overview as compute
from app.compute.sweep import summary as summarised
from app.parts import headlines
from app.plots import overview as plots
from app.shell.page import open_page
from app.shell.report_button import offer_cache_report
from app.shell.tour import welcome

WIDE_SLOTS = 4  # more runs than this in a cell need the full width for each panel
MOST_ABREAST = 3
_GREY = "One tile per run; a stronger grey is a larger value, on one scale for all data sets."
CAPTIONS = {
    "p": "One tile per run: ● is p of the verdict (trend and shape combined), ○ that of the paper's test, for "
    "comparison. A solid tile rejects after Holm's correction over all runs, a grey one only without it, a dotted one "
    "cannot be tested.",
    "accuracy": _GREY,
    "raw_ece": _GREY,
}

page = open_page("overview", whole_cache=True)
view = page.view
summary = summarised(view)
verdict, counted = summary.verdict, summary.counted
page.verdict(headlines.of_answer(verdict), verdict.detail)
welcome()
if counted.empty:
    page.text("This cache holds ensembles only, and no run that they were made of.")
else:
    measure = st.radio(
        "Show of every run", list(plots.MEASURES), format_func=plots.MEASURES.get, horizontal=True, key="tiles",
        bind="query-params", label_visibility="collapsed",
    )  # fmt: skip
    grids = list(plots.inventory(counted, measure, verdict, page.theme).items())
    abreast = MOST_ABREAST if len(plots.slots(counted)) <= WIDE_SLOTS else 1
    for start in range(0, len(grids), abreast):
        row = grids[start : start + abreast]
        for panel, (dataset, grid) in zip(st.columns(abreast, gap="large"), row, strict=False):
            with panel:
                page.figure(grid, f"{measure}-{dataset}", alt=f"{plots.MEASURES[measure]} of every run on {dataset}")
    page.caption(CAPTIONS[measure])

tabs = page.tabs("Rejections, and where to look first", "All runs", "Report")
with next(tabs):
    if not counted.empty:
        left, right = st.columns(2, gap="large")
        with left:
            rejected = plots.rejections(verdict, page.theme)
            page.figure(rejected, "rejections", alt="Rejections beside those expected by chance")
        with right:
            page.heading("Runs to look at first")
            if summary.first.empty:
                page.text("No run can be tested with this feature. Choose another one in the sidebar.")
            for run_id, why in summary.first[["run_id", "reason"]].itertuples(index=False):
                page.run_link("gap", run_id)
                page.caption(why)
with next(tabs):
    page.table(compute.table_of_runs(summary), "runs", names=compute.RUN_COLUMNS, formats=compute.RUN_FORMATS)
with next(tabs):
    offer_cache_report(view)

page.how(r"""
Every run is tested on all its samples. Its p-value combines the primary test, Mantel's trend in equal-mass bins of 100
samples (fewer in runs below 4,000), with a test for other shapes (Cauchy combination). The paper's test, the exact
permutation test of the largest gap over 15 equal-width bins, is shown for comparison and decides nothing.

The answer looks at cells, the seeds of a model on a data set: the mean effect over cells (random effects), and the
pooled p-value of each cell after Holm's correction, each at $\alpha / 2$. Sweep draws these effects. Without an
effect, $m$ tests at level $\alpha$ reject about $m\alpha$ times; the grey range holds 95 % of simulated counts in which
runs on the same test images are correlated as their effects are. With Holm's correction the chance of even one false
rejection is at most $\alpha$; Benjamini-Hochberg bounds the expected share of false ones among the rejections instead.
""")
page.finish()
