"""The sentences about a whole cache say what the numbers allow, and no more."""

from __future__ import annotations

import pytest

from engine.verdict import Verdict
from engine.verdict.cache import could_have_seen, judge_cache, judge_stability, reason
from tests.engine.sweep.rows import NONE, table

UNTESTED = {"paper_p": NONE, "primary_p": NONE, "max_gap": NONE, "primary_effect": NONE, "primary_z": NONE}
PAPER, PRIMARY = {"paper_p": 1e-6}, {"primary_p": 1e-6}


def test_no_rejection_is_no_evidence_and_says_what_was_not_checked():
    verdict = judge_cache(table({}, {"primary_p": 0.04}, {}, {}, UNTESTED), feature="mean routing entropy")
    assert verdict.outcome == "no_evidence"
    assert verdict.sentence == (
        "4 of 5 runs can be tested for mean routing entropy. At p ≤ 0.05 the paper's test rejects 0 (0 after Holm's "
        "correction) and the primary test rejects 1 (0 after Holm's correction), where chance alone gives about 0.2: "
        "no evidence beyond confidence in this cache. The power of the tests was not measured here."
    )
    assert verdict.counts.loc["primary", "nominal"] == 1


@pytest.mark.parametrize(
    ("rows", "outcome", "words"),
    [
        ((PRIMARY, {}), "disagreement", "the primary test, which uses every sample, finds a difference"),
        ((PAPER, {}), "disagreement", "read this as no reliable evidence"),
        ((PAPER, PRIMARY), "disagreement", "they reject in different runs"),
        ((PAPER | PRIMARY, {}), "evidence", "In 1 run both tests find a difference"),
        ((PRIMARY | {"paper_p": NONE}, {"paper_p": NONE}), "one_test", "The primary test finds"),
        ((UNTESTED, UNTESTED), "untestable", "None of the 2 runs can be tested"),
        ((UNTESTED,), "untestable", "The only run cannot be tested"),
    ],
)
def test_outcomes_of_a_cache(rows: tuple[dict[str, float], ...], outcome: str, words: str):
    verdict = judge_cache(table(*rows))
    assert verdict.outcome == outcome
    assert words in verdict.sentence
    # Whoever is told of a difference is told that false alarms were not looked at.
    assert ("was not checked here" in verdict.sentence) is ("see" in words)


def test_an_empty_cache_has_no_run_to_test():
    sentence = judge_cache(table({}).iloc[:0]).sentence
    assert sentence == "There is no run that could be tested for the feature, so nothing can be said."


def test_a_test_that_could_not_be_run_is_not_said_to_reject_nothing():
    sentence = judge_cache(table({"paper_p": NONE}, {"paper_p": NONE})).sentence
    assert "the paper's test can be run on none" in sentence
    assert "about 0.1" in sentence


def test_each_test_is_beside_its_own_chance():
    rows = table(*[{} for _ in range(10)], *[{"paper_p": NONE} for _ in range(10)])
    assert "about 0.5 and 1.0" in judge_cache(rows).sentence


def test_stability_sentence_counts_cells():
    falls = {"primary_p": 0.01, "primary_effect": -0.02}
    rows = table(falls, falls | {"max_gap": 0.3}, {"variant": "other"}, {"variant": "other", "primary_effect": -0.01})
    verdict = judge_stability(rows, feature="mean routing entropy")
    assert verdict.outcome == "repeated"
    assert verdict.sentence == (
        "Of 2 cells with several seeds, the primary effect of mean routing entropy keeps its sign over seeds in 1 "
        "(chance alone gives about 1.0), and every seed rejects in 1 by the primary test and in 0 by the paper's. "
        "Between seeds of one cell the largest gap moves by up to 0.20. A primary difference repeats over seeds in 1 "
        "cell, where accuracy falls with the feature, and does not in the other 1."
    )


def test_stability_outcomes():
    rises, falls = ({"primary_p": 0.01, "primary_effect": effect} for effect in (0.02, -0.02))
    nothing = judge_stability(table({}, {"max_gap": 0.2}))
    assert nothing.outcome == "not_repeated"
    assert nothing.sentence.endswith(
        "the largest gap moves by up to 0.10. No primary difference beyond confidence repeats over all seeds of a cell."
    )
    contradiction = judge_stability(table(rises, rises, falls | {"variant": "b"}, falls | {"variant": "b"}))
    assert contradiction.outcome == "contradictory"
    assert "rises with the feature in 1 cell and falls in 1" in contradiction.sentence
    assert judge_stability(table(rises, {"variant": "b"})).outcome == "one_seed"
    assert judge_stability(table(UNTESTED)).outcome == "untestable"
    assert "nan" not in judge_stability(table({"max_gap": NONE}, {"max_gap": NONE})).sentence


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (PAPER | PRIMARY, "Both tests reject after Holm's correction: primary p < 0.001, accuracy +0.010"),
        (
            PRIMARY,
            "Only the primary test rejects after Holm's correction: primary p < 0.001, accuracy +0.010 from the low to",
        ),
        (PAPER, "Only the paper's test rejects after Holm's correction: primary p = 0.50; paper's p < 0.001."),
        ({"paper_p": 0.04}, "Only the paper's test rejects, and not after Holm's correction"),
        ({"paper_p": 0.04, "primary_p": 0.03}, "Both tests reject, but not after Holm's correction"),
        ({}, "Neither test rejects: primary p = 0.50; paper's p = 0.50."),
        ({"paper_p": NONE}, "paper's not testable."),
    ],
)
def test_reasons_to_look(row: dict[str, float], words: str):
    rows = table(row, {}, {})
    assert words in reason(rows.iloc[0].to_dict())


def test_what_could_have_been_seen_over_runs():
    def checked(primary: float | None, paper: float | None, paper_alarms: float = 0.05) -> Verdict:
        alarms = {"primary": 0.05, "paper": paper_alarms}
        return Verdict("no_evidence", "", None, None, None, {"primary": primary, "paper": paper}, alarms, 0.05)

    sentence = could_have_seen([checked(0.031, 0.11), checked(0.042, None)])
    assert sentence.startswith("For the 2 runs shown in detail")
    assert "the primary test would detect a gap of 0.03 to 0.04" in sentence
    assert "the paper's test would detect a gap of 0.11 (in 1 of them none of those tried)" in sentence
    assert "the paper's test would detect none of the gaps tried" in could_have_seen([checked(0.03, None)])
    unsound = checked(0.03, None, paper_alarms=0.9)
    assert "the paper's test raises too many false alarms for its power to be" in could_have_seen([unsound])
    assert (
        "the paper's test would detect a gap of 0.11 (in 1 of them none of those tried; in 1 of them its"
    ) in could_have_seen([checked(0.03, 0.11), checked(0.03, None), unsound])
    unchecked = Verdict("no_evidence", "", None, None, None, None, None, 0.05)
    assert could_have_seen([unchecked]) == "The power of these tests was not measured."
