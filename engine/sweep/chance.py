"""What many tests are worth: corrections, chance, and where to look first."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.stats import beta, binom

from engine.core import validation
from engine.core.pvalues import ADJUSTMENTS, adjust_tested

P_COLUMNS = ("paper_p", "audited_p")


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
