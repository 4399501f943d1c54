"""Of the runs of a large cache those that are looked for, some cells at a time."""

import pandas as pd
import streamlit as st

from app.compute.overview import OUTCOMES, pages_of_cells, searched

MOST_RUNS = 120
"""More than these would make figures of many screens."""
_ALL = "all"


def choose_part(rows: pd.DataFrame, key: str) -> pd.DataFrame:
    """The runs to draw: all of a few; of many a page of whole cells among those found. `rows` are named, one a run."""
    if len(rows) <= MOST_RUNS:
        return rows
    with st.container(horizontal=True, vertical_alignment="bottom", key=f"{key}-part"):
        words = st.text_input(
            "Search", key=f"{key}-search", bind="query-params", placeholder="words of a run's name", width=260
        )
        names = [_ALL, *rows["dataset_name"].unique()]
        dataset = st.selectbox("Data set", names, key=f"{key}-data", bind="query-params", width=200)
        outcome = st.selectbox("Outcome", list(OUTCOMES), key=f"{key}-outcome", bind="query-params", width=240)
        found = searched(rows, words or "", "" if dataset == _ALL else dataset, outcome)
        pages = pages_of_cells(found, MOST_RUNS)
        n_pages = int(pages.max()) if len(pages) else 1
        if st.session_state.get(f"{key}-page", 1) > n_pages:  # fewer were found than before
            st.session_state[f"{key}-page"] = n_pages
        page = st.number_input("Page", 1, n_pages, key=f"{key}-page", bind="query-params", width=120)
    cells = f"{found['cell'].nunique():,} of {rows['cell'].nunique():,} cells"
    st.caption(f"{cells} hold such a run ({len(found):,} of {len(rows):,} runs); page {page} of {n_pages}.")
    return found[pages == page]
