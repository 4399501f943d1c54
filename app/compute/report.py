"""Reports to send, made once for all viewers."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from app.compute.jobs import within_a_job
from app.compute.sweep import diagnosis
from app.report import Report, Settings, build_report
from app.state.view import View
from engine.core.types import Progress


def report_work(view: View, *run_ids: str) -> tuple[Hashable, Callable[[Progress], Report]]:
    """The whole cache with these runs in detail, or without any one of each cell, for `long_work`.

    Every run is tested for it, unless the Overview or another report has done so.
    """
    cache, settings = view.cache, Settings(view.selection.feature, view.selection.protocol.min_support)
    rows = within_a_job(*diagnosis(view, settings.feature, settings.min_support))

    def compute(progress: Progress) -> Report:
        return build_report(cache, run_ids, settings, diagnosis=rows, progress=progress)

    return ("report", cache.fingerprint, settings, run_ids), compute
