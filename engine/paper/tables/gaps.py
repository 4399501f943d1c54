"""Tables of gaps: rows are runs or cells of the cache."""

from __future__ import annotations

import pandas as pd

from engine.paper import published
from engine.paper.sources import Evidence, with_cells
from engine.paper.tables.frames import Cells, by_run, means, tidy

_GAP = {
    "Max gap": "max_gap", "Max gap CI low": "max_gap_low", "Max gap CI high": "max_gap_high", "Wt. gap": "weighted_gap",
    "Wt. gap CI low": "weighted_gap_low", "Wt. gap CI high": "weighted_gap_high", "Shared bins": "shared_bins",
    "Total bins": "n_bins", "Support min": "support_min", "Support q25": "support_q25",
    "Support median": "support_median", "Null q.975": "null_high", "Perm. p": "paper_p", "Acc@1": "accuracy",
    "Rejects": "rejects",
}  # fmt: skip
_NO_GAP = "no run of this cache has a routing profile, so no gap can be measured"


def _tested(evidence: Evidence) -> pd.DataFrame:
    rows = with_cells(evidence["gaps"].dropna(subset=["max_gap"]), evidence)
    return rows.assign(rejects=["yes" if rejects else "no" for rejects in rows["paper_rejects"]])


def gap_table(table: str, evidence: Evidence) -> pd.DataFrame:
    """Rows of runs: all of them, or the first seed of each cell where the paper shows seed 0."""
    rows = _tested(evidence)
    name = "run"
    if table != "per_seed_diagnostics":
        rows, name = rows.sort_values("seed", kind="stable").drop_duplicates("cell").sort_values("cell"), "cell"
    columns = dict.fromkeys(published.load(table)["column"])
    return by_run(rows, name, {column: _GAP[column] for column in columns}, _NO_GAP)


def sweep_table(evidence: Evidence) -> pd.DataFrame:
    """Cells: means over seeds, smallest p, rejections."""

    def rows() -> Cells:
        for name, runs in _tested(evidence).groupby("cell", sort=False):
            n = len(runs)
            for column, field in (("Max gap", "max_gap"), ("Wt. gap", "weighted_gap")):
                mean, std, _ = means(runs[field])
                yield str(name), column, mean, std, n
            yield str(name), "Perm. p", float(runs["paper_p"].astype(float).min()), None, n
            yield str(name), "Rejections", int(runs["paper_rejects"].sum()), None, n
            yield str(name), "Runs tested", n, None, n

    return tidy(rows(), _NO_GAP)
