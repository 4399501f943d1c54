"""Would this test have found an effect, and does it cry wolf?"""

import streamlit as st

from app.components.fragment import fragment
from app.components.page import open_page
from app.loaders import results
from app.loaders import results_controls as controls
from app.plots import controls as plots
from app.plots.gap import tertile_curves
from engine.verdict import format_p

page = open_page("controls")
view = page.view
if view.rho is None:
    page.verdict(f"This cannot be asked of this run: {view.missing}.", controls=False)
    page.finish()
    st.stop()

page.verdict(results.verdict(view).sentence, controls=False)


@fragment
def plant() -> None:
    """The slider redraws this part only."""
    left, right = st.columns([1, 3])
    with left:
        delta = st.slider("Planted gap", 0.0, 0.3, 0.1, 0.01, key="delta", bind="query-params")
        seed = st.number_input("World", 0, 999, 0, key="world", bind="query-params", help="Another random draw.")
    # All is computed before any of it is drawn: each thing drawn by itself makes the browser go through the whole page.
    paper, audited = controls.planted(view, float(delta), int(seed))
    tests = (("The paper's test", paper.p_value), ("The audited test", audited.p_value))
    lines = [f"{name}: **{'cannot run' if p is None else format_p(p)}**" for name, p in tests]
    figure = tertile_curves(paper, page.theme)
    left.markdown("  \n".join(lines))
    with right:
        page.figure(figure, "planted", alt="Tertile curves of a world with a planted gap")


page.heading("A made-up world with a gap of your choice")
plant()

page.heading("How large a gap would have been found?")
replicates = st.select_slider("Worlds per point", [100, 200, 400, 1000], 200, key="worlds", bind="query-params")
bar = st.progress(0.0, "planting gaps")
power = controls.power(view, replicates, lambda share, text: bar.progress(share * 0.6, text))
by_support = controls.power_by_support(view, replicates, lambda share, text: bar.progress(0.6 + share * 0.2, text))
alarms = controls.alarms(view, replicates * 2, lambda share, text: bar.progress(0.8 + share * 0.2, text))
bar.empty()
left, right = st.columns(2)
with left:
    page.figure(plots.power_curves(power, page.theme), "power", alt="Power of each test against the planted gap")
with right:
    page.figure(plots.support_power(by_support, page.theme), "support-power", alt="Power by minimum support")

page.heading("Does it cry wolf where only confidence matters?")
page.figure(plots.false_alarms(alarms, page.theme), "alarms", alt="False-alarm rate of each test")

page.heading("Which verdicts on this run can be trusted")
page.table(
    controls.trust(view, alarms, power),
    "trust",
    names={
        "label": "Test", "p": "p on this run", "false_alarm": "False alarms", "detectable": "Gap found 4 times in 5",
        "reading": "Reading",
    },
    formats={"p": "%.4f", "false_alarm": "percent", "detectable": "%.2f"},
)  # fmt: skip
page.how(r"""
**The confidence-only world** keeps this run's confidence and feature and draws correctness from a logistic fit of
accuracy on the logit of confidence. Nothing is there to be found, so a sound test rejects in 5 % of such worlds.
**The planted gap** adds $+\delta n_{high} / (n_{low} + n_{high})$ to the low tertile's accuracy and takes
$\delta n_{low} / (n_{low} + n_{high})$ from the high one's in equal-mass bins of 100 samples, which keeps each bin's
accuracy; where that would leave $[0, 1]$ the gap stays and the accuracy gives way. All gaps share their random numbers.
""")
page.finish()
