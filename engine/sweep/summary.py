"""What the rows of a diagnosis amount to: corrections for many tests, what chance gives, pooled effects of cells."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from engine.core.labels import is_ensemble
from engine.core.pvalues import ADJUSTMENTS, adjust_tested
from engine.core.types import CELL, FloatArray
from engine.gaps.combined import combine
from engine.gaps.pooled import (
    PooledEffect,
    agreement_by_chance,
    null_scores,
    pool_cells,
    pool_seeds,
    rejections_by_chance,
    sorted_band,
)

P_COLUMNS = {"verdict": "p_value", "primary": "primary_p", "paper": "paper_p"}
"""The p-values of a row by test. The first decides; the paper's describes."""
_MEASURES = ["accuracy", "raw_ece", "max_gap", "weighted_gap"]


def tested(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `diagnose` that at least one test could be run on."""
    return rows[rows[list(P_COLUMNS.values())].notna().any(axis=1)]


def add_multiplicity(frame: pd.DataFrame, alpha: float) -> None:
    """Add to the rows of `diagnose` whether each test rejects, and its p-values corrected over the runs tested."""
    for test, column in P_COLUMNS.items():
        values = frame[column].astype(float)
        frame[f"{test}_rejects"] = values <= alpha
        for method in ADJUSTMENTS:
            frame[f"{column}_{method}"] = adjust_tested(values.to_numpy(), method)


def single_models(rows: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """The rows of `diagnose` without ensembles, p-values corrected anew, so that no training run is counted twice."""
    kept = rows[~is_ensemble(rows["suite"])].reset_index(drop=True)
    add_multiplicity(kept, alpha)
    return kept


def score_correlation(rows: pd.DataFrame) -> FloatArray:
    """(m, m) correlation of the primary effects of m rows: products of scores on the same images, otherwise zero."""
    correlation = np.eye(len(rows))
    for group in rows.groupby("images").indices.values():
        places = np.asarray(group, dtype=np.int64)
        scores = np.stack(rows["scores"].iloc[places].tolist())
        correlation[np.ix_(places, places)] = scores @ scores.T
    return correlation


def chance_range(rows: pd.DataFrame, alpha: float = 0.05) -> tuple[int, int]:
    """Central 95 % of the number of rejections where nothing is there, if every one of these rows is tested at alpha.

    Runs on the same images are correlated as their primary effects are; for other tests that is an approximation.
    """
    return rejections_by_chance(null_scores(score_correlation(rows)), alpha) if len(rows) else (0, 0)


def multiplicity(rows: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """One row per test: runs tested, rejections without and with correction, what chance gives (`chance_range`)."""
    table = []
    for test, column in P_COLUMNS.items():
        kept = rows[rows[column].notna()]
        values, n = kept[column].astype(float), len(kept)
        low, high = chance_range(kept, alpha)
        row = {"test": test, "n_tested": n, "expected_by_chance": n * alpha, "chance_low": low, "chance_high": high}
        row["nominal"] = int((values <= alpha).sum())
        row |= {method: int((kept[f"{column}_{method}"] <= alpha).sum()) for method in ADJUSTMENTS}
        row["smallest_p"] = float(values.min()) if n else None
        table.append(row)
    return pd.DataFrame(table)


def sorted_pvalues(rows: pd.DataFrame) -> pd.DataFrame:
    """The verdict's and the paper's p-values in order: test, run_id, p, rank, expected = rank / (n + 1), low, high.

    low, high : hold all sorted p-values of a test at once in 95 % of what chance gives (`sorted_band`).
    """
    parts = []
    for test in ("verdict", "paper"):
        column = P_COLUMNS[test]
        p = rows[rows[column].notna()].astype({column: float}).sort_values(column, kind="stable")
        n = len(p)
        low, high = sorted_band(null_scores(score_correlation(p))) if n else (np.empty(0), np.empty(0))
        rank = np.arange(1, n + 1)
        columns = {"p": p[column].to_numpy(), "rank": rank, "expected": rank / (n + 1), "low": low, "high": high}
        parts.append(pd.DataFrame({"test": test, "run_id": p["run_id"].to_numpy(), **columns}))
    return pd.concat(parts, ignore_index=True)


def look_first(rows: pd.DataFrame, n: int = 5) -> pd.DataFrame:
    """The tested runs most worth a look: smallest p of the verdict, then of the paper's test."""
    order = tested(rows)[["p_value", "paper_p"]].astype(float).sort_values(["p_value", "paper_p"], kind="stable")
    return rows.loc[order.index[:n]]


def _covariance(rows: pd.DataFrame) -> FloatArray:
    """(m, m) of the primary effects of m rows: their standard errors and `score_correlation`."""
    errors = rows["primary_se"].to_numpy(float)
    return np.outer(errors, errors) * score_correlation(rows)


def pool_effects(rows: pd.DataFrame) -> PooledEffect | None:
    """The mean primary effect of a cache: over the seeds of each cell, then random effects over cells."""
    kept = rows[rows["primary_effect"].notna()]
    if kept.empty:
        return None
    cells = kept.groupby(list(CELL), dropna=False).ngroup().to_numpy()
    share = (cells == np.arange(cells.max() + 1)[:, None]).astype(float)
    share /= share.sum(axis=1, keepdims=True)
    return pool_cells(share @ kept["primary_effect"].to_numpy(float), share @ _covariance(kept) @ share.T)


def _pooled_columns(cell: pd.DataFrame) -> dict[str, Any]:
    """The pooled primary effect of the seeds of a cell, their signs, and one p-value for trend and shape."""
    effects = cell["primary_effect"].astype(float).dropna()
    kept = cell.loc[effects.index]
    pooled = pool_seeds(effects, _covariance(kept)) if len(kept) else None
    bound = None if pooled is None else pooled.bound
    several, n_positive, n_negative = len(cell) > 1, int((effects > 0).sum()), int((effects < 0).sum())
    by_chance = None
    if several:
        by_chance = agreement_by_chance(null_scores(score_correlation(kept))) if len(kept) == len(cell) else 0.0
    return {
        "effect": None if pooled is None else pooled.effect,
        "effect_low": None if bound is None else bound.low,
        "effect_high": None if bound is None else bound.high,
        "effect_p": None if pooled is None else pooled.p_value,
        "p_value": None if pooled is None else combine(pooled.p_value, combine(*kept["shape_p"].dropna())),
        "n_positive": n_positive,
        "n_negative": n_negative,
        "same_sign": max(n_positive, n_negative) == len(cell) if several else None,
        "agreement_by_chance": by_chance,
    }


def by_cell(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell (backbone, data set, variant, ...) with a tested run.

    n : tested runs; run_id : the first of them. effect, effect_low, effect_high, effect_p : the primary effect pooled
    over its seeds, clustered by image; p_value : that combined with the shape tests of its seeds, which Cauchy's
    combination allows to be dependent; p_holm : over cells. n_positive, n_negative : seeds on either side of zero;
    same_sign : all on one side; agreement_by_chance : how often that happens where nothing is there. Mean and std
    (ddof 0) over seeds of each measure, and max_gap_spread, largest minus smallest. For each test the smallest p, the
    number of rejections and whether every seed rejects, for the primary one in one direction (`primary_all`). What
    needs two seeds is missing for one.
    """
    kept = tested(rows).astype(dict.fromkeys([*_MEASURES, *P_COLUMNS.values()], float))
    table = []
    for key, cell in kept.groupby(list(CELL), dropna=False, sort=True):
        row = dict(zip(CELL, key, strict=True)) | {"run_id": cell["run_id"].iloc[0], "n": len(cell)}
        row |= _pooled_columns(cell)
        for measure in _MEASURES:
            row |= {f"{measure}_mean": cell[measure].mean(), f"{measure}_std": cell[measure].std(ddof=0)}
        row["max_gap_spread"] = cell["max_gap"].max() - cell["max_gap"].min()
        for test, column in P_COLUMNS.items():
            n_rejected = int(cell[f"{test}_rejects"].sum())
            row |= {f"{test}_p_min": cell[column].min(), f"{test}_rejections": n_rejected}
            row[f"{test}_all"] = n_rejected == len(cell) if len(cell) > 1 else None
        row["primary_all"] = row["primary_all"] and row["same_sign"]
        table.append(row)
    if not table:
        return pd.DataFrame(columns=[*CELL, "run_id", "n", "effect", "p_holm", "same_sign", "agreement_by_chance"])
    cells = pd.DataFrame(table)
    return cells.assign(p_holm=adjust_tested(cells["p_value"].astype(float).to_numpy(), "holm"))


def effect_intervals(rows: pd.DataFrame) -> pd.DataFrame:
    """(low, high) of the primary effect of each run, 95 %: it leaves out zero exactly when its p < 0.05."""
    effect, error = rows["primary_effect"].astype(float), rows["primary_se"].astype(float)
    half = ndtri(0.975) * error
    return pd.DataFrame({"low": effect - half, "high": effect + half}, index=rows.index)
