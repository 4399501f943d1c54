"""What the engine says about the whole cache, computed once for all viewers. Objects are shared: do not change them."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import pandas as pd

from app.compute.jobs import awaited
from app.compute.keep import keep
from app.compute.overview import CacheSummary, summarise
from app.state.view import View
from engine.core.types import Progress
from engine.gaps.settings import TestSettings
from engine.sweep import diagnose


def diagnosis(view: View, feature: str, min_support: int) -> tuple[Hashable, Callable[[Progress], pd.DataFrame]]:
    """The protocol over every run of the cache, one row per run, all samples: its key and how to compute it."""
    cache, n_runs = view.cache, len(view.runs)

    def compute(progress: Progress) -> pd.DataFrame:
        def report(share: float, _run_id: str) -> None:
            progress(share, f"testing every run: {round(share * n_runs)} of {n_runs}")

        return diagnose(cache, feature_name=feature, settings=TestSettings(min_support=min_support), progress=report)

    return ("diagnosed", view.selection.fingerprint, feature, min_support), compute


def diagnosed(view: View, feature: str, min_support: int) -> pd.DataFrame:
    """The protocol over every run of the cache; waited for with a bar."""
    return awaited(*diagnosis(view, feature, min_support), whole_cache=True)


@keep(max_entries=16)
def _summary(fingerprint: str, feature: str, min_support: int, _rows: pd.DataFrame, _view: View) -> CacheSummary:  # noqa: ARG001
    return summarise(_rows, _view.runs, _view.feature_label)


def summary(view: View) -> CacheSummary:
    """Everything that the Overview and Sweep pages show, for the chosen feature and minimum support."""
    feature, min_support = view.selection.feature, view.selection.protocol.min_support
    rows = diagnosed(view, feature, min_support)
    return _summary(view.selection.fingerprint, feature, min_support, rows, view)
