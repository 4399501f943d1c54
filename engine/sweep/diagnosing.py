"""The protocol over every run of a cache: one row per run."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd

from engine import metrics
from engine.core import validation
from engine.core.errors import MissingData
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import CELL, Progress, RunData
from engine.features import FEATURES, CustomFeature, columns_of, feature
from engine.gaps.bootstrap import bootstrap_gap_of_counts
from engine.gaps.permutation import permutation_test_of_counts
from engine.gaps.settings import TestSettings
from engine.gaps.statistics.trend import trend_test
from engine.store import Cache
from engine.sweep.summary import P_COLUMNS, add_multiplicity

DEFAULT_FEATURE = "r_agg"
_IDENTITY = ["run_id", *CELL, "seed", "n_samples", "n_layers", "accuracy"]
_MOST_THREADS = 4
_ROWS_AT_ONCE = 2_000_000
"""Samples that may be in memory together while runs are diagnosed side by side."""


def _diagnose_run(
    run: RunData, rho: np.ndarray[Any, Any], *, n_resamples: int, seed: int, settings: TestSettings
) -> dict[str, Any]:
    """The diagnostic numbers of one run, all samples, no fitting."""
    contingency = settings.tabulate(run.confidence, run.correct, rho)
    paper = permutation_test_of_counts(contingency, min_support=settings.min_support)
    bootstrap = bootstrap_gap_of_counts(
        contingency, n_resamples=n_resamples, seed=seed, min_support=settings.min_support
    )
    primary = trend_test(run.confidence, run.correct, rho)
    matched = primary.matched  # otherwise it says nothing beyond confidence, and must not count as tested
    gap = paper.gap
    max_low, max_high = bootstrap.max_gap_ci or (None, None)
    weighted_low, weighted_high = bootstrap.weighted_gap_ci or (None, None)
    smallest, quarter, middle = gap.support or (None, None, None)
    return {
        "max_gap": gap.max_gap,
        "max_gap_low": max_low,
        "max_gap_high": max_high,
        "weighted_gap": gap.weighted_gap,
        "weighted_gap_low": weighted_low,
        "weighted_gap_high": weighted_high,
        "null_high": None if paper.null is None else paper.null.percentiles[2],
        "paper_p": paper.p_value,
        "primary_p": primary.p_value if matched else None,
        "primary_z": primary.z if matched else None,
        "primary_effect": primary.effect if matched else None,
        "shared_bins": gap.n_shared,
        "n_bins": gap.n_bins,
        "support_min": smallest,
        "support_q25": quarter,
        "support_median": middle,
        "note": "; ".join((*gap.notes, *primary.notes)),
    }


def diagnose(
    cache: Cache,
    *,
    feature_name: str | CustomFeature = DEFAULT_FEATURE,
    alpha: float = 0.05,
    n_resamples: int = 5000,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row per run: gaps with intervals, the paper's exact p, the primary p, support, accuracy, raw ECE.

    A run without what the feature needs keeps its row, with missing numbers and the reason in `note`. For each of the
    two p-values there are corrected columns (`paper_p_holm`, ...) over the runs that could be tested, and
    `paper_rejects` / `primary_rejects` at `alpha`, uncorrected.
    """
    keep_blas_to_one_thread()  # its threads would take the cores that the runs are shared among
    validation.fraction("alpha", alpha)
    runs = cache.runs()
    # A column that only some runs brought along leaves the others untested; a name that nobody knows is an error.
    own_columns = {name for names in runs["extra_names"] for name in names} - set(FEATURES)

    def row_of(identity: dict[Any, Any]) -> dict[Any, Any]:
        run = cache.load(str(identity["run_id"]), columns_of(feature_name))
        row: dict[Any, Any] = {**identity, "raw_ece": metrics.ece(run.confidence, run.correct)}
        try:
            if feature_name in own_columns and feature_name not in run.extra:
                raise MissingData(f"column {feature_name!r}", "this feature", "choose a feature that every run has")
            rho = feature(run, feature_name)
        except MissingData as missing:
            row["note"] = str(missing)
        else:
            row |= _diagnose_run(run, rho, n_resamples=n_resamples, seed=seed, settings=settings)
        return row

    rows = []
    largest = int(runs["n_samples"].max()) if len(runs) else 0
    with closing(_side_by_side(row_of, runs[_IDENTITY].to_dict("records"), largest)) as studied:
        for row in studied:
            rows.append(row)
            if progress is not None:
                progress(len(rows) / len(runs), f"{row['run_id']}")
    frame = pd.DataFrame(rows, columns=_columns())
    for column in P_COLUMNS:
        add_multiplicity(frame, column, alpha)
    return frame


def _side_by_side(
    study: Callable[[dict[Any, Any]], dict[Any, Any]], identities: Sequence[dict[Any, Any]], largest: int
) -> Generator[dict[Any, Any]]:
    """The studies in order, several at a time: sorting and reading leave Python's lock, so threads gain.

    Whoever stops listening (a viewer who has left) leaves at most the studies under way to be finished.
    """
    threads = max(1, min(_MOST_THREADS, os.cpu_count() or 1, _ROWS_AT_ONCE // max(largest, 1)))
    pool = ThreadPoolExecutor(threads, thread_name_prefix="diagnose")
    try:
        # No more than one study ahead of each thread, so that finished ones do not pile up and a stop is heard.
        waiting = [pool.submit(study, identity) for identity in identities[: 2 * threads]]
        for position in range(len(identities)):
            yield waiting.pop(0).result()
            if position + 2 * threads < len(identities):
                waiting.append(pool.submit(study, identities[position + 2 * threads]))
    finally:
        pool.shutdown(cancel_futures=True)


def _columns() -> list[str]:
    """Column order, the same for an empty cache."""
    return [
        *_IDENTITY, "raw_ece", "max_gap", "max_gap_low", "max_gap_high", "weighted_gap", "weighted_gap_low",
        "weighted_gap_high", "null_high", "paper_p", "primary_p", "primary_z", "primary_effect", "shared_bins",
        "n_bins", "support_min", "support_q25", "support_median", "note",
    ]  # fmt: skip
