"""Conclusions about gaps at matched confidence, and about the link of routing to the error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from engine.core.labels import counted
from engine.core.pvalues import adjust_pvalues, sign_test
from engine.gaps.settings import AUDITED, PAPER
from engine.paper.findings import ALPHA, Finding, decide, fewest_runs, too_few
from engine.paper.sources import Evidence
from engine.sweep import chance_range, multiplicity, stability


def chance_level(test: str) -> Callable[[Evidence], Finding]:
    def check(evidence: Evidence) -> Finding:
        counts = multiplicity(evidence["gaps"], ALPHA).set_index("test").to_dict("index")[test]
        n, rejected, corrected = (int(counts[name]) for name in ("n_tested", "nominal", "holm"))
        if n == 0:
            return Finding("not answerable", "no run can be tested", {"n": 0})
        high = chance_range(n, ALPHA)[1]
        found = (
            f"{rejected} of {counted(n, 'run')} reject ({corrected} after Holm); chance gives {n * ALPHA:.1f}, "
            f"at most {high} in 97.5 % of cases"
        )
        numbers = {"n": n, "rejected": rejected, "after_holm": corrected, "by_chance_at_most": high}
        return decide(corrected > 0 or rejected > high, found, numbers)

    return check


def repeats(evidence: Evidence) -> Finding:
    cells = stability(evidence["gaps"])
    several = cells[cells["n"] > 1]
    if several.empty:
        return Finding("not answerable", "no cell has a second tested run", {"n_cells": 0})
    audited, paper = (int(several[f"{test}_all"].astype(bool).sum()) for test in ("audited", "paper"))
    n = len(several)
    found = (
        f"every seed rejects in {paper} of {counted(n, 'cell')} by {PAPER.label} and in {audited} by {AUDITED.label}"
    )
    numbers: dict[str, float] = {"n_cells": n, "paper": paper, "audited": audited}
    spread = float(several["max_gap_spread"].max())
    if np.isfinite(spread):  # without a shared bin there is no gap to move
        found += f"; the largest gap moves by up to {spread:.2f} between seeds"
        numbers["largest_spread"] = spread
    return decide(paper + audited > 0, found, numbers)


def no_order(evidence: Evidence) -> Finding:
    gaps = evidence["gaps"].dropna(subset=["max_gap"]).astype({"max_gap": float})
    keys = ["suite", "backbone", "dataset", "seed"]
    # One pair per training seed: a Full-AR run beside several block sizes would be several pairs that are not
    # independent. A run whose seed nobody knows has no partner.
    block, full = (gaps[gaps["variant"] == name].groupby(keys)["max_gap"].mean() for name in ("block_ar", "full_ar"))
    pairs = (block - full).dropna()
    difference = pairs.to_numpy()
    if len(pairs) < fewest_runs(2):
        return too_few(len(pairs), "pair", "of a Block-AR and a Full-AR run", 2)
    p = min(1.0, 2 * min(sign_test(difference).p, sign_test(-difference).p))
    larger = int((difference > 0).sum())
    found = f"Block-AR has the larger gap in {larger} of {len(pairs)} pairs (two-sided sign test, p = {p:.3f})"
    return decide(p <= ALPHA, found, {"n": len(pairs), "block_larger": larger, "p": p})


def error_link(evidence: Evidence) -> Finding:
    links = evidence["error_link"]
    if links.empty:
        return Finding("not answerable", "no run has a routing profile that varies", {"n": 0})
    significant = int((adjust_pvalues(links["p"].to_numpy(float), "holm") <= ALPHA).sum())
    values = links["correlation"].astype(float)
    found = (
        f"Spearman {values.min():+.2f} to {values.max():+.2f} over {counted(len(links), 'run')}, {significant} of them "
        "other than zero after Holm"
    )
    numbers = {"n": len(links), "lowest": values.min(), "highest": values.max(), "significant": significant}
    return decide(significant > 0, found, numbers)
