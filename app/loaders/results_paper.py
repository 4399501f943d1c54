"""The paper's numbers and what this cache has beside them. Objects are shared: do not change them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pandas as pd
import streamlit as st

from app.cache_summary import labelled
from app.loaders.jobs import jobs
from app.loaders.keeping import keep
from app.view import View
from engine.claims import ClaimResult, audit
from engine.evidence import SOURCES, Evidence, gather
from engine.store import Cache
from engine.sweep import is_ensemble
from engine.types import Progress

QUICK = ("gaps", "error_link")
"""Sources that no viewer needs to wait for."""


@st.cache_resource(show_spinner="Recomputing the paper's statements")
def claims() -> list[ClaimResult]:
    """Every checkable statement of the paper, recomputed from its own tables."""
    return audit()


@keep(max_entries=4, show_spinner="Testing every run")
def _quick(fingerprint: str, _cache: Cache, _runs: pd.DataFrame) -> Evidence:  # noqa: ARG001
    single = _runs[~is_ensemble(_runs["suite"])].reset_index(drop=True)
    return gather(_cache, QUICK, runs=labelled(single, _runs))


def evidence(view: View) -> Evidence:
    """What is known of the cache by now: quick sources, and the long ones that some viewer has asked for."""
    quick = _quick(view.selection.fingerprint, view.cache, view.runs)
    asked = {name: jobs().find(source_key(view, name)) for name in SOURCES}
    return Evidence(quick.runs, quick.found | {name: found for name, found in asked.items() if found is not None})


def source_key(view: View, source: str) -> Hashable:
    return "evidence", view.selection.fingerprint, source


def source_work(view: View, source: str, runs: pd.DataFrame) -> Callable[[Progress], Any]:
    """The computation of a long source, for `long_work`."""
    cache, label = view.cache, SOURCES[source].label

    def work(progress: Progress) -> Any:
        return SOURCES[source].compute(cache, runs, lambda share, text: progress(share, f"{label}: {text}"))

    return work
