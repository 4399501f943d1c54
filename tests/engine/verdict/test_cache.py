"""The sentences about a whole cache say what the numbers allow, and no more."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from engine.gaps.pooled import null_scores
from engine.verdict.cache import could_have_seen, judge_cache, reason
from tests.engine.sweep.rows import NONE, table

UNTESTED = dict.fromkeys(
    ("p_value", "primary_p", "shape_p", "paper_p", "max_gap", "primary_effect", "primary_se"), NONE
)
REJECTS = {"p_value": 1e-6, "primary_p": 1e-6, "primary_effect": -0.1, "primary_se": 0.02}
OTHER = {"variant": "other"}


def test_no_rejection_is_no_evidence_and_says_how_small_an_effect_is_excluded():
    rows = table({"p_value": 0.04}, {}, OTHER, OTHER | {"primary_effect": -0.01}, UNTESTED)
    verdict = judge_cache(rows, feature="mean routing entropy")
    assert (verdict.outcome, verdict.answer) == ("no_evidence", "No evidence beyond confidence in this cache")
    # Cells of 0.01 and 0, each with an error of 0.02 / sqrt(2), so 0.005 with 0.01: 0.005 + 1.645 * 0.01 is excluded.
    assert verdict.detail == (
        "Over the 4 runs that can be tested for mean routing entropy (2 cells), accuracy changes by +0.005 on average "
        "from the low to the high third of samples with similar confidence (95 % interval −0.015 to +0.025; I² = 0 %): "
        "an average effect larger than 0.021 is excluded. At p ≤ 0.05, 1 run rejects (0 after Holm's correction), "
        "where chance gives 0.2 (95 % range 0 to 1); for comparison, the paper's test rejects 0. The effect keeps its "
        "sign over all seeds in 1 of 2 cells with several seeds (1.0 by chance)."
    )
    assert verdict.sentence == f"{verdict.answer}. {verdict.detail}"
    assert verdict.counts.loc["verdict", "nominal"] == 1


@pytest.mark.parametrize(
    ("rows", "outcome", "answer"),
    [
        ((REJECTS, OTHER), "evidence", "Evidence beyond confidence in 1 of 2 cells, not on average"),
        ((REJECTS, OTHER | REJECTS), "evidence", "Evidence beyond confidence in 2 of 2 cells, and on average"),
        ((REJECTS,), "evidence", "Evidence beyond confidence"),
        (({"paper_p": 1e-9}, OTHER), "no_evidence", "No evidence beyond confidence in this cache"),
        (({"shape_p": 1e-6, "p_value": 2e-6}, OTHER), "evidence", "Evidence beyond confidence in 1 of 2 cells, not on"),
        ((UNTESTED, UNTESTED), "untestable", "No run can be tested. None of the 2 runs can be tested for the feature"),
        ((UNTESTED,), "untestable", "No run can be tested. The only run cannot be tested"),
    ],
)
def test_outcomes_of_a_cache(rows: tuple[dict[str, object], ...], outcome: str, answer: str):
    verdict = judge_cache(table(*rows))
    assert verdict.outcome == outcome
    assert verdict.sentence.startswith(answer)
    assert len(verdict.answer.split()) <= 12
    # Whoever is told of a difference is told that false alarms were not looked at.
    assert ("False-alarm rates were not checked" in verdict.sentence) is (outcome == "evidence")


def test_effects_too_small_to_be_seen_in_a_cell_are_seen_on_average():
    small = {"primary_effect": 0.04, "primary_se": 0.02, "primary_p": 0.046, "p_value": 0.09}
    verdict = judge_cache(table(*[small | {"variant": f"v{number}"} for number in range(12)]))
    assert verdict.answer == "Evidence beyond confidence on average, in no single cell"
    assert verdict.counts.loc["verdict", "nominal"] == 0
    assert verdict.p_value == pytest.approx(2 * verdict.pooled.p_value)


def test_the_same_runs_on_the_same_images_are_no_more_evidence_than_one():
    once = {"primary_effect": 0.04, "primary_se": 0.02, "primary_p": 0.046, "p_value": 0.09}
    shared = {"images": "set", "scores": np.array([1.0])}
    rows = table(*[once | shared | {"variant": f"v{number}"} for number in range(12)])
    verdict = judge_cache(rows)
    assert verdict.outcome == "no_evidence"
    assert verdict.pooled.standard_error == pytest.approx(0.02)


def test_caches_without_effect_are_called_so(monkeypatch):
    """Correlated runs in which nothing is there: evidence in at most 5 % (here of the trend; shape stays at 0.5)."""
    monkeypatch.setattr("engine.sweep.summary.null_scores", partial(null_scores, n_draws=20))  # decides nothing
    rng, found = np.random.default_rng(0), []
    scores = rng.normal(size=(12, 12)) + 2 * rng.normal(size=12)
    scores /= np.linalg.norm(scores, axis=1, keepdims=True)
    z = rng.multivariate_normal(np.zeros(12), scores @ scores.T, 80)
    for draw in z:
        given = [
            {"variant": f"v{run // 3}", "images": "set", "scores": scores[run], "primary_effect": 0.02 * draw[run],
             "primary_p": 2 * norm.sf(abs(draw[run])), "p_value": 2 * norm.sf(abs(draw[run]))}
            for run in range(12)
        ]  # fmt: skip
        found.append(judge_cache(table(*given)).outcome == "evidence")
    assert np.mean(found) <= 0.1  # 5 % and twice its simulation error


def test_an_empty_cache_has_no_run_to_test():
    detail = judge_cache(table({}).iloc[:0]).detail
    assert detail == "There is no run that could be tested for the feature, so nothing can be said."


def test_a_test_that_could_not_be_run_is_not_said_to_reject_nothing():
    assert "the paper's test can test none" in judge_cache(table({"paper_p": NONE}, {"paper_p": NONE})).detail


def test_cells_of_one_run_say_nothing_about_other_seeds():
    detail = judge_cache(table({}, OTHER)).detail
    assert detail.endswith("No cell has a second tested run, so nothing is known about other seeds.")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            REJECTS | {"shape_p": 0.02},
            "Rejects after Holm's correction: p < 0.001 (trend p < 0.001, shape p = 0.020); accuracy −0.100 from the "
            "low to the high third of samples with similar confidence. Paper's test p = 0.50.",
        ),
        ({"p_value": 0.04}, "Rejects, but not after Holm's correction: p = 0.040"),
        ({"paper_p": NONE, "shape_p": NONE}, "Does not reject: p = 0.50 (trend p = 0.50); accuracy +0.010"),
        ({"paper_p": NONE}, "Paper's test not testable."),
        (UNTESTED | {"paper_p": 0.2}, "Only the paper's test can be run: p = 0.20."),
    ],
)
def test_reasons_to_look(row: dict[str, float], words: str):
    rows = table(row, {}, {})
    assert words in reason(rows.iloc[0].to_dict())


def test_what_could_have_been_seen_over_runs():
    def checked(gap: float | None, *, broken: bool = False) -> SimpleNamespace:
        positive = SimpleNamespace(detectable={("monotone", "accuracy"): gap})
        return SimpleNamespace(positive=positive, negative=SimpleNamespace(broken=lambda _: broken))

    opening = "shown in detail the controls were simulated: "
    assert could_have_seen([checked(0.031), checked(0.042)]) == (
        f"For the 2 runs {opening}in 80 % of such runs a monotone gap of 0.03 to 0.04 would be detected."
    )
    assert could_have_seen([checked(0.03), checked(None), checked(0.03, broken=True)]).endswith(
        "a monotone gap of 0.03 would be detected (in 1 of them none of those tried; in 1 of them the false-alarm rate "
        "is too high)."
    )
    assert could_have_seen([checked(None)]).endswith("no gap tried would be detected in 80 % of such runs.")
    assert could_have_seen([checked(0.03, broken=True)]).endswith("too many false alarms for its power to be stated.")
    unchecked = SimpleNamespace(positive=None, negative=None)
    assert could_have_seen([unchecked]) == "The power of the tests was not measured."
