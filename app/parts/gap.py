"""The verdict on a selection as pages show it, at once or with simulated controls, and the paper's first table."""

import pandas as pd
import streamlit as st

from app.compute import gap as compute
from app.shell.long_work import long_work
from app.shell.page import Page
from app.state.selection import N_SIMULATIONS
from app.state.view import View
from engine.verdict import Verdict

MOST_BY_ITSELF = 200_000
"""Samples of which simulations start by themselves; of more they take minutes, and wait for a button."""
_TABLE1 = {
    "max_gap": "Largest gap", "max_ci": "Largest, 95 %", "weighted_gap": "Weighted gap", "ci": "Weighted, 95 %",
    "bins": "Bins shared", "support": "Support min/q25/median", "null": "Null 97.5 %", "p": "Exact p",
}  # fmt: skip


def verdict(view: View, n_simulations: int = N_SIMULATIONS) -> Verdict:
    """The stored verdict, or that of a what-if: without controls as long as they are simulated, behind a bar."""
    work = compute.checked(view, n_simulations)
    if work.id not in view.known:
        few = view.n_samples <= MOST_BY_ITSELF
        with st.container():  # with one bar or two, or none: a control that moves is no longer in the address
            name = f"verdict{view.of}"
            found = long_work(name, work, label="Simulate the controls of this answer", start=few)
            view.known[work.id] = found or compute.judged(view)
    result: Verdict = view.known[work.id]
    return result


def table1(page: Page) -> None:
    """The gaps with their intervals, support and exact p."""
    found = verdict(page.view)
    test, gap = found.paper, found.paper.gap
    if gap.max_gap is None:
        page.text("No bin holds enough samples of both outer thirds.")
        return
    low, quarter, middle = gap.support
    row = {
        "max_gap": gap.max_gap, "max_ci": "[{:.3f}, {:.3f}]".format(*found.gap.max_gap_ci),
        "weighted_gap": gap.weighted_gap, "ci": "[{:.3f}, {:.3f}]".format(*found.gap.weighted_gap_ci),
        "bins": f"{gap.n_shared}/{gap.n_bins}", "support": f"{low:.0f}/{quarter:.0f}/{middle:.0f}",
        "null": test.null.percentiles[2], "p": test.p_value,
    }  # fmt: skip
    formats = {"max_gap": "%.3f", "weighted_gap": "%.3f", "null": "%.3f", "p": "p"}
    page.table(pd.DataFrame([row]), "table1", names=_TABLE1, formats=formats)
