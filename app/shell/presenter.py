"""Presenter mode (?present=1): large type, no sidebar, next and previous page by keyboard."""

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import StreamlitPage

_STYLE = """<style>
[data-testid="stSidebar"], [data-testid="stSidebarCollapsedControl"], [data-testid="stHeader"] { display: none; }
html { font-size: 125%; }
[data-testid="stMainBlockContainer"] { padding-top: 1.5rem; max-width: 100%; }
</style>"""


def presenting() -> bool:
    """Whether the page was opened with ?present=1."""
    return st.query_params.get("present") == "1"


def present(current: StreamlitPage, pages: Sequence[StreamlitPage]) -> None:
    """Hide what a room does not need and add the two buttons; ctrl + left / right press them."""
    st.html(_STYLE)
    # The first page has a second address, which is not in the list.
    position = next((index for index, page in enumerate(pages) if page.url_path == current.url_path), 0)
    with st.container(horizontal=True, vertical_alignment="center"):
        back = st.button("Previous", shortcut="ctrl+left", disabled=position == 0)
        onward = st.button("Next", shortcut="ctrl+right", disabled=position == len(pages) - 1)
        st.caption(f"{position + 1} of {len(pages)}: {pages[position].title}", width="content")
    if back or onward:
        st.switch_page(pages[position + (1 if onward else -1)], query_params={"present": "1"})
