"""What is in this cache, and what does the protocol say about it?"""

import streamlit as st

from app.compute import overview as compute
from app.compute.sweep import summary as summarised
from app.plots import overview as plots
from app.shell.page import open_page
from app.shell.report_button import offer_cache_report
from engine.core import labels as wording
from engine.core.labels import HEADLINES
from engine.sweep import chance_range

WIDE_SLOTS = 4  # more runs than this in a cell need the full width for each panel
MOST_ABREAST = 2
_GREY = "One tile per run; a stronger grey is a larger value, on one scale for all data sets."
CAPTIONS = {
    "p": "One tile per run: ● is the primary test, ○ the paper's; a solid tile is rejected after Holm's correction "
    "over all runs, a grey one only without it, a dotted one cannot be tested.",
    "accuracy": _GREY,
    "raw_ece": _GREY,
}

page = open_page("overview", whole_cache=True)
view = page.view
summary = summarised(view)
verdict, counted = summary.verdict, summary.counted
page.verdict(verdict.sentence, controls=verdict.n_tested > 0)
if counted.empty:
    page.text("This cache holds ensembles only, and no run that they were made of.")
else:
    counts = verdict.counts
    numbers = [("Runs", len(counted), f"in {wording.counted(counted['cell'].nunique(), 'cell')}")]
    numbers.append(("Can be tested", verdict.n_tested, f"for {view.feature_label}"))
    for test, name in HEADLINES.items():
        expected = f"{counts.loc[test, 'expected_by_chance']:.1f} expected by chance"
        numbers.append((f"Rejected by {name}", counts.loc[test, "nominal"], expected))
    with st.container(horizontal=True, gap="medium"):
        for label, value, beside in numbers:
            st.metric(label, str(value), beside, delta_color="off", delta_arrow="off", width="content")
    page.note(" · ".join(f"{label}: {value} ({beside})" for label, value, beside in numbers))

    measure = st.radio(
        "Show of every run", list(plots.MEASURES), format_func=plots.MEASURES.get, horizontal=True, key="tiles",
        bind="query-params",
    )  # fmt: skip
    grids = list(plots.inventory(counted, measure, verdict, page.theme).items())
    abreast = MOST_ABREAST if len(plots.slots(counted)) <= WIDE_SLOTS else 1
    for start in range(0, len(grids), abreast):
        row = grids[start : start + abreast]
        for panel, (dataset, grid) in zip(st.columns(abreast, gap="large"), row, strict=False):
            with panel:
                page.figure(grid, f"{measure}-{dataset}", alt=f"{plots.MEASURES[measure]} of every run on {dataset}")
    page.caption(CAPTIONS[measure])

    left, right = st.columns(2, gap="large")
    with left:
        chance = {test: chance_range(int(counts.loc[test, "n_tested"]), verdict.alpha) for test in HEADLINES}
        page.figure(
            plots.rejections(verdict, chance, page.theme),
            "rejections",
            alt="Rejections beside those expected by chance",
        )
    with right:
        page.heading("Runs to look at first")
        if summary.first.empty:
            page.text("No run can be tested with this feature. Choose another one in the sidebar.")
        for run_id, why in summary.first[["run_id", "reason"]].itertuples(index=False):
            page.run_link("gap", run_id)
            page.caption(why)

    page.heading("All runs")
    page.table(compute.table_of_runs(summary), "runs", names=compute.RUN_COLUMNS, formats=compute.RUN_FORMATS)

st.subheader("Report")
offer_cache_report(view)

page.how(r"""
Every run is tested on all its samples. The paper's test is the exact permutation test of the largest gap over 15
equal-width confidence bins; the primary test is Mantel's trend in equal-mass bins of 100 samples (fewer in runs
below 4,000). Without an effect, $m$ tests at level $\alpha$ reject about $m\alpha$ times; the grey range holds
95 % of $\text{Binomial}(m, \alpha)$. It takes the runs as independent, which seeds evaluated on the same samples are
not quite, so the count may spread more than that. Holm's correction needs no such assumption: with it, the chance of
even one false rejection is at most $\alpha$. Benjamini-Hochberg bounds the expected share of false
ones among the rejections instead. Ranking: smallest corrected p of either test, then smallest p.
""")
page.finish()
