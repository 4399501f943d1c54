"""The protocol over every run of a cache: one row per run, then cells over seeds, then what many tests are worth."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, binom, norm

from engine import metrics, validation
from engine.contingency import tabulate
from engine.errors import MissingData
from engine.features import FEATURES, CustomFeature, feature
from engine.gaps.bootstrap import bootstrap_gap_of_counts
from engine.gaps.gap import MIN_SUPPORT
from engine.gaps.permutation import permutation_test_of_counts
from engine.gaps.presets import PAPER
from engine.gaps.trend import trend_test
from engine.pvalues import ADJUSTMENTS, adjust_tested
from engine.store import Cache
from engine.types import CELL, Progress, RunData

_IDENTITY = ["run_id", *CELL, "seed", "n_samples", "n_layers", "accuracy"]
P_COLUMNS = ("paper_p", "audited_p")
DEFAULT_FEATURE = "r_agg"
_MEASURES = ["accuracy", "raw_ece", "max_gap", "weighted_gap"]
_ENSEMBLE = re.compile(r"-last(\d+)$")
"""Suites of ensembles over the last epochs: the same training runs once more, never counted beside them."""


_MOST_THREADS = 4
_ROWS_AT_ONCE = 2_000_000
"""Samples that may be in memory together while runs are diagnosed side by side."""

_STABILITY = [
    "run_id", "n", "max_gap_min", "max_gap_max", "max_gap_spread", "effect_min", "effect_max", "n_positive",
    "n_negative", "same_sign", "agreement_by_chance", "paper_all", "audited_all",
]  # fmt: skip


def _diagnose_run(
    run: RunData, rho: np.ndarray[Any, Any], *, n_resamples: int, seed: int, min_support: int
) -> dict[str, Any]:
    """The diagnostic numbers of one run, all samples, no fitting."""
    contingency = tabulate(run.confidence, run.correct, rho, n_bins=PAPER.bins_for(0), matching=PAPER.matching)
    paper = permutation_test_of_counts(contingency, min_support=min_support)
    bootstrap = bootstrap_gap_of_counts(contingency, n_resamples=n_resamples, seed=seed, min_support=min_support)
    audited = trend_test(run.confidence, run.correct, rho)
    matched = audited.matched  # otherwise it says nothing beyond confidence, and must not count as tested
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
        "audited_p": audited.p_value if matched else None,
        "audited_z": audited.z if matched else None,
        "audited_effect": audited.effect if matched else None,
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
    feature_name: str | CustomFeature = DEFAULT_FEATURE,
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
    # A column that only some runs brought along leaves the others untested; a name that nobody knows is an error.
    own_columns = {name for names in runs["extra_names"] for name in names} - set(FEATURES)

    def row_of(identity: dict[Any, Any]) -> dict[Any, Any]:
        run = cache.load(str(identity["run_id"]), with_logits=needs_logits)
        row: dict[Any, Any] = {**identity, "raw_ece": metrics.ece(run.confidence, run.correct)}
        try:
            if feature_name in own_columns and feature_name not in run.extra:
                raise MissingData(f"column {feature_name!r}", "this feature", "choose a feature that every run has")
            rho = feature(run, feature_name)
        except MissingData as missing:
            row["note"] = str(missing)
        else:
            row |= _diagnose_run(run, rho, n_resamples=n_resamples, seed=seed, min_support=min_support)
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
        _add_multiplicity(frame, column, alpha)
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
        "weighted_gap_high", "null_high", "paper_p", "audited_p", "audited_z", "audited_effect", "shared_bins",
        "n_bins", "support_min", "support_q25", "support_median", "note",
    ]  # fmt: skip


def _add_multiplicity(frame: pd.DataFrame, column: str, alpha: float) -> None:
    values = frame[column].astype(float)
    test = column.removesuffix("_p")
    frame[f"{test}_rejects"] = values <= alpha
    for method in ADJUSTMENTS:
        frame[f"{column}_{method}"] = adjust_tested(values.to_numpy(), method)


def by_cell(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell (backbone, data set, variant, ...): mean and std (ddof 0) over seeds, smallest p, rejections."""
    tested = rows[rows["paper_p"].notna() | rows["audited_p"].notna()]
    if tested.empty:
        return pd.DataFrame(columns=[*CELL, "n"])
    tested = tested.astype(dict.fromkeys([*_MEASURES, *P_COLUMNS], float))
    groups = tested.groupby(list(CELL), dropna=False, sort=True)
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


def ensemble_size(suite: str) -> int | None:
    """Over how many of the last epochs of another run the runs of a suite are ensembles; None for single models."""
    found = _ENSEMBLE.search(suite)
    return None if found is None else int(found[1])


def is_ensemble(suites: pd.Series[Any]) -> pd.Series[Any]:
    """Which runs are ensembles over the last epochs of another run."""
    return suites.map(lambda suite: ensemble_size(str(suite)) is not None).astype(bool)


def single_models(rows: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """The rows of `diagnose` without ensembles, p-values corrected anew, so that no training run is counted twice."""
    kept = rows[~is_ensemble(rows["suite"])].reset_index(drop=True)
    for column in P_COLUMNS:
        _add_multiplicity(kept, column, alpha)
    return kept


def effect_intervals(rows: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """(low, high) of the audited effect: effect -+ q |effect / z|, since z is the effect over its standard error.

    The standard error is the one under permutation inside bins (`trend_test`), so the interval leaves out zero exactly
    when p < 1 - level. Undefined, hence missing, where the effect is exactly zero.
    """
    validation.fraction("level", level)
    effect, z = rows["audited_effect"].astype(float), rows["audited_z"].astype(float)
    half = norm.ppf((1 + level) / 2) * (effect / z.where(z != 0)).abs()
    return pd.DataFrame({"low": effect - half, "high": effect + half}, index=rows.index)


def stability(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell with a tested run: what differs between its seeds.

    n : tested runs; run_id : the first of them. max_gap_min / _max / _spread : over seeds. effect_min / _max : audited
    effect; n_positive, n_negative : seeds on either side of zero; same_sign : all seeds on one side (missing for one
    seed). agreement_by_chance : P(all signs equal) = 2^(1 - n) for independent fair signs, 0 if a seed has
    no effect, missing for one seed.
    paper_all, audited_all : every seed rejects, for the audited test in one direction (missing for one seed).
    """
    tested = rows[rows["paper_p"].notna() | rows["audited_p"].notna()]
    table = []
    for key, cell in tested.groupby(list(CELL), dropna=False, sort=True):
        gaps, effects = cell["max_gap"].astype(float), cell["audited_effect"].astype(float).dropna()
        n, several = len(cell), len(cell) > 1
        positive, negative = int((effects > 0).sum()), int((effects < 0).sum())
        same_sign = max(positive, negative) == n
        table.append(
            dict(zip(CELL, key, strict=True)) | {
                "run_id": cell["run_id"].iloc[0], "n": n,
                "max_gap_min": gaps.min(), "max_gap_max": gaps.max(), "max_gap_spread": gaps.max() - gaps.min(),
                "effect_min": effects.min(), "effect_max": effects.max(),
                "n_positive": positive, "n_negative": negative,
                "same_sign": same_sign if several else None,
                "agreement_by_chance": (2.0 ** (1 - n) if len(effects) == n else 0.0) if several else None,
                "paper_all": bool(cell["paper_rejects"].all()) if several else None,
                "audited_all": bool(cell["audited_rejects"].all()) and same_sign if several else None,
            }
        )  # fmt: skip
    return pd.DataFrame(table, columns=[*CELL, *_STABILITY])


def uniform_order_statistics(n: int, level: float = 0.95) -> pd.DataFrame:
    """What n sorted p-values look like if nothing is there: the k-th of n uniforms is Beta(k, n + 1 - k).

    Columns rank, expected = k / (n + 1), and the pointwise central interval low, high. Independent tests assumed.
    """
    validation.whole("n", n, 0, validation.MOST_SAMPLES)
    validation.fraction("level", level)
    rank = np.arange(1, n + 1)
    low, high = (beta.ppf(tail, rank, n + 1 - rank) for tail in ((1 - level) / 2, (1 + level) / 2))
    return pd.DataFrame({"rank": rank, "expected": rank / (n + 1), "low": low, "high": high})


def sorted_pvalues(rows: pd.DataFrame) -> pd.DataFrame:
    """Both tests' p-values in order beside what uniform ones would be: test, run_id, p, rank, expected, low, high."""
    parts = []
    for column in P_COLUMNS:
        p = rows[["run_id", column]].dropna().astype({column: float}).sort_values(column, kind="stable")
        uniform = uniform_order_statistics(len(p))
        parts.append(p.rename(columns={column: "p"}).reset_index(drop=True).join(uniform))
        parts[-1].insert(0, "test", column.removesuffix("_p"))
    return pd.concat(parts, ignore_index=True)


def chance_range(n: int, alpha: float = 0.05, level: float = 0.95) -> tuple[int, int]:
    """Central range of rejections among n independent tests in which nothing is there: Binomial(n, alpha)."""
    validation.whole("n", n, 0, validation.MOST_SAMPLES)
    validation.fraction("alpha", alpha)
    validation.fraction("level", level)
    if n == 0:
        return 0, 0
    low, high = binom.ppf([(1 - level) / 2, (1 + level) / 2], n, alpha)
    return int(low), int(high)


def look_first(rows: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """The tested runs most worth a look: smallest corrected (Holm) p of either test, then smallest p as it is."""
    tested = rows[rows["paper_p"].notna() | rows["audited_p"].notna()]
    order = pd.DataFrame({
        "corrected": tested[[f"{column}_holm" for column in P_COLUMNS]].astype(float).min(axis=1),
        "nominal": tested[list(P_COLUMNS)].astype(float).min(axis=1),
    })  # fmt: skip
    return tested.loc[order.sort_values(["corrected", "nominal"], kind="stable").index[:n]]
