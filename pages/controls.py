"""Could this test detect an effect, and how often does it raise a false alarm?"""

import streamlit as st

from app.compute import controls as compute
from app.compute.gap import verdict
from app.parts import headlines
from app.plots import controls as plots
from app.plots.gap import tertile_curves
from app.report.study import TRUST, TRUST_FORMATS
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import open_page
from app.state.selection import N_SIMULATIONS
from engine.controls import SCALES, SHAPES
from engine.core.labels import format_p

SHAPE_HELP = (
    "Monotone: the low third against the high one. U: the middle third against the outer two. Opposite signs: low "
    "against high where confidence is high, and the reverse where it is low."
)
SCALE_HELP = "Accuracy: the same gap at every confidence. Odds: the same ratio of odds, so a smaller gap near 0 and 1."

page = open_page("controls")
view = page.view
page.require_feature()

head, chosen, drawn = st.container(), st.container(), st.container()
with chosen:
    first, second, third = st.columns(3)
    simulations = first.select_slider(
        "Simulations per point", [100, 200, N_SIMULATIONS, 1000], N_SIMULATIONS, key="simulations",
        bind="query-params", help="The answer above uses the same number.",
    )  # fmt: skip
    shape = second.radio("Planted shape", SHAPES, key="shape", bind="query-params", horizontal=True, help=SHAPE_HELP)
    scale = third.radio("Scale", SCALES, key="scale", bind="query-params", horizontal=True, help=SCALE_HELP)
judged = verdict(view, simulations)
with head:
    page.verdict(*headlines.of_controls(judged))


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
    paper, found = compute.planted(view, float(delta), int(seed), shape, scale)
    tests = (
        ("Trend and shape", found.p_value),
        ("The primary trend test", found.primary.p_value),
        ("The paper's test", paper.p_value),
    )
    lines = [f"{name}: **{'cannot run' if p is None else format_p(p)}**" for name, p in tests]
    figure = tertile_curves(paper, page.theme, show_mid=shape == "U")
    left.markdown("  \n".join(lines))
    with right:
        page.figure(figure, "planted", alt="Tertile curves of a simulated data set with a planted gap")


with drawn:
    found = long_work("controls", compute.controls(view, simulations, shape, scale), label="Run the simulations")
    if found is not None:
        left, right = st.columns(2)
        with left:
            figure = plots.power_curves(found.power, page.theme)
            page.figure(figure, "power", alt="Power of each test against the planted gap")
        with right:
            page.figure(plots.false_alarms(found.alarms, page.theme), "alarms", alt="False-alarm rate of each test")
tabs = page.tabs("Plant a gap", "Which tests can be trusted on this run?", "Real features")
with next(tabs):
    plant()
with next(tabs):
    if found is not None:
        page.table(found.trust, "trust", names=TRUST, formats=TRUST_FORMATS)
with next(tabs):
    if judged.positive is None or judged.positive.real is None:
        page.text("No other run of this cache has the same samples, so there is no feature known to matter.")
    else:
        page.text("Does the test find what other runs know about these samples?")
        table = judged.positive.real.table
        names = {"label": "Predictive entropy of", "p_value": "p", "z": "z of the trend"}
        labels = [view.names[name].full for name in table["name"]]
        page.table(table.assign(label=labels), "real", names=names, formats={"p_value": "p", "z": "%.1f"})
page.how(r"""
**Simulations without effect** keep this run's confidence and feature and draw correctness from fits of accuracy on
confidence: logistic in its log-odds, a spline of its rank, and isotonic. Where confidences are rounded or tied, a
fourth one restores the lost digits in the order of the feature, which is the worst case. There is no effect to detect,
so a valid test rejects 5 % of them; the worst fit counts. A test **raises false alarms** if it rejects more than 7.5 %
and a valid test would do so less than once in 1,000 times. **The planted gap** $\delta$ is between two sides of the
feature at matched confidence: the one gains $\delta n_- / (n_+ + n_-)$ in accuracy and the other loses $\delta n_+ /
(n_+ + n_-)$ in the bins of the primary test, which keeps each bin's accuracy; where that would leave $[0, 1]$ the gap
is kept and the accuracy changes. All gaps use the same random numbers. **Real features**: the predictive entropy of
another run on the same samples certainly says something about them that this run's confidence does not.
""")
page.finish()
