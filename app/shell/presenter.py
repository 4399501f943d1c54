"""Presenter mode (?present=1): large type, no sidebar, next and previous page by keyboard."""

from collections.abc import Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import StreamlitPage

_STYLE = """<style>
[data-testid="stSidebar"], [data-testid="stSidebarCollapsedControl"], [data-testid="stHeader"] { display: none; }
html { font-size: 125%; }
[data-testid="stMainBlockContainer"] { max-width: 100%; }
</style>"""


def presenting() -> bool:
    """Whether the page was opened with ?present=1."""
    return st.query_params.get("present") == "1"


_PICKER = "routecal-picker"
_KEYS = (
    "`ctrl` + `←` `→` previous and next page  \n`tab` to the next control, arrow keys move it  \n"
    "`page up`, `page down` in the Probe audit: a control less or more"
)


def picker() -> DeltaGenerator:
    """Where the run, feature and settings are chosen: the sidebar, or the bar of a presenter."""
    return st.session_state[_PICKER] if presenting() else st.sidebar


def present(current: StreamlitPage, pages: Sequence[StreamlitPage]) -> None:
    """Hide what a room does not need and add the two buttons; ctrl + left / right press them."""
    st.html(_STYLE)
    # The first page has a second address, which is not in the list.
    position = next((index for index, page in enumerate(pages) if page.url_path == current.url_path), 0)
    with st.container(horizontal=True, vertical_alignment="center"):
        back = st.button("Previous", shortcut="ctrl+left", disabled=position == 0)
        onward = st.button("Next", shortcut="ctrl+right", disabled=position == len(pages) - 1)
        st.caption(f"{position + 1} of {len(pages)}: {pages[position].title}", width="content")
        st.session_state[_PICKER] = st.popover("Run and feature")
        with st.popover("?"):
            st.markdown(_KEYS)
    if back or onward:
        st.switch_page(pages[position + (1 if onward else -1)], query_params={"present": "1"})
