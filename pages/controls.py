"""Could this test detect an effect, and how often does it raise a false alarm?"""

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

head, simulated, title = st.container(), st.container(), st.container()
simulations = st.select_slider(
    "Simulations per point", [100, 200, N_SIMULATIONS, 1000], N_SIMULATIONS, key="simulations", bind="query-params",
    help="The verdict above uses the same number.",
)  # fmt: skip
with head:
    page.verdict(verdict(view, simulations).sentence, controls=False)


@fragment
def plant() -> None:
    """The slider redraws this part only."""
    left, right = st.columns([1, 3])
    with left:
        delta = st.slider("Planted gap", 0.0, 0.3, 0.1, 0.01, key="delta", bind="query-params")
        seed = st.number_input(
            "Random draw", 0, 999, 0, key="draw", bind="query-params", help="Seed of the simulated data set."
        )
    # All is computed before any of it is drawn: each thing drawn by itself makes the browser go through the whole page.
    paper, primary = compute.planted(view, float(delta), int(seed))
    tests = (("The paper's test", paper.p_value), ("The primary test", primary.p_value))
    lines = [f"{name}: **{'cannot run' if p is None else format_p(p)}**" for name, p in tests]
    figure = tertile_curves(paper, page.theme)
    left.markdown("  \n".join(lines))
    with right:
        page.figure(figure, "planted", alt="Tertile curves of a simulated data set with a planted gap")


def draw(found: compute.Controls) -> None:
    """What the tests can and cannot see."""
    left, right = st.columns(2)
    with left:
        figure = plots.power_curves(found.power, page.theme)
        page.figure(figure, "power", alt="Power of each test against the planted gap")
    with right:
        figure = plots.support_power(found.by_support, page.theme)
        page.figure(figure, "support-power", alt="Power by minimum support")
    page.heading("How often does each test raise a false alarm?")
    page.figure(plots.false_alarms(found.alarms, page.theme), "alarms", alt="False-alarm rate of each test")
    page.heading("Which tests can be trusted on this run?")
    page.table(found.trust, "trust", names=TRUST, formats=TRUST_FORMATS)


with simulated:
    page.heading("A simulated data set with a gap of your choice")
    plant()
with title:
    page.heading("How large a gap could be detected?")
found = long_work("controls", compute.controls(view, simulations), label="Run the simulations")
if found is not None:
    draw(found)
page.how(r"""
**Simulations without effect** keep this run's confidence and feature and draw correctness from a logistic fit of
accuracy on the logit of confidence. There is no effect to detect, so a valid test rejects 5 % of them. **The planted
gap** adds $+\delta n_{high} / (n_{low} + n_{high})$ to the low tertile's accuracy and takes $\delta n_{low} / (n_{low}
+ n_{high})$ from the high one's in the primary test's bins, which keeps each bin's accuracy; where that would leave
$[0, 1]$ the gap is kept and the accuracy changes. All gaps use the same random numbers.
""")
page.finish()
