"""Reports to send, made once for all viewers."""

from __future__ import annotations

from app.compute.jobs import Work, within_a_job
from app.compute.sweep import diagnosis
from app.report import Report, Settings, build_report
from app.state.view import View
from engine.core.types import Progress


def report(view: View, *run_ids: str) -> Work[Report]:
    """The whole cache with these runs in detail, or without any one of each cell.

    Every run is tested for it, unless the Overview or another report has done so.
    """
    cache, settings = view.cache, Settings(view.selection.feature, view.selection.protocol.min_support)
    rows = within_a_job(diagnosis(view, settings.feature, settings.min_support))

    def compute(progress: Progress) -> Report:
        return build_report(cache, run_ids, settings, diagnosis=rows, progress=progress)

    return Work(("report", settings, run_ids), view.fingerprint, compute)
