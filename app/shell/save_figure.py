"""A figure of the page as a file for a paper."""

import hashlib

import plotly.graph_objects as go
import streamlit as st

from app.compute.jobs import Work
from app.export.browser import KINDS, WIDTHS, NoBrowser, figure_file, find_browser
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from engine.core.types import Progress


@fragment
def offer_figures(name: str, fingerprint: str, figures: dict[str, go.Figure]) -> None:
    """Choose one by what it shows, a format and a width; the browser of this machine then draws it.

    name : of the page. figures : by what they show.
    """
    place = st.popover("Save a figure", key="save-figure", on_change="rerun")
    if not place.open or not figures:  # nothing is prepared before somebody asks
        return
    with place:
        try:
            browser = find_browser("The file")
        except NoBrowser:
            st.caption("PNG and PDF need Chromium on the server. The camera button of each figure saves SVG.")
            return
        shown = st.selectbox("Figure", figures, key="save-figure-which")
        kind = st.radio("Format", list(KINDS), horizontal=True, key="save-figure-kind")
        width = st.selectbox("Width", list(WIDTHS), key="save-figure-width")
        figure = figures[shown]

        def compute(progress: Progress) -> bytes:
            progress(0.0, "drawing the figure")
            return figure_file(figure, kind, WIDTHS[width], browser)

        drawn = hashlib.sha256(figure.to_json().encode()).hexdigest()
        made = long_work(
            "save-figure", Work(("figure", drawn, kind, width), fingerprint, compute), label="Create", start=False
        )
        if made is not None:
            file = f"routecal-{name}.{kind.lower()}"
            st.download_button("Save", made, file, KINDS[kind], key="save-figure-save", on_click="ignore")
