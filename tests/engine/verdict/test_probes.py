"""The sentences about probes: planted worlds end where they should, and every note and step has its words."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import UnknownName
from engine.core.types import CELL
from engine.probes import Contrast, Note, Reference, audit
from engine.probes.sweep import ProbeSweep
from engine.verdict.probes import STEPS, judge_probe_sweep, judge_probes

SETTINGS = {"n_inits": 3, "n_shuffles": 19}


@pytest.fixture(scope="module")
def repeating():
    """Accuracy is steep in confidence and the profile repeats confidence: the trap."""
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.4, 1, 2000)
    profile = 0.5 + 0.4 * np.tanh(np.outer(confidence - 0.7, [6, 9, -7])) + 0.02 * rng.normal(size=(2000, 3))
    return audit(confidence, profile, rng.random(2000) < 1 / (1 + np.exp(-18 * (confidence - 0.7))), **SETTINGS)


@pytest.fixture(scope="module")
def decisive():
    """The profile decides what is correct."""
    rng = np.random.default_rng(1)
    confidence, profile = rng.uniform(0.4, 1, 2000), rng.random((2000, 4))
    return audit(confidence, profile, profile[:, 1] > 0.3, **SETTINGS)


def made_up(repeating, naive, matched, half, hits, n_shuffles=20):
    """An audit with these contrasts: a line at 0.3, the others placed around it."""
    observed = 0.5
    r2 = np.where(np.arange(n_shuffles) < hits, 0.6, 0.4)
    interval = None if half is None else (matched - half, matched + half)
    differences = np.zeros(3)
    return replace(
        repeating,
        mean={"conf_lin": 0.3, "conf_mlp": 0.3 + naive - matched, "full_mlp": 0.3 + naive},
        naive=Contrast("full_mlp", "conf_lin", differences, naive, None),
        capacity_matched=Contrast("full_mlp", "conf_mlp", differences, matched, interval),
        reference=Reference(r2, observed, (1 + hits) / (1 + n_shuffles)),
        notes=(),
    )


# Planted worlds


def test_the_misleading_reading_is_shown_and_then_taken_apart(repeating):
    outcomes = [judge_probes(repeating, step=step).outcome for step in STEPS]
    assert outcomes == ["misleading", "capacity", "no_evidence"]


def test_a_profile_that_decides_is_evidence(decisive):
    assert [judge_probes(decisive, step=step).outcome for step in STEPS] == ["misleading", "left_over", "evidence"]
    sentence = judge_probes(decisive).sentence
    assert "in 0 of 19 tries (p = 0.050)" in sentence
    assert "says something about the error that confidence does not" in sentence
    assert "other seeds" in sentence


# Words


def test_the_issues_example_in_words(repeating):
    verdict = judge_probes(made_up(repeating, 0.031, 0.001, 0.004, hits=9))
    assert verdict.outcome == "no_evidence"
    assert verdict.sentence == (
        "A network on confidence and routing explains 0.031 more of the error (held-out R²) than a line on confidence; "
        "a network on confidence alone gains 0.030, and shuffled routing does as well in 9 of 20 tries (p = 0.48): no "
        "evidence that the uplift is routing. The power of these probes was not measured."
    )


def test_each_step_knows_no_more_than_it_shows(repeating):
    primary = made_up(repeating, 0.031, -0.002, 0.001, hits=9)
    naive, capacity = (judge_probes(primary, step=step).sentence for step in ("naive", "capacity"))
    assert naive.startswith("The naive reading, which misleads: “A network")
    assert naive.endswith("so routing tells how far confidence can be trusted.” Two controls are missing.")
    assert "confidence alone" not in naive
    assert "gains 0.033 over that line; adding routing to it changes R² by −0.002, 95 % interval −0.003 to −0.001." in (
        capacity
    )
    assert capacity.endswith("Capacity alone accounts for the uplift. One control is missing.")
    assert "shuffled" not in capacity


@pytest.mark.parametrize(
    ("naive", "matched", "half", "hits", "outcome", "words"),
    [
        (0.10, 0.05, 0.01, 0, "evidence", "+0.050, 95 % interval 0.040 to 0.060: in this run routing says something"),
        (0.10, 0.05, 0.01, 5, "no_evidence", "no evidence that the uplift is routing"),
        (0.10, -0.05, 0.01, 0, "trace", "that network is no better than the one on confidence alone (−0.050"),
        (0.10, 0.01, 0.05, 0, "trace", "is not clearly better than the one on confidence alone (+0.010"),
        (0.10, 0.05, None, 0, "trace", "(+0.050): capacity may account for the uplift."),
        (-0.02, 0.05, 0.01, 0, "trace", "yet a line on confidence alone explains as much: there is no uplift"),
        (-0.02, -0.05, 0.01, 9, "no_uplift", "explains no more of the error (held-out R²) than a line on confidence"),
        (-0.02, 0.03, 0.01, 9, "no_uplift", "a network on confidence alone gains nothing (−0.050)"),
    ],
)
def test_every_combination_of_controls(repeating, naive, matched, half, hits, outcome, words):
    verdict = judge_probes(made_up(repeating, naive, matched, half, hits))
    assert verdict.outcome == outcome
    assert words in verdict.sentence


def test_a_run_without_uplift_has_none_to_explain(repeating):
    primary = made_up(repeating, -0.02, -0.05, 0.01, hits=9)
    assert "so there is none to explain" in judge_probes(primary, step="naive").sentence
    assert judge_probes(primary, step="capacity").sentence.endswith("There is no uplift to explain.")
    unclear = judge_probes(made_up(repeating, 0.02, 0.01, 0.05, hits=9), step="capacity").sentence
    assert "Capacity alone may account for the uplift" in unclear


def test_a_stand_in_is_called_one(repeating):
    verdict = judge_probes(made_up(repeating, 0.031, 0.001, 0.004, hits=9), kind="stand_in")
    assert verdict.sentence.startswith("This run has no routing; its extra columns stand in for it. A network on conf")
    assert "and the shuffled stand-in does as well" in verdict.sentence
    assert "no evidence that the uplift is the stand-in" in verdict.sentence
    with pytest.raises(UnknownName, match="kind"):
        judge_probes(repeating, kind="norms")


# Notes


def test_no_profile_says_what_confidence_alone_explains():
    rng = np.random.default_rng(2)
    confidence = rng.uniform(0.4, 1, 300)
    primary = audit(confidence, np.empty((300, 0)), rng.random(300) < confidence, n_inits=2, epochs=20)
    for step in STEPS:
        verdict = judge_probes(primary, kind="nothing", step=step)
        assert verdict.outcome == "untestable"
        assert f"explains {primary.mean['conf_lin']:.3f} of the error with a line".replace("-", "−") in verdict.sentence


def test_a_constant_error_leaves_nothing_to_explain():
    rng = np.random.default_rng(3)
    primary = audit(np.full(60, 0.8), rng.random((60, 2)), np.ones(60), n_inits=2, epochs=5, n_shuffles=2)
    verdict = judge_probes(primary)
    assert verdict.outcome == "untestable"
    assert "the same for every held-out sample" in verdict.sentence


def test_an_error_that_hardly_varies_is_no_evidence(repeating):
    primary = made_up(repeating, 0.10, 0.05, 0.01, hits=0)
    hardly = replace(primary, notes=(Note("near_constant_target", "hardly varies"),))
    verdict = judge_probes(hardly)
    assert verdict.outcome == "unreliable"
    assert verdict.sentence.endswith("no evidence either way.")


def test_without_shuffles_the_last_control_is_missing(repeating):
    verdict = judge_probes(replace(repeating, reference=None))
    assert verdict.outcome == "untestable"
    assert "Without shuffles" in verdict.sentence


# Over a sweep


def sweep_of(matched, p_values, naive=0.1):
    """One cell per run; the capacity-matched contrast is one number for all runs, or one each."""
    each = matched if isinstance(matched, list) else [matched] * len(p_values)
    rows = [
        {"run_id": f"r{i}", "contrast": name, "estimate": value, "p_value": p if name == "routing_specific" else np.nan}
        for i, (p, gain) in enumerate(zip(p_values, each, strict=True))
        for name, value in (("naive", naive), ("capacity_matched", gain), ("routing_specific", gain))
    ]
    contrasts = pd.DataFrame(rows, columns=["run_id", "contrast", "estimate", "p_value"])
    groups = contrasts.rename(columns={"estimate": "mean"}).assign(**dict.fromkeys(CELL, "x"))
    nothing = pd.DataFrame()
    return ProbeSweep(nothing, contrasts, nothing, groups, nothing)


def test_over_a_sweep_rejections_stand_beside_chance():
    # P(at least 3 of 20 at 0.05) is 0.0755, of 4 of 20 is 0.0159.
    few = judge_probe_sweep(sweep_of(-0.02, [0.048] * 3 + [0.5] * 17))
    assert few.outcome == "no_evidence"
    assert few.sentence == (
        "Over 20 runs the network with routing explains 0.100 more of the error than a line on confidence on average, "
        "and −0.020 against a network on confidence alone (higher in 0 of 20 cells). It beats shuffled routing at "
        "p ≤ 0.05 in 3 of 20, where chance alone gives about 1.0: no evidence that the uplift is routing. The power "
        "of these probes was not measured."
    )
    assert judge_probe_sweep(sweep_of(-0.02, [0.048] * 4 + [0.5] * 16)).outcome == "trace"
    evidence = judge_probe_sweep(sweep_of(0.02, [0.048] * 4 + [0.5] * 16))
    assert evidence.outcome == "evidence"
    assert "+0.020 against a network on confidence alone (higher in 20 of 20 cells)" in evidence.sentence
    assert evidence.sentence.endswith("other seeds must show whether it repeats.")


def test_over_a_sweep_a_gain_on_average_is_no_evidence():
    """One large gain lifts the mean above zero; the network is better in 1 of 20 runs."""
    verdict = judge_probe_sweep(sweep_of([2.0] + [-0.02] * 19, [0.048] * 4 + [0.5] * 16))
    assert verdict.outcome == "trace"
    assert "not reliably better than the one on confidence alone (in 1 of 20 runs, sign test p = 1.00)" in (
        verdict.sentence
    )
    # Four runs that all gain have a sign test of 1/16: too few to tell.
    assert judge_probe_sweep(sweep_of(0.02, [0.04] * 4)).outcome == "trace"


def test_over_a_sweep_a_tie_is_not_higher():
    assert "(higher in 0 of 1 cell)" in judge_probe_sweep(sweep_of(0.0, [0.5])).sentence
    assert "(higher in 1 of 1 cell)" in judge_probe_sweep(sweep_of(0.1, [0.5])).sentence


def test_over_a_sweep_without_uplift_none_is_explained():
    nothing = judge_probe_sweep(sweep_of(0.02, [0.5] * 20, naive=-0.03))
    assert nothing.outcome == "no_evidence"
    assert "explains no more of the error than a line" in nothing.sentence
    assert judge_probe_sweep(sweep_of(0.02, [0.048] * 20, naive=-0.03)).outcome == "trace"


def test_over_a_sweep_without_shuffles_nothing_is_tested():
    verdict = judge_probe_sweep(sweep_of(0.02, [np.nan] * 3))
    assert verdict.outcome == "untestable"
    assert verdict.sentence.endswith("Without shuffles there is nothing to compare routing with.")


def test_an_empty_sweep_says_so():
    verdict = judge_probe_sweep(sweep_of(0.0, []))
    assert verdict.outcome == "untestable"
    assert "nothing is pooled" in verdict.sentence
