"""The lower parts of the Paper page: the paper's statements, and what this cache says about its conclusions."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.parts import paper_tables as tables
from app.plots import paper as plots
from app.shell.fragment import fragment
from app.shell.page import Page
from engine.paper import Reading
from engine.paper import claims as audit
from engine.paper.claims import ClaimResult
from engine.paper.conclusions import as_frame

_MARKS = {"supported": "●", "not supported": "○", "not answerable": "–"}


def show_statements(page: Page, claims: list[ClaimResult]) -> None:
    """How they fare by topic, and all of them to filter."""
    page.heading("Does the paper add up?")
    page.figure(plots.claims_by_topic(claims, page.theme), "claims", alt="Statements that agree and differ, by topic")
    _listed(page, claims)


@fragment
def _listed(page: Page, claims: list[ClaimResult]) -> None:
    """The filters redraw this part only."""
    first, second, third = st.columns(3)
    outcome = first.selectbox("Outcome", ["all", *audit.OUTCOMES], key="claim", bind="query-params")
    topics = list(dict.fromkeys(result.topic for result in claims))
    topic = second.selectbox("Topic", ["all", *topics], key="topic", bind="query-params")
    words = third.text_input("Contains", key="words", bind="query-params")
    frame = tables.filtered(audit.as_frame(claims), outcome, topic, words)
    st.caption(f"{len(frame)} of {len(claims)} statements")
    page.table(
        frame,
        "claims",
        names={
            "outcome": "Outcome", "claim": "Statement, in our words", "stated": "Stated", "recomputed": "Recomputed",
            "where": "Where", "how": "How compared",
        },
        widths={"outcome": 100, "claim": 260, "stated": 130, "recomputed": 230, "where": 140, "how": 280},
    )  # fmt: skip


def show_conclusions(page: Page, readings: Sequence[Reading]) -> None:
    """Each with its outcome and the numbers behind it, then as a table."""
    for reading in readings:
        with st.container(gap="xxsmall"):
            page.text(f"{_MARKS[reading.outcome]} {reading.claim}: {reading.outcome}")
            page.caption(f"{reading.found} ({reading.where})")
    with st.expander("As a table"):
        page.table(
            as_frame(readings),
            "conclusions",
            names={
                "outcome": "This cache", "claim": "Conclusion, in our words", "found": "Its own numbers",
                "where": "Where", "rule": "Supported if",
            },
            widths={"outcome": 110, "claim": 220, "found": 320, "where": 120, "rule": 260},
        )  # fmt: skip
