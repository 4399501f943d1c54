"""From one page to another with boxes turned on the way: before anything is drawn, when both can still be changed.

Imports nothing heavy.
"""

from typing import Any, NoReturn

import streamlit as st

from app.registry import page_for
from app.shell.presenter import presenting

_TO, _BOXES = "routecal-to", "routecal-boxes"


def move(page: str, boxes: dict[str, Any]) -> NoReturn:
    """Open a page with these values in its boxes; the browser's Back leads to where it was."""
    st.session_state[_TO], st.session_state[_BOXES] = page, boxes
    st.rerun()


def follow() -> None:
    """First of all in a script: go where a click has led."""
    page = st.session_state.pop(_TO, None)
    if page is not None:
        st.switch_page(page_for(page).script, query_params={"present": "1"} if presenting() else {})


def turned() -> dict[str, Any]:
    """The boxes to turn, once."""
    boxes: dict[str, Any] = st.session_state.pop(_BOXES, {})
    return boxes
