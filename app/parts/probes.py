"""Parts of the Probe audit: its settings, its steps, its numbers, and the audit of every run."""

from typing import cast

import pandas as pd
import streamlit as st

from app.compute import probes as compute
from app.compute.probes import Settings
from app.plots import probes as plots
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import Page
from engine.probes import Descriptor, ProbeResult
from engine.verdict.probes import STEPS, Step, judge_probe_sweep

_WIDTHS, _EPOCHS = (1, 2, 4, 8, 16, 32, 64), (25, 50, 100, 200, 400, 800)
_DECAYS = ("0", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1")
_LABELS: dict[Step, str] = {
    "naive": "1 Naive comparison",
    "capacity": "2 Same capacity",
    "shuffle": "3 Shuffled routing",
}
_ORDER = list(STEPS)


def choose_step(*, presenting: bool) -> Step:
    """How much of the audit to show: all of it, unless the viewer asks for it step by step.

    A presenter's clicker sends Page Down and Page Up; they move one step while presenting, and scroll otherwise.
    """
    stepwise = st.toggle(
        "Show step by step", key="steps", bind="query-params",
        help="Shows the misleading comparison first, then adds the controls one by one.",
    )  # fmt: skip
    if not stepwise:
        return "shuffle"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        step = cast(
            Step,
            st.radio("Shown", _ORDER, format_func=_LABELS.get, key="step", bind="query-params", horizontal=True),
        )
        position = _ORDER.index(step)
        for label, move, key in (("Remove a control", -1, "PageUp"), ("Add a control", 1, "PageDown")):
            target = position + move
            st.button(
                label, key=f"steps-{key}", shortcut=key if presenting else None,
                disabled=not 0 <= target < len(_ORDER),
                on_click=_show, args=(_ORDER[max(0, min(target, len(_ORDER) - 1))],),
            )  # fmt: skip
    return step


def _show(step: Step) -> None:
    st.session_state["step"] = step


def choose_settings(everything: Descriptor) -> tuple[Settings, Descriptor]:
    """Width, epochs, weight decay and initialisations, and the chosen columns of what the run has."""
    width = st.select_slider("Hidden units", _WIDTHS, 16, key="width", bind="query-params")
    epochs = st.select_slider("Epochs", _EPOCHS, 200, key="epochs", bind="query-params")
    decay = st.select_slider("Weight decay", _DECAYS, "1e-4", key="decay", bind="query-params")
    inits = st.slider("Initialisations", 1, 10, 5, key="inits", bind="query-params")
    given = everything
    if everything.kind != "nothing":
        label = "Layers" if everything.kind == "routing" else "Columns"
        numbered = {f"{number} {name}": number for number, name in enumerate(everything.names, 1)}
        chosen = st.multiselect(label, numbered, key="inputs", bind="query-params", placeholder="all of them")
        given = everything.pick([numbered[name] for name in chosen])
    return Settings(int(width), int(epochs), float(decay), int(inits)), given


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
        labels = {plots.probe_label(probe, given.kind): probe for probe in result.groups}
        label = st.radio("Probe", labels, key="probe", bind="query-params", index=min(3, len(labels) - 1))
    groups = result.groups[labels[label]]
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
    view, n_runs = page.view, len(compute.pooled_runs(page.view))
    if not n_runs:
        page.text("No single model in this cache has a routing profile, so there is nothing to pool.")
        return
    label = f"Audit all {n_runs} runs" if n_runs > 1 else "Audit this run"
    found = long_work("sweep", compute.pooled(view, settings), label=label, start=False)
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
