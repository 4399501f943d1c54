"""Presenter mode (?present=1): large type, no sidebar, next and previous page by keyboard."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st
from streamlit.navigation.page import StreamlitPage

_STYLE = """<style>
[data-testid="stSidebar"], [data-testid="stSidebarCollapsedControl"], [data-testid="stHeader"] { display: none; }
html { font-size: 125%; }
[data-testid="stMainBlockContainer"] { padding-top: 1.5rem; max-width: 100%; }
</style>"""


def present(current: StreamlitPage, pages: Sequence[StreamlitPage]) -> None:
    """Hide what a room does not need and add the two buttons; ctrl + left / right press them."""
    st.html(_STYLE)
    position = next(index for index, page in enumerate(pages) if page.url_path == current.url_path)
    left, right, place = st.columns([1, 1, 6])
    if left.button("Previous", shortcut="ctrl+left", disabled=position == 0, width="stretch"):
        st.switch_page(pages[position - 1], query_params={"present": "1"})
    if right.button("Next", shortcut="ctrl+right", disabled=position == len(pages) - 1, width="stretch"):
        st.switch_page(pages[position + 1], query_params={"present": "1"})
    place.caption(f"{position + 1} of {len(pages)}: {pages[position].title}")
