"""Which calibrators help, and by how much?"""

from collections.abc import Callable

import plotly.graph_objects as go
import streamlit as st

from app.compute import calibrators as compute
from app.parts import calibrators as parts
from app.parts import headlines
from app.plots import calibrators as plots
from app.shell.headline import Headline
from app.shell.page import Page, open_page
from engine.benchmark import METRICS
from engine.benchmark.comparisons import CONTRASTED
from engine.calibrators import CALIBRATORS

SCOPES = {"run": "this run", "seeds": "all seeds of its cell"}
MAIN, OTHERS = ("ece", "worst_tertile_ece"), ("adaptive_ece", "nll", "brier")


def panels(page: Page, metrics: tuple[str, ...], draw: Callable[[str], go.Figure], key: str) -> None:
    """Figures side by side; the columns of a narrow window stack by themselves."""
    for column, metric in zip(st.columns(len(metrics)), metrics, strict=True):
        with column:
            page.figure(draw(metric), f"{key}-{metric}", alt=f"{METRICS[metric].label}, by method")


page = open_page("calibrators", benchmark=True)
view = page.view
problem = compute.obstacle(view, view.selection.run_id)
if problem:
    page.end(f"Calibrators cannot be fitted on this run: {problem}.")

head = st.container()
scope = st.radio("Runs", list(SCOPES), format_func=SCOPES.get, horizontal=True, key="over", bind="query-params")
pooled = scope == "seeds"
run_ids = compute.seeds_of_cell(view) if pooled else [view.selection.run_id]
# Parts that grow or go stand in containers: a control below that moves would no longer be in the address.
with st.container():
    found = parts.benchmarks(page, run_ids)
if found is None:
    with head:
        page.verdict(Headline("cannot_tell", "Not known yet"), "The calibrators are not fitted yet.", tested=False)
    page.finish()
    st.stop()

board, verdict = compute.judged(view, found, pooled=pooled)
own = next(result for result in found if result.run_id == view.selection.run_id)
with head:
    page.verdict(headlines.BENCHMARK[verdict.outcome], verdict.sentence, tested=False)
with st.container():
    if pooled:
        page.caption(f"Pooled: {', '.join(compute.seed_names(view, run_ids))}; every run is split in the same way.")
    for method, reason in own.skipped.items():
        page.text(f"{CALIBRATORS[method].label} is left out: {reason}.")

whole = [metric for metric in MAIN if not board.metric(metric).empty]
panels(page, tuple(whole), lambda metric: plots.metric_panel(board, metric, page.theme), "panel")
page.caption(
    (
        "Mean ± standard deviation over seeds, one tick per seed"
        if board.n_runs > 1
        else "Dots: the metric as the paper computes it. Lines: 95 % intervals; for ECE and AdaECE, of the debiased "
        "value (tick). Worst-tertile ECE has no reliable interval"
    )
    + ". Dashed: no calibration. In colour: AR-CondCal and its two matched controls, the same kernel without routing."
)
tabs = page.tabs(
    "Scores", "Routing against its controls", "Changes", "Before and after", "Set size", "Splits", "Fitted parameters"
)
with next(tabs):
    panels(page, OTHERS, lambda metric: plots.metric_panel(board, metric, page.theme), "panel")
    parts.scores_table(page, board)
with next(tabs):
    if verdict.contrasts.empty:
        page.text("AR-CondCal was not fitted beside a control, so there is nothing to compare.")
    else:
        panels(page, CONTRASTED, lambda metric: plots.contrast_panel(verdict.contrasts, metric, page.theme), "contrast")
        page.caption(
            "AR-CondCal minus the same kernel without routing: left of the dashed line AR-CondCal is better. "
            "Intervals are simultaneous (95 % jointly)."
        )
        parts.contrasts_table(page, verdict.contrasts)
with next(tabs):
    page.caption("Change relative to no calibration.")
    panels(page, parts.CHANGES, lambda metric: plots.change_panel(board, metric, page.theme), "change")
    parts.changes_table(page, board)
with next(tabs):
    page.caption("Reliability before and after" + (", on the chosen run." if pooled else "."))
    parts.before_and_after(page, own)
with next(tabs):
    page.caption("How many samples does a calibrator need?")
    parts.offer_sizes(page, run_ids, n_fitted=min(result.n_calibration for result in found))
with next(tabs):
    page.caption("Does the ranking depend on the split?")
    parts.offer_splits(page, run_ids)
with next(tabs):
    if pooled:
        page.caption("On the chosen run.")
    parts.learnt_by_method(page, own)
page.how(r"""
Every method is fitted on a random half of the run (seed 42) and evaluated on the other half. A slice would change what
is fitted, and a slice by outcome would fix the accuracy, so slices do not apply. ECE is $\sum_b \frac{n_b}{n}
|\text{acc}_b - \text{conf}_b|$ over 15 equal-width bins; worst-tertile ECE is the largest ECE inside a tertile of the
spread of routing entropy. Over seeds: mean and standard deviation (ddof 0).

**Intervals of one run.** Sampling noise inflates every ECE, so the usual value may lie above its interval. The interval
of ECE and AdaECE is for the debiased value: it holds every $\theta = \sum_b |\mu_b|$ under which the observed ECE is
not unusual, its distribution being that of a sum of folded normals. Simulated at true values from 0 to 0.1 it covers in
about 95 % of the samples (`make bench`), which bootstrap percentiles of an ECE do not. NLL, Brier and accuracy have
percentiles of 500 bootstrap resamples of the evaluated half; the other metrics have no interval.

**AR-CondCal against its controls.** All methods see the same resamples, so the difference $D$ of two NLLs has its own
standard error $s_D$, free of what the methods share: the interval is $D \pm z\, s_D$. For ECE the difference is that of
the debiased values, and its interval is made of theirs and of their correlation $r$ over the resamples (MOVER, Zou and
Donner 2008): $D - \sqrt{e_1^2 + e_2^2 - 2 r e_1 e_2}$ with $e$ the distances to the ends that meet; measured by
`make bench` too. Worst-tertile ECE has none in one run. Over seeds the interval is $\bar D \pm t_{n-1} s / \sqrt n$ of
the paired differences. All intervals shown hold jointly with 95 % (Bonferroni). A difference is clear if its interval
excludes zero; with three seeds this needs a difference that hardly varies. A method is within noise of the best one if
the 95 % interval of its own difference to it includes zero.

**Changes** are against the softmax on the same samples. **Set size**: random subsets of the fitting half, five draws.
**Splits**: ten random halvings; equal values share the better rank.
""")
page.finish()
