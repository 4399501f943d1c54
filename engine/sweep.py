"""The protocol over every run of a cache: one row per run, then cells over seeds, then what many tests are worth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from engine import metrics, validation
from engine.contingency import tabulate
from engine.errors import MissingData
from engine.features import CustomFeature, feature
from engine.gaps.bootstrap import bootstrap_gap_of_counts
from engine.gaps.gap import MIN_SUPPORT
from engine.gaps.permutation import permutation_test_of_counts
from engine.gaps.presets import PAPER
from engine.gaps.trend import trend_test
from engine.pvalues import ADJUSTMENTS, adjust_pvalues
from engine.store import Cache
from engine.types import Progress, RunData

CELL = ["suite", "backbone", "dataset", "variant", "block_size"]
_IDENTITY = ["run_id", *CELL, "seed", "n_samples", "n_layers", "accuracy"]
P_COLUMNS = ("paper_p", "audited_p")
_MEASURES = ["accuracy", "raw_ece", "max_gap", "weighted_gap"]


def _diagnose_run(
    run: RunData, rho: np.ndarray[Any, Any], *, n_resamples: int, seed: int, min_support: int
) -> dict[str, Any]:
    """The diagnostic numbers of one run, all samples, no fitting."""
    contingency = tabulate(run.confidence, run.correct, rho, n_bins=PAPER.bins_for(0), matching=PAPER.matching)
    paper = permutation_test_of_counts(contingency, min_support=min_support)
    bootstrap = bootstrap_gap_of_counts(contingency, n_resamples=n_resamples, seed=seed, min_support=min_support)
    audited = trend_test(run.confidence, run.correct, rho)
    gap = paper.gap
    max_low, max_high = bootstrap.max_gap_ci or (None, None)
    weighted_low, weighted_high = bootstrap.weighted_gap_ci or (None, None)
    support = gap.support or (None, None, None)
    return {
        "max_gap": gap.max_gap,
        "max_gap_low": max_low,
        "max_gap_high": max_high,
        "weighted_gap": gap.weighted_gap,
        "weighted_gap_low": weighted_low,
        "weighted_gap_high": weighted_high,
        "null_high": None if paper.null is None else paper.null.percentiles[2],
        "paper_p": paper.p_value,
        "audited_p": audited.p_value,
        "audited_z": audited.z,
        "audited_effect": audited.effect,
        "shared_bins": gap.n_shared,
        "n_bins": gap.n_bins,
        "support_min": support[0],
        "support_q25": support[1],
        "support_median": support[2],
        "note": "; ".join((*gap.notes, *audited.notes)),
    }


def diagnose(
    cache: Cache,
    *,
    feature_name: str | CustomFeature = "r_agg",
    alpha: float = 0.05,
    n_resamples: int = 5000,
    seed: int = 42,
    min_support: int = MIN_SUPPORT,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row per run: gaps with intervals, the paper's exact p, the audited p, support, accuracy, raw ECE.

    A run without what the feature needs keeps its row, with missing numbers and the reason in `note`. For each of the
    two p-values there are corrected columns (`paper_p_holm`, ...) over the runs that could be tested, and
    `paper_rejects` / `audited_rejects` at `alpha`, uncorrected.
    """
    validation.fraction("alpha", alpha)
    runs = cache.runs()
    needs_logits = feature_name == "pred_entropy"
    rows = []
    for position, identity in enumerate(runs[_IDENTITY].to_dict("records")):
        run = cache.load(str(identity["run_id"]), with_logits=needs_logits)
        row: dict[Any, Any] = {**identity, "raw_ece": metrics.ece(run.confidence, run.correct)}
        try:
            rho = feature(run, feature_name)
        except MissingData as missing:
            row["note"] = str(missing)
        else:
            row |= _diagnose_run(run, rho, n_resamples=n_resamples, seed=seed, min_support=min_support)
        rows.append(row)
        if progress is not None:
            progress((position + 1) / len(runs), f"{identity['run_id']}")
    frame = pd.DataFrame(rows, columns=_columns())
    for column in P_COLUMNS:
        _add_multiplicity(frame, column, alpha)
    return frame


def _columns() -> list[str]:
    """Column order, the same for an empty cache."""
    return [
        *_IDENTITY, "raw_ece", "max_gap", "max_gap_low", "max_gap_high", "weighted_gap", "weighted_gap_low",
        "weighted_gap_high", "null_high", "paper_p", "audited_p", "audited_z", "audited_effect", "shared_bins",
        "n_bins", "support_min", "support_q25", "support_median", "note",
    ]  # fmt: skip


def _add_multiplicity(frame: pd.DataFrame, column: str, alpha: float) -> None:
    values = frame[column].astype(float)
    tested = values.notna()
    test = column.removesuffix("_p")
    frame[f"{test}_rejects"] = (values <= alpha) & tested
    for method in ADJUSTMENTS:
        adjusted = np.full(len(frame), np.nan)
        if tested.any():
            adjusted[tested.to_numpy()] = adjust_pvalues(values[tested].to_numpy(), method)
        frame[f"{column}_{method}"] = adjusted


def by_cell(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell (backbone, data set, variant, ...): mean and std (ddof 0) over seeds, smallest p, rejections."""
    tested = rows[rows["paper_p"].notna()]
    if tested.empty:
        return pd.DataFrame(columns=[*CELL, "n"])
    tested = tested.astype(dict.fromkeys([*_MEASURES, *P_COLUMNS], float))
    groups = tested.groupby(CELL, dropna=False, sort=True)
    parts: list[pd.Series[Any]] = [groups.size().rename("n")]
    for measure in _MEASURES:
        parts += [
            groups[measure].mean().rename(f"{measure}_mean"),
            groups[measure].std(ddof=0).rename(f"{measure}_std"),
        ]
    for test in ("paper", "audited"):
        parts += [
            groups[f"{test}_p"].min().rename(f"{test}_p_min"),
            groups[f"{test}_rejects"].sum().astype(int).rename(f"{test}_rejections"),
        ]
    return pd.concat(parts, axis=1).reset_index()


def multiplicity(rows: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """One row per test: runs tested, rejections without and with correction, and the number expected by chance."""
    table = []
    for column in P_COLUMNS:
        values = rows[column].astype(float)
        n = int(values.notna().sum())
        row = {"test": column.removesuffix("_p"), "n_tested": n, "expected_by_chance": n * alpha}
        row["nominal"] = int((values <= alpha).sum())
        row |= {method: int((rows[f"{column}_{method}"] <= alpha).sum()) for method in ADJUSTMENTS}
        row["smallest_p"] = float(values.min()) if n else None
        table.append(row)
    return pd.DataFrame(table)
