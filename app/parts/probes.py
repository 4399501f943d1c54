"""Parts of the Probe audit: its numbers, whether predictions come true, and the audit of every run."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from app.compute import probes
from app.compute.probes import Settings
from app.plots import probes as plots
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.probes import Descriptor, ProbeResult, predicted_against_actual
from engine.verdict.probes import judge_probe_sweep


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
            "prediction; bars are 95 % intervals of the mean. First initialisation.",
            key="predicted",
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
