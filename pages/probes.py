"""Is the MLP's uplift routing or capacity?"""

import pandas as pd
import streamlit as st

from app.components.fragment import fragment
from app.components.long_work import long_work
from app.components.page import Page, open_page, presenting
from app.components.probe_settings import choose_settings
from app.components.trap import choose_step
from app.loaders import results_probes as probes
from app.loaders.results_probes import Settings
from app.plots import probes as plots
from engine.probes import MINIMUM_SAMPLES, Descriptor, ProbeResult, predicted_against_actual
from engine.verdict_probes import STEPS, judge_probe_sweep, judge_probes


def numbers(page: Page, result: ProbeResult, shown: tuple[str, ...], given: Descriptor) -> None:
    """Scores and contrasts in figures."""
    scores = pd.DataFrame([
        {
            "probe": plots.probe_label(probe, given.kind), "mean": result.mean[probe], "std": result.std[probe],
            "low": result.r2[probe].min(), "high": result.r2[probe].max(),
        }
        for probe in shown
    ])  # fmt: skip
    names = {"probe": "Probe", "mean": "R², mean", "std": "Std", "low": "Lowest", "high": "Highest"}
    page.table(scores, "scores", names=names, formats=dict.fromkeys(("mean", "std", "low", "high"), "%.4f"))
    rows = [
        {
            "name": plots.contrast_label(name, given.kind), "estimate": contrast.estimate,
            "interval": plots.interval_text(contrast),
        }
        for name, contrast in result.contrasts.items()
        if contrast.against in shown
    ]  # fmt: skip
    if rows:
        names = {"name": "Contrast", "estimate": "Difference in R²", "interval": "95 % interval"}
        page.table(pd.DataFrame(rows), "contrasts", names=names, formats={"estimate": "%+.4f"})


@fragment
def predictions(page: Page, result: ProbeResult, given: Descriptor) -> None:
    """Whether a probe's predictions come true; the choice redraws this part only."""
    left, right = st.columns([1, 3])
    with left:
        labels = {plots.probe_label(probe, given.kind): probe for probe in result.predictions}
        label = st.radio("Probe", labels, key="probe", bind="query-params", index=min(3, len(labels) - 1))
    groups = predicted_against_actual(result, labels[label])
    with right:
        figure = plots.predicted_against_actual(groups, labels[label], page.theme)
        page.figure(figure, "predicted", alt="Actual error against predicted error")
        page.caption(
            f"{len(groups)} groups of about {groups['count'].median():,.0f} held-out samples, cut at quantiles of the "
            "prediction; bars are 95 % intervals of the mean. First initialisation."
        )


def sweep(page: Page, settings: Settings) -> None:
    """The same audit over every run of the cache, on a button."""
    page.heading("Over the whole cache")
    view, n_runs = page.view, len(probes.pooled_runs(page.view))
    if not n_runs:
        page.text("No single model in this cache has a routing profile, so there is nothing to pool.")
        return
    done = probes.finished_runs(view, settings)
    found = long_work(
        "sweep", ("probe-sweep", view.selection.fingerprint, settings),
        lambda progress: probes.pooled(view, settings, done, progress),
        label=f"Audit all {n_runs} runs" if n_runs > 1 else "Audit the one run", start=False,
    )  # fmt: skip
    if found is None:
        st.caption("All samples and all layers of each run, with the settings above; ensembles are left out.")
        return
    page.text(judge_probe_sweep(found.sweep).sentence)
    page.figure(plots.pooled_contrasts(found.contrasts, page.theme), "pooled", alt="Contrasts of every run by cell")
    pooled = found.sweep.pooled
    page.table(
        pooled.assign(name=[plots.probe_label(probe, "routing") for probe in pooled["probe"]]), "pooled",
        names={"name": "Probe", "mean": "R², mean over runs", "std": "Std over runs", "n_runs": "Runs"},
        formats={"mean": "%.4f", "std": "%.4f"},
    )  # fmt: skip


page = open_page("probes")
view = page.view
if view.run.n_samples < MINIMUM_SAMPLES:
    page.verdict(f"Too few samples to fit on half of them: {view.run.n_samples}.", controls=False)
    page.finish()
    st.stop()
everything = probes.inputs(view)
step = choose_step(presenting=presenting())
head, (left, right) = st.container(), st.columns([1, 3])
with left:
    settings, given = choose_settings(everything)
with head:
    result = long_work(
        "audit", probes.audit_key(view, given, settings),
        lambda progress: probes.audited(view, given, settings, progress), label="Train the probes",
    )  # fmt: skip
    if result is None:
        page.verdict("The probes of this run have not been trained yet.", controls=False)
    else:
        page.verdict(judge_probes(result, kind=given.kind, step=step).sentence, controls=False)
        page.caption(f"Probes: {settings.describe()}, {len(given.numbers)} of {len(everything.numbers)} {given.unit}.")
        for note in result.notes:
            page.caption(f"Note: {note}.")
if result is None:
    page.finish()
    st.stop()
shown = tuple(probe for probe in STEPS[step] if probe in result.r2)
with right:
    page.figure(plots.probe_scores(result, shown, given.kind, page.theme), "scores", alt="Held-out R² of each probe")
    page.caption("A tick is an initialisation, the thick line their range, the mark their mean.")
if result.contrasts:
    left, right = st.columns(2, gap="large") if step == "shuffle" else (right, None)
    with left:
        figure = plots.contrasts(result, shown, given.kind, page.theme)
        page.figure(figure, "contrasts", alt="Differences in held-out R² with intervals")
        page.caption("Here the thick line is the 95 % interval of the mean over initialisations.")
    if right is not None and result.reference is not None:
        with right:
            reference = plots.shuffle_reference(result.reference, given.kind, page.theme)
            page.figure(reference, "reference", alt="R² of networks on shuffled routing")
numbers(page, result, shown, given)
if step == "shuffle":
    page.heading("Does the predicted error come true?")
    predictions(page, result, given)
    sweep(page, settings)
page.how(r"""
Each probe predicts a sample's calibration error $|c - t|$ from one half of the samples (split 50/50, seed 42) and is
scored on the other by $R^2 = 1 - \sum (y - \hat y)^2 / \sum (y - \bar y)^2$. A line is least squares (with a ridge
penalty of 1 where it sees the profile), a network has one hidden layer of ReLUs and is trained on the whole half at
once by Adam (step 0.01). The shuffled probe permutes the profile's rows over the training half. Intervals are
$t$ intervals over initialisations: they speak of other starting weights, not of other samples.

The reference permutes the profile among training samples of like confidence (groups of about 5) and trains from the
first network's starting weights; $p = (1 + \#\{\text{shuffled} \ge \text{own}\}) / (1 + 20)$, so it cannot fall below
0.048. Over many runs, more rejections than chance means a binomial tail of at most 0.05, runs taken as independent.
""")
page.finish()
