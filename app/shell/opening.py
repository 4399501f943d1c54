"""The first sign of a page: the product, the paper, the page's question and a bar, sent before anything is imported.

Imports nothing heavy, so that the first visitor of a server sees it while the statistics are being loaded.
"""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.registry import PAPER_LINK, PAPER_TITLE, PageEntry

_BAR, _OPENED, _LINK = "routecal-opening", "routecal-opened", "routecal-link"
_STYLE = """<style>
[data-testid="stMainBlockContainer"] { padding-top: 1.1rem; padding-bottom: 2rem; }
@media (min-width: 640px) { [data-testid="stMainBlockContainer"] { padding-left: 3rem; padding-right: 3rem; } }
[data-testid="stHeader"] { background: transparent; pointer-events: none; }
[data-testid="stHeader"] * { pointer-events: none; }
[data-testid="stHeader"] :is(button, a, input, button *, a *) { pointer-events: auto; }
h1 { font-size: 1.7rem !important; padding: 0 !important; }
h3 { font-size: 1.2rem !important; padding: 0.3rem 0 !important; }
[data-testid="stCaptionContainer"] { color: inherit; opacity: 0.78; }
[data-testid="stMetricValue"] { font-size: 1.5rem; }
@media (hover: none) { .modebar-container { display: none; } }
.st-key-wide { overflow-x: auto; }
@media (max-width: 640px) { .st-key-wide > * { min-width: 660px; } }
.st-key-opening:not(:has([data-testid="stProgress"])) { display: none; }
.st-key-question { margin-bottom: -0.4rem; }
.st-key-brand { font-size: 0.875rem; padding-right: 2.5rem; }
@media (max-width: 768px) { .st-key-brand { padding-left: 2.2rem; } }
</style>"""
_BRAND = (
    f'<strong>RouteCal</strong> audits <a href="{PAPER_LINK}" target="_blank" style="color: inherit">{PAPER_TITLE}</a> '
    "(arXiv 2605.09850)"
)


def begin_opening(entry: PageEntry) -> None:
    """Product, paper and title; on a viewer's first page also a bar, as the browser has nothing else to show yet."""
    st.html(_STYLE)
    with st.container(key="brand", horizontal=True, vertical_alignment="center"):
        st.html(_BRAND)
        st.session_state[_LINK] = st.container(width="content")
    with st.container(key="question"):
        st.title(entry.question, anchor=False)
    # With or without a bar: a control that moves is no longer in the address.
    place = st.container(key="opening").empty()
    if _OPENED not in st.session_state:
        place.progress(0.0, "opening the page")
        st.session_state[_BAR] = place


def link_place() -> DeltaGenerator:
    """The place in the head for the link to the view, which is known last."""
    return st.session_state[_LINK]


def end_opening() -> None:
    """The page has what it needs, or says what it lacks."""
    place = st.session_state.pop(_BAR, None)
    if place is not None:
        place.empty()
    st.session_state[_OPENED] = True
