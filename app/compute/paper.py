"""The paper's numbers and what this cache has beside them. Objects are shared: do not change them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pandas as pd
import streamlit as st

from app.compute.jobs import awaited, jobs
from app.compute.keep import keep
from app.compute.sweep import diagnosed
from app.state.view import View
from engine.core.types import Progress
from engine.gaps.settings import MIN_SUPPORT
from engine.paper import SOURCES, Evidence, Reading, build, conclude, single_runs
from engine.paper.claims import ClaimResult, audit
from engine.sweep import DEFAULT_FEATURE, single_models


@st.cache_resource(show_spinner="Recomputing the paper's statements")
def claims() -> list[ClaimResult]:
    """Every checkable statement of the paper, recomputed from its own tables."""
    return audit()


@keep(max_entries=4)
def _single_runs(fingerprint: str, _runs: pd.DataFrame) -> pd.DataFrame:  # noqa: ARG001  (part of the key)
    return single_runs(_runs)


def evidence(view: View) -> Evidence:
    """What is known of the cache by now: quick sources, and the long ones that some viewer has asked for."""
    runs = _single_runs(view.selection.fingerprint, view.runs)
    # The source "gaps" over the paper's own settings, which the Overview has mostly computed already.
    gaps = single_models(diagnosed(view, DEFAULT_FEATURE, MIN_SUPPORT))
    link = awaited(source_key(view, "error_link"), source_work(view, "error_link", runs), whole_cache=True)
    asked = {name: jobs().find(source_key(view, name)) for name in SOURCES}
    known = {name: found for name, found in asked.items() if found is not None}
    return Evidence(runs, {"gaps": gaps, "error_link": link} | known)


@keep(max_entries=16)
def _conclusions(fingerprint: str, sources: tuple[str, ...], _known: Evidence) -> list[Reading]:  # noqa: ARG001  (key)
    return conclude(_known)


def conclusions(view: View, known: Evidence) -> list[Reading]:
    """What the cache says about every conclusion of the paper whose source is known."""
    return _conclusions(view.selection.fingerprint, tuple(known.found), known)


@keep(max_entries=64)
def _counterpart(fingerprint: str, name: str, cell: str, _known: Evidence) -> pd.DataFrame:  # noqa: ARG001  (key)
    return build(name, _known, cell)


def counterpart(view: View, known: Evidence, name: str, cell: str) -> pd.DataFrame:
    """A published table made of this cache, once its sources are known; raises `NoCounterpart` where there is none."""
    return _counterpart(view.selection.fingerprint, name, cell, known)


def source_key(view: View, source: str) -> Hashable:
    return "evidence", view.selection.fingerprint, source


def source_work(view: View, source: str, runs: pd.DataFrame) -> Callable[[Progress], Any]:
    """The computation of a long source, for `long_work`."""
    cache, label = view.cache, SOURCES[source].label

    def work(progress: Progress) -> Any:
        return SOURCES[source].compute(cache, runs, lambda share, text: progress(share, f"{label}: {text}"))

    return work
