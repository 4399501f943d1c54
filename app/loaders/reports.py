"""Reports to send, made once for all viewers."""

from __future__ import annotations

from collections.abc import Hashable

from app.loaders.memo import remember
from app.report import Report, Settings, build_report
from app.view import View
from engine.types import Progress


def _settings(view: View) -> Settings:
    return Settings(view.selection.feature, view.selection.protocol.min_support)


def report_key(view: View) -> Hashable:
    """All that a report of the whole cache depends on."""
    return ("report", view.cache.fingerprint, _settings(view))


def cache_report(view: View, progress: Progress) -> Report:
    """Every cell of the cache with one run in detail; for `long_work`, which remembers it."""
    return build_report(view.cache, settings=_settings(view), progress=progress)


def run_report(view: View) -> Report:
    """The chosen run in detail, among all runs."""
    run_id = view.selection.run_id
    return remember((report_key(view), run_id), lambda: build_report(view.cache, [run_id], _settings(view)))
