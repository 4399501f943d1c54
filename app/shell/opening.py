"""The first sign of a page: its question and a bar, sent before anything is imported, opened or read.

Imports nothing heavy, so that the first visitor of a server sees it while the statistics are being loaded.
"""

import streamlit as st

from app.registry import PageEntry

_BAR, _OPENED = "routecal-opening", "routecal-opened"


def begin_opening(entry: PageEntry) -> None:
    """The title; on a viewer's first page also a bar, as the browser has nothing else to show yet."""
    with st.container(key="question"):
        st.title(entry.question)
    # With or without a bar: a control that moves is no longer in the address.
    place = st.container(key="opening").empty()
    if _OPENED not in st.session_state:
        place.progress(0.0, "opening the page")
        st.session_state[_BAR] = place


def end_opening() -> None:
    """The page has what it needs, or says what it lacks."""
    place = st.session_state.pop(_BAR, None)
    if place is not None:
        place.empty()
    st.session_state[_OPENED] = True
