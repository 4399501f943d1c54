"""A routing scalar of the viewer's own: which layers, which summary of them, times confidence or not."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.wording import plain
from engine.features import CustomFeature

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
