"""Conclusions about the probes of the calibration error."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
from scipy.stats import binom

from engine.core.pvalues import sign_test
from engine.paper.findings import ALPHA, Finding, decide, fewest_runs, too_few
from engine.paper.sources import Evidence
from engine.probes import ProbeSweep


def _contrast(evidence: Evidence, name: str) -> pd.DataFrame:
    sweep: ProbeSweep = evidence["probes"]
    return sweep.contrasts[(sweep.contrasts["contrast"] == name) & sweep.contrasts["estimate"].notna()]


def probe_gain(name: str, against: str, *, expected: bool) -> Callable[[Evidence], Finding]:
    """Whether the full-profile network gains over another probe; the paper expects it to, or not to."""

    def check(evidence: Evidence) -> Finding:
        rows = _contrast(evidence, name)
        if len(rows) < fewest_runs():
            return too_few(len(rows), "run", "with a probed profile")
        test = sign_test(rows["estimate"].to_numpy(float))
        found = (
            f"higher R² than {against} in {test.n_better} of {test.n_runs} runs, by {test.mean:+.3f} on average "
            f"(sign test, p = {test.p:.3f})"
        )
        gains = test.p <= ALPHA
        return decide(gains != expected, found, {"n": test.n_runs, "mean": test.mean, "p": test.p})

    return check


def routing_specific(evidence: Evidence) -> Finding:
    rows = _contrast(evidence, "routing_specific").dropna(subset=["p_value"])
    n = len(rows)
    if n == 0:
        return Finding("not answerable", "no run has a probed profile", {"n": 0})
    rejected = int((rows["p_value"].astype(float) <= ALPHA).sum())
    p = float(binom.sf(rejected - 1, n, ALPHA)) if rejected else 1.0
    mean = float(rows["estimate"].astype(float).mean())
    found = (
        f"above shuffled profiles of like confidence in {rejected} of {n} runs at p ≤ {ALPHA:g} (chance gives "
        f"{n * ALPHA:.1f}); over an unrestricted shuffle R² gains {mean:+.3f} on average"
    )
    return decide(p <= ALPHA, found, {"n": n, "rejected": rejected, "mean": mean, "p": p})
