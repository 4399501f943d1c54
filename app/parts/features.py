"""A routing scalar of the viewer's own, which layers, which summary of them, and the scalars that it competes with."""

from collections.abc import Sequence

import pandas as pd
import streamlit as st

from app.shell.page import Page
from app.shell.wording import plain
from engine.features import CustomFeature
from engine.features.search import FeatureSearch

SUMMARIES = {
    "std": "spread",
    "mean": "mean",
    "max": "largest",
    "min": "smallest",
    "range": "range",
    "first": "first layer",
    "last": "last layer",
    "slope": "slope over depth",
}


def build_feature(names: Sequence[str]) -> CustomFeature | None:
    """Draw the controls for a profile with these layers; None while no layer is chosen."""
    numbers = list(range(1, len(names) + 1))
    listed = "  \n".join(f"{number}: {plain(name)}" for number, name in zip(numbers, names, strict=True))
    # Options differ from run to run: a key of their own keeps one run's layers from being forced on another.
    layers = st.pills(
        "Layers", numbers, selection_mode="multi", default=numbers, key=f"layers{len(numbers)}", bind="query-params",
        wrap=True, help=f"From the first layer to the last:  \n{listed}",
    )  # fmt: skip
    single = len(layers) == 1
    summary = st.selectbox(
        "Summary", list(SUMMARIES), format_func=SUMMARIES.__getitem__, key="summary", bind="query-params",
        disabled=single, help="How the chosen layers become one number. A single layer is taken as it is.",
    )  # fmt: skip
    times_confidence = st.toggle("Times confidence", key="times", bind="query-params")
    if not layers:
        return None
    return CustomFeature(tuple(sorted(layers)), "mean" if single else summary, times_confidence)


def list_candidates(page: Page, named: pd.DataFrame | None, own: pd.DataFrame | None = None) -> None:
    """The features that the run has, and the viewer's own as soon as there is something to say about it."""
    if named is None:
        return
    table = named if own is None else pd.concat([named, own], ignore_index=True)
    page.text(
        f"Features that this run has{'' if own is None else ', and yours'}: two tests on the samples chosen, and "
        "three scores of AR-CondCal with each on the held-out half (ECE overall and in the worst tertile, NLL).",
        "candidates",
    )
    page.table(
        table,
        "candidates",
        names={
            "label": "Scalar", "max_gap": "Largest gap", "paper_p": "p, paper's", "verdict_p": "p, verdict",
            "ece": "ECE", "worst_tertile_ece": "Worst tertile", "nll": "NLL",
        },
        formats={
            "max_gap": "%.3f", "paper_p": "p", "verdict_p": "p", "ece": "%.4f",
            "worst_tertile_ece": "%.4f", "nll": "%.4f",
        },
    )  # fmt: skip
    if table.isna().to_numpy().any():
        page.text(
            "A dash stands where the run lacks logits for AR-CondCal, where no confidence bin holds "
            "enough samples of both outer thirds, or (verdict) where there are too few samples to match confidence.",
            "gaps",
        )


def list_search(page: Page, found: FeatureSearch, test: str) -> None:
    """Every scalar of the search, the best by this test first."""
    page.table(
        found.table.sort_values(test),
        "search",
        names={
            "label": "Scalar", "verdict": "p, verdict", "verdict_holm": "Holm, verdict", "paper": "p, paper's",
            "paper_holm": "Holm, paper's",
        },
        formats=dict.fromkeys(("verdict", "verdict_holm", "paper", "paper_holm"), "p"),
    )  # fmt: skip
