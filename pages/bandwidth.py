"""Does any bandwidth make AR-CondCal work?"""

import streamlit as st

from app.compute import bandwidth as compute
from app.parts import bandwidth as parts
from app.parts import headlines
from app.shell.headline import Headline
from app.shell.page import open_page
from app.state.view import KernelView
from engine.verdict.bandwidth import judge_bandwidth

page = open_page("bandwidth", benchmark=True)
view = page.view = KernelView(page.view.cache, page.view.runs, page.view.selection)
prepared = compute.prepared(view)
if prepared.smoother is None:
    page.end(compute.waiting(prepared))

# Parts that grow when their work is done stand in containers: a control that moves is no longer in the address.
top, bars, moving = st.container(), st.container(), st.container()
with bars:
    seeds, complete = parts.all_curves(page)
curves = seeds[0] if seeds else None
verdict = judge_bandwidth(seeds, feature=view.feature_label) if seeds and complete else None
with top:
    if verdict is None:
        page.verdict(Headline("cannot_tell", "Not known yet"), compute.waiting(prepared), tested=False)
    else:
        page.verdict(headlines.BANDWIDTH[verdict.outcome], verdict.sentence, tested=False)

with moving:
    parts.live(page, prepared, curves)
tabs = page.tabs("Exact values at one setting", "Common bandwidth choices", "Largest leads over both controls")
with next(tabs):
    if prepared.smoother.feature is None:
        page.text("This run lacks the feature, so there is no second axis to set.")
    else:
        if prepared.smoother.scott["feature"] == 0:
            page.text("The feature is constant on the calibration half, so its axis is ignored.")
        parts.one_setting(page, prepared, curves)
with next(tabs):
    if curves is not None:
        choices = {"mode": "Choice", "multiplier": "Multiple", **parts.SCORES}
        table = parts.named(compute.modes(curves))
        page.table(table, "modes", names=choices, formats=parts.FORMATS | {"multiplier": "%.3g"})
with next(tabs):
    if verdict is not None and verdict.settings:
        table = compute.leads(verdict)
        names = {name: compute.LEADS[name] for name in table}
        formats = {name: "%.4f" for name in names if name not in ("metric", "place")}
        page.table(table, "leads", names=names, formats=formats)
page.how(r"""
AR-CondCal smooths correctness over confidence and a routing feature,
$g(c, r) = \sum_i K_h(x - x_i) t_i / \sum_i K_h(x - x_i)$ with a Gaussian product kernel, and moves each sample's
temperature until its top probability is $g$; a target outside $[1/K, 1)$ is raised or lowered to it. Scott's bandwidth
is $h_j = \sigma_j n^{-1/6}$, for the matched controls (confidence; confidence and predictive entropy) too. The paper's
feature is the spread of routing entropy over depth, whose tertiles are always the ones scored.
The **lead** at a bandwidth is the better control's score minus AR-CondCal's, its **spread** the standard deviation over
the seeds of the cell. 25 multiples from 1/8 to 8 are tried, on both axes and on each alone. The largest of many leads
may exceed its spread by chance, so it must also hold on the held-out seed, at the bandwidth chosen on the others
(one-sided t test over seeds at 5 %, corrected for the three metrics).
**Gap kept** is $\tanh(d^2 / 4 h_r^2)$ with $d$ between the mean features of the outer tertiles.
""")
page.finish()
