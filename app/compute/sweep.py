"""What the engine says about the whole cache, computed once for all viewers. Objects are shared: do not change them."""

import pandas as pd

from app.compute.jobs import Work, awaited
from app.compute.keep import keep
from app.compute.overview import CacheSummary, summarise
from app.state.view import View
from engine.core.types import Progress
from engine.gaps.settings import MIN_SUPPORT, TestSettings
from engine.sweep import DEFAULT_FEATURE, diagnose
from engine.verdict.answers import SWEEP, TOGETHER


def is_usual(feature: str, min_support: int) -> bool:
    """Whether the answer may be stored with the cache."""
    return (feature, min_support) == (DEFAULT_FEATURE, MIN_SUPPORT)


def diagnosis(view: View, feature: str, min_support: int) -> Work[pd.DataFrame]:
    """The protocol over every run of the cache, one row per run, all samples."""
    cache, n_runs = view.cache, len(view.runs)

    def compute(progress: Progress) -> pd.DataFrame:
        def report(share: float, _run_id: str) -> None:
            progress(share, f"testing every run: {round(share * n_runs)} of {n_runs}")

        return diagnose(cache, feature_name=feature, settings=TestSettings(min_support=min_support), progress=report)

    stored = (lambda: SWEEP.read(cache)) if is_usual(feature, min_support) else lambda: None
    return Work(("diagnosed", feature, min_support), view.kept_by, compute, stored)


def diagnosed(view: View, feature: str, min_support: int) -> pd.DataFrame:
    """The protocol over every run of the cache; waited for with a bar."""
    return awaited(diagnosis(view, feature, min_support), whole_cache=True)


@keep(max_entries=16, by=lambda view, _rows: (view.selection.feature, view.selection.protocol.min_support))
def _summary(view: View, rows: pd.DataFrame) -> CacheSummary:
    usual = is_usual(view.selection.feature, view.selection.protocol.min_support)
    return summarise(rows, view.runs, view.feature_label, TOGETHER.read(view.cache) if usual else None)


def summary(view: View) -> CacheSummary:
    """Everything that the Overview and Sweep pages show, for the chosen feature and minimum support."""
    return _summary(view, diagnosed(view, view.selection.feature, view.selection.protocol.min_support))
