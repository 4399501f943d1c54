"""Would this test have found an effect, and does it cry wolf?"""

import streamlit as st

from app.compute import controls as compute
from app.compute.gap import verdict
from app.plots import controls as plots
from app.plots.gap import tertile_curves
from app.report.study import TRUST, TRUST_FORMATS
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import open_page
from app.state.selection import N_SIMULATIONS
from engine.core.labels import format_p

page = open_page("controls")
view = page.view
page.require_feature()

head, made_up, title = st.container(), st.container(), st.container()
worlds = st.select_slider(
    "Worlds per point", [100, 200, N_SIMULATIONS, 1000], N_SIMULATIONS, key="worlds", bind="query-params",
    help="The verdict above counts in as many.",
)  # fmt: skip
with head:
    page.verdict(verdict(view, worlds).sentence, controls=False)


@fragment
def plant() -> None:
    """The slider redraws this part only."""
    left, right = st.columns([1, 3])
    with left:
        delta = st.slider("Planted gap", 0.0, 0.3, 0.1, 0.01, key="delta", bind="query-params")
        seed = st.number_input("World", 0, 999, 0, key="world", bind="query-params", help="Another random draw.")
    # All is computed before any of it is drawn: each thing drawn by itself makes the browser go through the whole page.
    paper, audited = compute.planted(view, float(delta), int(seed))
    tests = (("The paper's test", paper.p_value), ("The audited test", audited.p_value))
    lines = [f"{name}: **{'cannot run' if p is None else format_p(p)}**" for name, p in tests]
    figure = tertile_curves(paper, page.theme)
    left.markdown("  \n".join(lines))
    with right:
        page.figure(figure, "planted", alt="Tertile curves of a world with a planted gap")


def draw(found: compute.Controls) -> None:
    """What the tests can and cannot see."""
    left, right = st.columns(2)
    with left:
        figure = plots.power_curves(found.power, page.theme)
        page.figure(figure, "power", alt="Power of each test against the planted gap")
    with right:
        figure = plots.support_power(found.by_support, page.theme)
        page.figure(figure, "support-power", alt="Power by minimum support")
    page.heading("Does it cry wolf where only confidence matters?")
    page.figure(plots.false_alarms(found.alarms, page.theme), "alarms", alt="False-alarm rate of each test")
    page.heading("Which verdicts on this run can be trusted")
    page.table(found.trust, "trust", names=TRUST, formats=TRUST_FORMATS)


with made_up:
    page.heading("A made-up world with a gap of your choice")
    plant()
with title:
    page.heading("How large a gap would have been found?")
found = long_work("controls", compute.controls(view, worlds), label="Simulate these worlds")
if found is not None:
    draw(found)
page.how(r"""
**The confidence-only world** keeps this run's confidence and feature and draws correctness from a logistic fit of
accuracy on the logit of confidence. Nothing is there to be found, so a sound test rejects in 5 % of such worlds.
**The planted gap** adds $+\delta n_{high} / (n_{low} + n_{high})$ to the low tertile's accuracy and takes
$\delta n_{low} / (n_{low} + n_{high})$ from the high one's in the audited test's bins, which keeps each bin's
accuracy; where that would leave $[0, 1]$ the gap stays and the accuracy gives way. All gaps share their random numbers.
""")
page.finish()
