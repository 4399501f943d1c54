"""The paper's numbers and what this cache has beside them. Objects are shared: do not change them."""

from typing import Any

import pandas as pd
import streamlit as st

from app.compute.jobs import Work, awaited, jobs
from app.compute.keep import keep
from app.compute.sweep import diagnosed
from app.state.view import View
from engine.core.types import Progress, part_of
from engine.gaps.settings import MIN_SUPPORT
from engine.paper import SOURCES, Evidence, Reading, build, conclude, single_runs
from engine.paper.claims import ClaimResult, audit
from engine.sweep import DEFAULT_FEATURE, single_models


@st.cache_resource(show_spinner="Recomputing the paper's statements")
def claims() -> list[ClaimResult]:
    """Every checkable statement of the paper, recomputed from its own tables."""
    return audit()


@keep(max_entries=4)
def _single_runs(view: View) -> pd.DataFrame:
    return single_runs(view.runs)


def evidence(view: View) -> Evidence:
    """What is known of the cache by now: quick sources, and the long ones that some viewer has asked for."""
    # The source "gaps" over the paper's own settings, which the Overview has mostly computed already.
    gaps = single_models(diagnosed(view, DEFAULT_FEATURE, MIN_SUPPORT))
    quick = {name: awaited(source(view, name), whole_cache=True) for name in ("routing", "ensembles")}
    asked = {name: jobs().find(source(view, name)) for name in SOURCES}
    known = {name: found for name, found in asked.items() if found is not None}
    return Evidence(_single_runs(view), {"gaps": gaps} | quick | known)


@keep(max_entries=16, by=lambda _view, known: tuple(known.found))
def conclusions(_view: View, known: Evidence) -> list[Reading]:
    """What the cache says about every conclusion of the paper, as far as it is known."""
    return conclude(known)


@keep(max_entries=64, by=lambda _view, _known, name, cell: (name, cell))
def counterpart(_view: View, known: Evidence, name: str, cell: str) -> pd.DataFrame:
    """A published table made of this cache, once its sources are known; raises `NoCounterpart` where there is none."""
    return build(name, known, cell)


def source(view: View, name: str) -> Work[Any]:
    """The computation of a long source."""
    cache, runs, entry = view.cache, _single_runs(view), SOURCES[name]

    def compute(progress: Progress) -> Any:
        return entry.compute(cache, runs, part_of(progress, 0, 1, f"{entry.label}: "))

    return Work((name, "of the paper"), view.kept_by, compute)
