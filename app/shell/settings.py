"""What was chosen on a page besides the sidebar: there again when the page is opened again, on the same run."""

import streamlit as st

SIDEBAR = (
    "cache", "backbone", "data", "variant", "run", "with", "feature", "tertile", "predicted", "class", "outcome",
    "population", "band", "cells", "bins", "support", "outer",
)  # fmt: skip
"""Boxes that all pages share, which keep their values by themselves."""
_PAGE, _KEPT = "routecal-settings-of", "routecal-kept"


def bring_back(page: str, run_id: str) -> None:
    """Before the boxes of a page are drawn that was not the last one."""
    here = page, run_id
    if st.session_state.get(_PAGE) != here:
        st.session_state[_PAGE] = here
        st.session_state.update(st.session_state.setdefault(_KEPT, {}).get(here, {}))


def remember() -> None:
    """After a page or a part of it is drawn: what is chosen there, as far as it is not the default."""
    if _PAGE in st.session_state:
        chosen = [key for key in st.query_params if key in st.session_state and key not in SIDEBAR]
        st.session_state[_KEPT][st.session_state[_PAGE]] = {key: st.session_state[key] for key in chosen}
