"""Small multiples: one reliability diagram beside the other."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.compute.figures import Diagram
from app.plots.reliability import diagram
from app.shell.page import Page

PER_ROW = 3


def small_multiples(page: Page, panels: Sequence[tuple[str, Diagram]], key: str) -> None:
    """Named diagrams, three to a row; columns of a narrow window stack by themselves."""
    for start in range(0, len(panels), PER_ROW):
        row = panels[start : start + PER_ROW]
        for offset, (column, (name, shown)) in enumerate(zip(st.columns(PER_ROW), row, strict=False)):
            title = f"{name}: ECE {shown.summary.ece:.3f}"
            with column:
                figure = diagram(shown.table, page.theme, title=title, height=300, small=True)
                page.figure(figure, f"{key}-{start + offset}", alt=f"Reliability diagram. {title}")
