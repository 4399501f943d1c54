"""How the probes are trained and which layers they see, beside the figure that it changes."""

from __future__ import annotations

import streamlit as st

from app.compute.probes import Settings
from engine.probes import Descriptor

_WIDTHS, _EPOCHS = (1, 2, 4, 8, 16, 32, 64), (25, 50, 100, 200, 400, 800)
_DECAYS = ("0", "1e-5", "1e-4", "1e-3", "1e-2", "1e-1")


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
