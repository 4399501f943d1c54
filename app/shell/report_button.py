"""The buttons that make a report to send."""

import streamlit as st

from app.compute.jobs import Work, within_a_job
from app.compute.sweep import diagnosis
from app.report import Report, Settings, build_report
from app.shell.long_work import long_work
from app.state.view import View
from engine.core.types import Progress

_SAYS = (
    "One file for offline reading and printing: verdicts, figures, tables, methods and provenance, without names of "
    "people, machines or folders."
)


def offer_cache_report(view: View) -> None:
    """Make a report of the whole cache, with progress; then hand it over."""
    st.caption(f"{_SAYS} One run of each cell is shown in detail, which takes a few seconds each.")
    made = long_work("report", _report(view), label="Create a report", start=False)
    if made is not None:
        _hand_over("report", made, "routecal-report.html")


def offer_run_report(view: View) -> None:
    """A report with the chosen run in detail among all; nothing is computed before the button is pressed."""
    run_id = view.selection.run_id
    made = long_work(
        "report-run",
        _report(view, run_id),
        label="Report on this run",
        hint=f"{_SAYS} All samples of the run, whatever slice is chosen, among all runs of the cache.",
        start=False,
    )
    if made is not None:
        _hand_over("report-run", made, f"routecal-report-{run_id}.html")


def _hand_over(name: str, made: Report, file: str) -> None:
    st.download_button("Save the report", made.html, file, "text/html", key=f"{name}-save", on_click="ignore")


def _report(view: View, *run_ids: str) -> Work[Report]:
    """The whole cache with these runs in detail, or without any one of each cell.

    Every run is tested for it, unless the Overview or another report has done so.
    """
    cache, settings = view.cache, Settings(view.selection.feature, view.selection.protocol.min_support)
    rows = within_a_job(diagnosis(view, settings.feature, settings.min_support))

    def compute(progress: Progress) -> Report:
        return build_report(cache, run_ids, settings, diagnosis=rows, progress=progress)

    return Work(("report", settings, run_ids), view.kept_by, compute)
