"""Where is this run over- or under-confident?"""

import streamlit as st

from app.compute import reliability as compute
from app.parts import headlines
from app.parts import reliability as parts
from app.plots import reliability as plots
from app.shell.page import open_page
from engine.verdict.wording import reliability_sentence

BINNINGS = {"equal_width": "equal width (the paper's)", "equal_mass": "equal mass"}

page = open_page("reliability", tests=False)
view = page.view
summary = compute.diagram(view).summary
page.verdict(headlines.of_reliability(summary), reliability_sentence(summary), tested=False)
if view.refusal:
    page.text(
        "This slice was chosen by outcome, which fixes or shifts its accuracy: its calibration errors mean little."
    )

matching = st.radio(
    "Bins", list(BINNINGS), format_func=BINNINGS.get, horizontal=True, key="binning", bind="query-params"
)
main = compute.diagram(view, matching)
other = None if view.selection.compare_id is None else view.of_run(view.selection.compare_id)
sides = [(view, "main")] if other is None else [(view, "main"), (other, "compare")]
for column, (side, key) in zip(st.columns(len(sides)), sides, strict=True):
    with column:
        if len(sides) > 1:
            page.caption(side.label)
        shown = compute.diagram(side, matching)
        if shown is None:
            page.text("No sample of this run is in the slice.")
            continue
        title = f"ECE {shown.summary.ece:.3f}. {plots.diagram_title(shown.table)}"
        page.figure(
            plots.diagram(shown.table, page.theme, title=title, height=440), key, alt=f"Reliability diagram. {title}"
        )

drawn = {
    "Calibrators on held-out samples": parts.calibrators,
    "By confidence and tertile of the feature": parts.tertiles,
    "Other runs": parts.run_grid,
    "By class": parts.classes,
    "The bins": lambda page: page.table(main.table, "bins", names=parts.BINS, formats=parts.decimals(parts.BINS)),
}
for draw, tab in zip(drawn.values(), page.tabs(*drawn), strict=True):
    with tab:
        draw(page)
page.how(r"""
Samples are put in bins by confidence. In each bin the accuracy is drawn against the mean confidence, with Wilson's 95 %
interval; on the dashed line they are equal. $\text{ECE} = \sum_b \frac{n_b}{n} |\text{acc}_b - \text{conf}_b|$, always
over equal-width bins. A perfectly calibrated run would still show about $\frac{1}{n} \sum_b \sqrt{2 V_b / \pi}$ with
$V_b = \sum_{i \in b} c_i (1 - c_i)$, from sampling noise alone. The debiased ECE is free of it; its interval holds
every ECE of a population from which the observed one would not be unusual. A bin or class is called clearly over- or
under-confident when its interval excludes the mean confidence; with 15 bins, one such interval is expected by chance
even in a calibrated run. Classes are those predicted, because the true class is not known when the confidence is read.
Calibrators are fitted on a random half (seed 42) and drawn on the other half.
""")
page.finish()
