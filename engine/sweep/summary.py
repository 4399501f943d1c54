"""What the rows of a diagnosis amount to: corrections for many tests, what chance gives, cells and their seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, binom, norm

from engine.core import validation
from engine.core.labels import is_ensemble
from engine.core.pvalues import ADJUSTMENTS, adjust_tested
from engine.core.types import CELL

P_COLUMNS = ("paper_p", "primary_p")


def tested(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of `diagnose` that at least one test could be run on."""
    return rows[rows[list(P_COLUMNS)].notna().any(axis=1)]


def add_multiplicity(frame: pd.DataFrame, column: str, alpha: float) -> None:
    """Add to the rows of `diagnose` whether a test rejects, and its p-values corrected over the runs it could test."""
    values = frame[column].astype(float)
    test = column.removesuffix("_p")
    frame[f"{test}_rejects"] = values <= alpha
    for method in ADJUSTMENTS:
        frame[f"{column}_{method}"] = adjust_tested(values.to_numpy(), method)


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
    kept = tested(rows)
    order = pd.DataFrame({
        "corrected": kept[[f"{column}_holm" for column in P_COLUMNS]].astype(float).min(axis=1),
        "nominal": kept[list(P_COLUMNS)].astype(float).min(axis=1),
    })  # fmt: skip
    return kept.loc[order.sort_values(["corrected", "nominal"], kind="stable").index[:n]]


_MEASURES = ["accuracy", "raw_ece", "max_gap", "weighted_gap"]
_STABILITY = [
    "run_id", "n", "max_gap_min", "max_gap_max", "max_gap_spread", "effect_min", "effect_max", "n_positive",
    "n_negative", "same_sign", "agreement_by_chance", "paper_all", "primary_all",
]  # fmt: skip


def single_models(rows: pd.DataFrame, alpha: float = 0.05) -> pd.DataFrame:
    """The rows of `diagnose` without ensembles, p-values corrected anew, so that no training run is counted twice."""
    kept = rows[~is_ensemble(rows["suite"])].reset_index(drop=True)
    for column in P_COLUMNS:
        add_multiplicity(kept, column, alpha)
    return kept


def by_cell(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell (backbone, data set, variant, ...): mean and std (ddof 0) over seeds, smallest p, rejections."""
    kept = tested(rows)
    if kept.empty:
        return pd.DataFrame(columns=[*CELL, "n"])
    kept = kept.astype(dict.fromkeys([*_MEASURES, *P_COLUMNS], float))
    groups = kept.groupby(list(CELL), dropna=False, sort=True)
    parts: list[pd.Series[Any]] = [groups.size().rename("n")]
    for measure in _MEASURES:
        parts += [
            groups[measure].mean().rename(f"{measure}_mean"),
            groups[measure].std(ddof=0).rename(f"{measure}_std"),
        ]
    for test in ("paper", "primary"):
        parts += [
            groups[f"{test}_p"].min().rename(f"{test}_p_min"),
            groups[f"{test}_rejects"].sum().astype(int).rename(f"{test}_rejections"),
        ]
    return pd.concat(parts, axis=1).reset_index()


def effect_intervals(rows: pd.DataFrame, level: float = 0.95) -> pd.DataFrame:
    """(low, high) of the primary effect: effect -+ q |effect / z|, since z is the effect over its standard error.

    The standard error is the one under permutation inside bins (`trend_test`), so the interval leaves out zero exactly
    when p < 1 - level. Undefined, hence missing, where the effect is exactly zero.
    """
    validation.fraction("level", level)
    effect, z = rows["primary_effect"].astype(float), rows["primary_z"].astype(float)
    half = norm.ppf((1 + level) / 2) * (effect / z.where(z != 0)).abs()
    return pd.DataFrame({"low": effect - half, "high": effect + half}, index=rows.index)


def stability(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per cell with a tested run: what differs between its seeds.

    n : tested runs; run_id : the first of them. max_gap_min / _max / _spread : over seeds. effect_min / _max : primary
    effect; n_positive, n_negative : seeds on either side of zero; same_sign : all seeds on one side (missing for one
    seed). agreement_by_chance : P(all signs equal) = 2^(1 - n) for independent fair signs, 0 if a seed has
    no effect, missing for one seed.
    paper_all, primary_all : every seed rejects, for the primary test in one direction (missing for one seed).
    """
    kept = tested(rows)
    table = []
    for key, cell in kept.groupby(list(CELL), dropna=False, sort=True):
        gaps, effects = cell["max_gap"].astype(float), cell["primary_effect"].astype(float).dropna()
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
                "primary_all": bool(cell["primary_rejects"].all()) and same_sign if several else None,
            }
        )  # fmt: skip
    return pd.DataFrame(table, columns=[*CELL, *_STABILITY])
