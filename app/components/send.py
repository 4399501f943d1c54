"""The buttons that make a report to send."""

from __future__ import annotations

import streamlit as st

from app.components.long_work import long_work
from app.loaders import reports
from app.view import View

_SAYS = (
    "One file that works offline and prints well: verdicts, figures, tables, methods and provenance, without names of "
    "people, machines or folders."
)


def offer_cache_report(view: View) -> None:
    """Make a report of the whole cache, with progress; then hand it over."""
    st.caption(f"{_SAYS} One run of each cell is shown in detail, which takes a few seconds each.")
    made = long_work(
        "report",
        reports.report_key(view),
        lambda progress: reports.cache_report(view, progress),
        label="Make a report to send",
        start=False,
    )
    if made is not None:
        st.download_button(
            "Save the report", made.html, "routecal-report.html", "text/html", key="report-save", on_click="ignore"
        )


def offer_run_report(view: View) -> None:
    """A report with the chosen run in detail; nothing is computed before the button is pressed."""
    st.download_button(
        "Report on this run",
        lambda: reports.run_report(view).html(),
        f"routecal-report-{view.selection.run_id}.html",
        "text/html",
        key="report-run",
        on_click="ignore",
        help=f"{_SAYS} All samples of the run, whatever slice is chosen. Takes a few seconds.",
    )
