"""Both tests on every feature that a run has: its routing scalars and whatever scores came with it."""

from __future__ import annotations

import pandas as pd

from engine.core.labels import HEADLINES
from engine.core.pvalues import adjust_tested
from engine.core.types import RunData
from engine.features import FEATURES, available_features, feature
from engine.gaps import permutation_test, trend_test
from engine.gaps.settings import TestSettings


def judge_scores(
    run: RunData,
    *,
    settings: TestSettings = TestSettings(),
) -> pd.DataFrame:
    """One row per feature but confidence itself: name, label, max_gap; paper_p, audited_p and each with `_holm`.

    Holm's correction is over the features of this run, for each test by itself; what cannot be tested is NaN, and
    so is the audited test where there are too few samples to match confidence.
    """
    rows = []
    for name in available_features(run):
        if name == "confidence":
            continue
        rho = feature(run, name)
        paper = permutation_test(run.confidence, run.correct, rho, **settings.keywords)
        audited = trend_test(run.confidence, run.correct, rho)
        label = FEATURES[name].label if name in FEATURES else name
        rows.append(
            {
                "name": name,
                "label": label,
                "max_gap": paper.observed,
                "paper_p": paper.p_value,
                "audited_p": audited.p_value if audited.matched else None,
            }
        )
    table = pd.DataFrame(rows, columns=["name", "label", "max_gap", "paper_p", "audited_p"])
    table = table.astype(dict.fromkeys(("max_gap", "paper_p", "audited_p"), "float64"))
    for test in HEADLINES:
        table[f"{test}_p_holm"] = adjust_tested(table[f"{test}_p"].to_numpy(), "holm")
    return table
