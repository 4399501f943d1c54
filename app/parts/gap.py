"""The verdict on a selection as pages show it: at once, and with its controls when these are simulated."""

import streamlit as st

from app.compute import gap as compute
from app.shell.long_work import long_work
from app.state.selection import N_SIMULATIONS
from app.state.view import View
from engine.verdict import Verdict

MOST_BY_ITSELF = 200_000
"""Samples of which simulations start by themselves; of more they take minutes, and wait for a button."""


def verdict(view: View, n_simulations: int = N_SIMULATIONS) -> Verdict:
    """The stored verdict, or that of a what-if: without controls as long as they are simulated, behind a bar."""
    work = compute.checked(view, n_simulations)
    few = view.n_samples <= MOST_BY_ITSELF
    with st.container():  # with one bar or two, or none: a control that moves is no longer in the address
        found = long_work("verdict", work, label="Simulate the controls of this answer", start=few)
        return found or compute.judged(view)
