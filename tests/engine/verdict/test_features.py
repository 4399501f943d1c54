"""Every score of a run by both tests: the numbers of the tests themselves, corrected for their number."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.types import RunData
from engine.features import feature
from engine.gaps import combined_test, permutation_test
from engine.verdict.features import judge_scores


def made_up(n: int = 3000) -> RunData:
    rng = np.random.default_rng(3)
    confidence = rng.beta(4, 1.5, n)
    correct = rng.random(n) < confidence
    scores = {"idle": rng.random(n), "telling": rng.normal(size=n) - correct}
    return RunData("a", confidence, correct, rng.random((n, 2)), extra=scores)


def test_the_numbers_are_those_of_the_tests():
    run = made_up()
    table = judge_scores(run).set_index("name")
    assert "confidence" not in table.index
    assert table.index.tolist()[-2:] == ["idle", "telling"]
    assert table.loc["r_agg", "label"] == "mean routing entropy"
    for name in ("r_std", "telling"):
        rho = feature(run, name)
        paper = permutation_test(run.confidence, run.correct, rho)
        assert table.loc[name, "max_gap"] == paper.observed
        assert table.loc[name, "paper_p"] == paper.p_value
        assert table.loc[name, "verdict_p"] == combined_test(run.confidence, run.correct, rho).p_value
    # Holm: the smallest of m p-values is multiplied by m.
    assert table["verdict_p"].idxmin() == "telling"
    assert table.loc["telling", "verdict_p_holm"] == pytest.approx(len(table) * table.loc["telling", "verdict_p"])
    assert table.loc["idle", "verdict_p_holm"] > 0.05


def test_a_run_that_has_nothing_to_test():
    run = RunData("a", np.array([0.5, 0.6]), np.array([True, False]), np.empty((2, 0)))
    assert judge_scores(run).empty
    few = RunData(
        "a", np.array([0.5, 0.6]), np.array([True, False]), np.empty((2, 0)), extra={"x": np.array([1.0, 2.0])}
    )
    table = judge_scores(few)
    assert table["name"].tolist() == ["x"]
    assert table["paper_p_holm"].isna().all()
