"""Parts of the Paper page: published tables beside this cache, the paper's statements, and its conclusions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd
import streamlit as st

from app.compute import paper as compute
from app.shell.fragment import fragment
from app.shell.long_work import long_work
from app.shell.page import Page
from app.shell.wording import typeset
from app.state.view import CacheView, View
from engine.core.labels import BACKBONES, DATASETS, capital, counted, is_ensemble
from engine.paper import COUNTERPARTS, FURTHER, SOURCES, Evidence, Reading, counterparts
from engine.paper import claims as audit
from engine.paper.claims import ClaimResult
from engine.paper.conclusions import as_frame
from engine.paper.published import TABLES

_MARKS = {"supported": "●", "not supported": "○", "not answerable": "–", "not computed": "…"}
NEAREST = "the cell closest to the paper's"


@dataclass(frozen=True, eq=False)
class PublishedView(CacheView):
    """The whole cache under the paper's own protocol: nothing in the sidebar but the cache applies."""

    heeds: ClassVar[tuple[str, ...] | None] = ()

    def caption(self) -> str:
        n = int((~is_ensemble(self.runs["suite"])).sum())
        return (
            f"whole cache: {counted(n, 'run')}, ensembles left out · the paper's own protocol: gaps by mean "
            "routing entropy, AR-CondCal on its spread over depth · Only the cache setting in the sidebar affects this "
            f"page · cache {self.cache.fingerprint}"
        )


def quantities(paper: pd.DataFrame) -> list[str]:
    """Columns that can be drawn: numbers throughout, and not the ends of an interval or the number of all bins."""
    words = set(paper.loc[paper["value"].isna() & (paper["printed"] != ""), "column"])
    skipped = (" CI low", " CI high", "Total bins")
    return [column for column in dict.fromkeys(paper["column"]) if not column.endswith(skipped) and column not in words]


def own_column(own: pd.DataFrame, quantity: str) -> str:
    """The same column of the counterpart; where its columns are cells of this cache, the first of the same metric."""
    columns = list(dict.fromkeys(own["column"]))
    if quantity in columns:
        return quantity
    metrics = ("Worst-tertile ECE", "AdaECE", "ECE")
    wanted = next((metric for metric in metrics if quantity.endswith(f" {metric}")), "")
    return next((column for column in columns if column.endswith(f" {wanted}" if wanted else "")), columns[0])


def _names(values: pd.Series, names: dict[str, str]) -> str:
    return ", ".join(names.get(value, value) for value in dict.fromkeys(values))


def _span(values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def differences(table: str, evidence: Evidence) -> str:
    """Why the numbers differ: what the paper shows, what this cache holds, and what is computed otherwise."""
    runs = evidence.runs
    epochs = runs["epoch"].dropna()
    trained = f", {_span(epochs)} epochs" if len(epochs) else ""
    here = (
        f"{_names(runs['backbone'], BACKBONES)} on {_names(runs['dataset'], DATASETS)}{trained}, "
        f"{_span(runs['n_samples'])} samples a run"
    )
    text = (
        f"Models and data differ from the paper's; compare patterns, not values. In the paper: "
        f"{TABLES[table].caption} In this cache: {here}."
    )
    otherwise = COUNTERPARTS[table].otherwise if table in COUNTERPARTS else ""
    return text + (f" Computed here: {otherwise}." if otherwise else "")


def filtered(claims: pd.DataFrame, outcome: str, topic: str, words: str) -> pd.DataFrame:
    """The statements of one outcome and topic ("all" for any) that contain some words, whatever their case."""
    kept = claims["key"].notna()
    if outcome != "all":
        kept &= claims["outcome"] == outcome
    if topic != "all":
        kept &= claims["topic"] == topic
    texts = claims[["claim", "where", "stated", "recomputed", "how"]].agg(" ".join, axis=1).str.lower()
    return claims[kept & texts.str.contains(words.strip().lower(), regex=False)]


def ask(view: View, known: Evidence, sources: Iterable[str], place: str, *, start: bool) -> Evidence:
    """The evidence with these sources; up to the first that is not there yet, whose progress is then drawn."""
    found = dict(known.found)
    for name in sources:
        if name not in found:
            label = f"Compute: {SOURCES[name].label}"
            result = long_work(f"{place}-{name}", compute.source(view, name), label=label, start=start)
            if result is None:
                break
            found[name] = result
    return Evidence(known.runs, found)


@fragment
def list_statements(page: Page, claims: list[ClaimResult]) -> None:
    """All of them to filter; the filters redraw this part only."""
    first, second, third = st.columns(3)
    outcome = first.selectbox("Outcome", ["all", *audit.OUTCOMES], key="claim", bind="query-params")
    topics = list(dict.fromkeys(result.topic for result in claims))
    topic = second.selectbox("Topic", ["all", *topics], key="topic", bind="query-params")
    words = third.text_input("Contains", key="words", bind="query-params")
    frame = filtered(audit.as_frame(claims), outcome, topic, words)
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
    """Each with its outcome and the numbers behind it, those of the paper first, then as a table."""
    for added in (False, True):
        if added:
            page.heading("Also checked")
        for reading in readings:
            if reading.added == added:
                with st.container(gap="xxsmall"):
                    page.text(f"{_MARKS[reading.outcome]} {reading.claim}: {reading.outcome}")
                    page.caption(f"{capital(reading.found)} ({reading.where})")
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


def show_cells(page: Page, cells: pd.DataFrame) -> None:
    """The propositions and the rule fixed in advance as numbers of each cell."""
    page.heading("The paper's propositions and its rule, by cell")
    page.caption(f"{capital(FURTHER['by_cell'].otherwise)}.")
    columns = dict.fromkeys(cells["column"])
    style = {column: ".3f" if column in ("Blind spot", "Gap kept") else ".2f" for column in columns}
    wide = counterparts.wide(cells, style).map(typeset)
    page.table(wide, "cells", names={column: column for column in wide} | {"row": "Cell"})
