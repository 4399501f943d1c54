"""Does the MLP probe gain from routing, or only from being larger?"""

import streamlit as st

from app.compute import probes as compute
from app.parts import headlines
from app.parts import probes as parts
from app.plots import probes as plots
from app.shell.headline import Headline
from app.shell.long_work import long_work
from app.shell.page import open_page
from app.shell.presenter import presenting
from engine.probes import MINIMUM_SAMPLES
from engine.verdict.probes import STEPS, judge_probes

page = open_page("probes")
view = page.view
if view.run.n_samples < MINIMUM_SAMPLES:
    page.end(f"Too few samples to fit probes on one half: {view.run.n_samples}.")
everything = compute.inputs(view)
step = parts.choose_step(presenting=presenting())
head, (left, right) = st.container(), st.columns([1, 3])
with left:
    settings, given = parts.choose_settings(everything)
with head:
    result = long_work("audit", compute.audited(view, given, settings), label="Train the probes")
    if result is None:
        headline = Headline("cannot_tell", "Not known yet")
        page.verdict(headline, "The probes for this run have not been trained yet.", tested=False)
    else:
        judged = judge_probes(result, kind=given.kind, step=step)
        page.verdict(headlines.PROBES[judged.outcome], judged.sentence, tested=False)
        page.caption(f"Probes: {settings.describe()}, {len(given.numbers)} of {len(everything.numbers)} {given.unit}.")
        for note in result.notes:
            page.caption(f"Note: {note}.")
if result is None:
    page.finish()
    st.stop()
shown = tuple(probe for probe in STEPS[step] if probe in result.r2)
with right:
    page.figure(plots.probe_scores(result, shown, given.kind, page.theme), "scores", alt="Held-out R² of each probe")
    page.caption("Ticks: initialisations. Thick line: their range. Mark: their mean.")
whole = step == "shuffle"
tabs = page.tabs(
    "Contrasts", "Numbers", *(("Do the predictions match the actual error?", "Whole cache") if whole else ())
)
with next(tabs):
    if result.contrasts:
        left, right = st.columns(2, gap="large")
        with left:
            figure = plots.contrasts(result, shown, given.kind, page.theme)
            page.figure(figure, "contrasts", alt="Differences in held-out R² with intervals")
            page.caption("Thick line: 95 % interval of the mean over initialisations.")
        if whole and result.reference is not None:
            with right:
                reference = plots.shuffle_reference(result.reference, given.kind, page.theme)
                page.figure(reference, "reference", alt="R² of networks on shuffled routing")
with next(tabs):
    parts.numbers(page, result, shown, given)
if whole:
    with next(tabs):
        parts.predictions(page, result, given)
    with next(tabs):
        parts.sweep(page, settings)
page.how(r"""
Each probe predicts a sample's calibration error $|c - t|$ from one half of the samples (split 50/50, seed 42) and is
scored on the other by $R^2 = 1 - \sum (y - \hat y)^2 / \sum (y - \bar y)^2$. A line is least squares (with a ridge
penalty of 1 where it sees the profile), a network has one hidden layer of ReLUs and is trained on the whole half at
once by Adam (step 0.01). The shuffled probe permutes the profile's rows over the training half. Intervals are $t$
intervals over initialisations: they describe other initial weights, not other samples.

The reference permutes the profile among training samples with similar confidence (groups of about 5) and trains from
the first network's starting weights; $p = (1 + \#\{\text{shuffled} \ge \text{own}\}) / (1 + 20)$, so it cannot fall
below 0.048. Over many runs, more rejections than chance means a binomial tail of at most 0.05, runs taken as
independent.
""")
page.finish()
