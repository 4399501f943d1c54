"""The protocol over every run of a cache: one row per run."""

import hashlib
from collections.abc import Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd

from engine import metrics
from engine.core import validation
from engine.core.errors import MissingData
from engine.core.labels import is_ensemble
from engine.core.threads import keep_blas_to_one_thread, side_by_side
from engine.core.types import CELL, Progress, RunData
from engine.features import FEATURES, CustomFeature, columns_of, feature
from engine.gaps.bootstrap import bootstrap_gap_of_counts
from engine.gaps.combined import combined_test
from engine.gaps.permutation import permutation_test_of_counts
from engine.gaps.pooled import trend_scores
from engine.gaps.settings import TestSettings
from engine.store import Cache
from engine.sweep.summary import add_multiplicity

DEFAULT_FEATURE = "r_agg"
_IDENTITY = ["run_id", *CELL, "seed", "n_samples", "n_layers", "accuracy"]
_MOST_THREADS = 4
_ROWS_AT_ONCE = 2_000_000
"""Samples that may be in memory together while runs are diagnosed side by side."""


def diagnose_run(
    run: RunData,
    feature_name: str | CustomFeature = DEFAULT_FEATURE,
    *,
    n_resamples: int = 5000,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
) -> dict[str, Any]:
    """The diagnostic numbers of one run, all samples, no fitting."""
    raw = {"raw_ece": metrics.ece(run.confidence, run.correct)}
    try:
        rho = feature(run, feature_name)
    except MissingData as missing:
        return raw | {"note": str(missing)}
    contingency = settings.tabulate(run.confidence, run.correct, rho)
    paper = permutation_test_of_counts(contingency, min_support=settings.min_support)
    bootstrap = bootstrap_gap_of_counts(
        contingency, n_resamples=n_resamples, seed=seed, min_support=settings.min_support
    )
    combined = combined_test(run.confidence, run.correct, rho, clusters=run.clusters)
    primary = combined.primary
    # In too few bins to match confidence the tests say nothing beyond it, and must not count as run.
    matched = primary.matched and primary.p_value is not None
    gap = paper.gap
    max_low, max_high = bootstrap.max_gap_ci or (None, None)
    weighted_low, weighted_high = bootstrap.weighted_gap_ci or (None, None)
    smallest, quarter, middle = gap.support or (None, None, None)
    return raw | {
        "max_gap": gap.max_gap,
        "max_gap_low": max_low,
        "max_gap_high": max_high,
        "weighted_gap": gap.weighted_gap,
        "weighted_gap_low": weighted_low,
        "weighted_gap_high": weighted_high,
        "null_high": None if paper.null is None else paper.null.percentiles[2],
        "p_value": combined.p_value if matched else None,
        "paper_p": paper.p_value,
        "primary_p": primary.p_value if matched else None,
        "primary_z": primary.z if matched else None,
        "primary_effect": primary.effect if matched else None,
        "primary_se": primary.standard_error if matched else None,
        "shape_p": combined.shape.p_value if matched else None,
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
    known: Mapping[str, Mapping[Any, Any]] = MappingProxyType({}),
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row per run: gaps with intervals, the paper's exact p, the verdict's p, support, accuracy, raw ECE.

    p_value : of the verdict, the primary trend test (`primary_*`) and the shape test (`shape_p`) combined.
    images, scores : runs with equal `images` (a hash of data set, labels and clusters) saw the same samples, and the
    product of their `scores` (vectors of length one) is the correlation of their primary effects
    (`engine.gaps.pooled.trend_scores`). Missing for ensembles and for runs without labels.

    A run without what the feature needs keeps its row, with missing numbers and the reason in `note`. For each p-value
    of `P_COLUMNS` there are corrected columns (`p_value_holm`, ...) over the runs that could be tested, and whether
    the test rejects at `alpha`, uncorrected (`verdict_rejects`, `primary_rejects`, `paper_rejects`).

    known : what `diagnose_run` said of some runs before, by run id.
    """
    keep_blas_to_one_thread()  # its threads would take the cores that the runs are shared among
    validation.fraction("alpha", alpha)
    runs = cache.runs()
    # A column that only some runs brought along leaves the others untested; a name that nobody knows is an error.
    own_columns = {name for names in runs["extra_names"] for name in names} - set(FEATURES)
    single = set(runs.loc[~is_ensemble(runs["suite"]), "run_id"])

    def row_of(identity: dict[Any, Any]) -> dict[Any, Any]:
        run_id = str(identity["run_id"])
        tested = known.get(run_id)
        of_images = run_id in single and (tested is None or tested.get("primary_p") is not None)
        if tested is not None and not of_images:
            return {**identity, **tested}
        run = cache.load(run_id, {*columns_of(feature_name), "labels"})
        if tested is None and feature_name in own_columns and feature_name not in run.extra:
            missing = MissingData(f"column {feature_name!r}", "this feature", "choose a feature that every run has")
            return {**identity, "raw_ece": metrics.ece(run.confidence, run.correct), "note": str(missing)}
        tested = tested or diagnose_run(run, feature_name, n_resamples=n_resamples, seed=seed, settings=settings)
        row: dict[Any, Any] = {**identity, **tested}
        if of_images and run.labels is not None and row.get("primary_p") is not None:
            named = f"{identity['dataset']} {run.n_samples} ".encode() + run.labels.tobytes()
            named += b"" if run.clusters is None else run.clusters.tobytes()
            row["images"] = hashlib.sha256(named).hexdigest()[:12]
            rho = feature(run, feature_name)
            scores = trend_scores(run.confidence, run.correct, rho, clusters=run.clusters)
            row["scores"] = scores.astype(np.float32)
        return row

    rows = []
    largest = int(runs["n_samples"].max()) if len(runs) else 0
    threads = min(_MOST_THREADS, _ROWS_AT_ONCE // max(largest, 1))
    with closing(side_by_side(row_of, runs[_IDENTITY].to_dict("records"), threads)) as studied:
        for row in studied:
            rows.append(row)
            if progress is not None:
                progress(len(rows) / len(runs), f"{row['run_id']}")
    frame = _shorten_scores(pd.DataFrame(rows, columns=_columns()))
    add_multiplicity(frame, alpha)
    return frame


def _shorten_scores(frame: pd.DataFrame) -> pd.DataFrame:
    """Scores as vectors with an entry per run on the same images instead of one per image, with the same products."""
    for _, part in frame.groupby("images"):
        scores = np.stack(part["scores"].tolist())
        values, vectors = np.linalg.eigh((scores @ scores.T).astype(np.float64))
        short = vectors * np.sqrt(values.clip(0))
        short /= np.linalg.norm(short, axis=1, keepdims=True)
        frame.loc[part.index, "scores"] = pd.Series(list(short), part.index)
    return frame


def _columns() -> list[str]:
    """Column order, the same for an empty cache."""
    return [
        *_IDENTITY, "raw_ece", "max_gap", "max_gap_low", "max_gap_high", "weighted_gap", "weighted_gap_low",
        "weighted_gap_high", "null_high", "p_value", "paper_p", "primary_p", "primary_z", "primary_effect",
        "primary_se", "shape_p", "shared_bins", "n_bins", "support_min", "support_q25", "support_median", "note",
        "images", "scores",
    ]  # fmt: skip
