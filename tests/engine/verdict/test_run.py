"""One sentence per situation: what it says, and what it must never say."""

from __future__ import annotations

import numpy as np
import pytest

from engine.controls import false_alarm_rate
from engine.core.errors import InvalidInput
from engine.core.labels import format_p
from engine.gaps import TestSettings, bootstrap_gap, permutation_test
from engine.verdict import judge


def run(seed: int, slope: float = 0.0, n: int = 6000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence, rho = rng.beta(4, 1.2, n), rng.normal(size=n)
    return confidence, rng.random(n) < np.clip(confidence + slope * np.tanh(rho), 0, 1), rho


def quick(*data, **settings):
    return judge(*data, n_replicates=60, n_resamples=300, **settings)


@pytest.mark.parametrize(
    ("p", "text"), [(0.481, "p = 0.48"), (0.0417, "p = 0.042"), (0.00099, "p < 0.001"), (1.0, "p = 1.00")]
)
def test_format_p(p: float, text: str):
    assert format_p(p) == text


def test_no_evidence_comes_with_what_could_have_been_seen():
    verdict = quick(*run(0), feature="routing entropy")
    assert verdict.outcome == "no_evidence"
    assert verdict.paper.p_value > 0.05
    assert verdict.primary.p_value > 0.05
    assert "no evidence beyond confidence" in verdict.sentence
    assert f"at most {verdict.paper.observed:.2f}" in verdict.sentence
    assert format_p(verdict.paper.p_value) in verdict.sentence
    assert format_p(verdict.primary.p_value) in verdict.sentence
    assert f"{verdict.detectable['primary']:.2f}" in verdict.sentence
    assert "routing entropy" in verdict.sentence
    assert verdict.gap.weighted_gap_ci is not None


def test_the_settings_of_the_papers_test_are_in_force():
    data, settings = run(0), TestSettings(7, 20, (0.2, 0.8))
    verdict, expected = quick(*data, settings=settings), permutation_test(*data, **settings.keywords)
    assert verdict.paper.p_value == expected.p_value != quick(*data).paper.p_value
    assert f"at most {expected.observed:.2f}" in verdict.sentence
    assert verdict.gap.max_gap_ci == bootstrap_gap(*data, n_resamples=300, **settings.keywords).max_gap_ci
    alarms = false_alarm_rate(*data, tests=("paper", "paper_cmh"), n_replicates=60, settings=settings)
    assert verdict.false_alarm["paper"] == alarms.rate("paper")
    assert alarms.table["label"].tolist() == ["the paper's test, 7 bins", "CMH, 7 bins"]


def test_a_strong_effect_is_evidence_in_this_run_only():
    verdict = quick(*run(1, slope=0.25))
    assert verdict.outcome == "evidence"
    assert "both tests" in verdict.sentence
    assert "other seeds" in verdict.sentence
    assert "rises" in verdict.sentence


def test_disagreement_is_said():
    verdict = quick(*run(3, slope=0.04))
    assert verdict.paper.p_value > 0.05 > verdict.primary.p_value
    assert verdict.outcome == "disagreement"
    assert "disagree" in verdict.sentence


def test_a_test_that_raises_false_alarms_is_not_believed():
    # rho is confidence with a little noise, on 15 coarse bins of which most samples share one.
    rng = np.random.default_rng(0)
    confidence = np.where(rng.random(8000) < 0.85, 0.94 + 0.06 * rng.random(8000), rng.random(8000))
    correct = rng.random(8000) < confidence**4
    rho = confidence + 0.004 * rng.normal(size=8000)
    verdict = quick(confidence, correct, rho)
    assert verdict.paper.p_value <= 0.05
    assert verdict.false_alarm["paper"] > 0.3
    assert verdict.outcome in ("unreliable", "disagreement")
    assert "has a false-alarm rate of" in verdict.sentence


def test_what_a_test_that_raises_false_alarms_could_have_seen_cannot_be_stated():
    # The paper's test does not reject here, though it does in most worlds without any gap: no power follows from that.
    rng = np.random.default_rng(7)
    confidence = np.clip(1 - rng.beta(0.5, 6, 4000) * 0.999, 0.1, 1)
    correct = rng.random(4000) < confidence**8
    verdict = quick(confidence, correct, confidence + rng.normal(0, 0.01, 4000))
    assert verdict.outcome == "no_evidence"
    assert verdict.false_alarm["paper"] > 0.5
    assert verdict.detectable["paper"] is None
    assert "would not detect" not in verdict.sentence
    assert verdict.sentence.endswith("so its power cannot be stated.")


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_without_controls_the_verdict_says_so(slope: float):
    verdict = quick(*run(1, slope), controls=False)
    assert verdict.outcome == ("evidence" if slope else "no_evidence")
    assert verdict.detectable is None
    assert verdict.false_alarm is None
    said = "False-alarm rates were not checked" if slope else "The power of these tests was not measured"
    assert said in verdict.sentence


@pytest.mark.parametrize(
    ("correct", "rho"),
    [(None, np.ones(200)), (np.ones(200), None), (np.zeros(200), None)],
    ids=["constant rho", "all correct", "all wrong"],
)
def test_nothing_to_test_is_said_not_raised(correct, rho):
    confidence, drawn, values = run(0, n=200)
    verdict = quick(confidence, drawn if correct is None else correct, values if rho is None else rho)
    assert verdict.outcome in ("untestable", "no_evidence")
    assert "could not be run" in verdict.sentence
    assert "None" not in verdict.sentence
    assert "nan" not in verdict.sentence


def test_few_samples_say_little():
    verdict = quick(*run(0, n=60))
    assert "says little" in verdict.sentence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("slope", [0.0, 0.04, 0.2])
def test_wording_never_overclaims(seed: int, slope: float):
    sentence = quick(*run(seed, slope, n=1500)).sentence.lower()
    for word in ("proves", "does not matter", "no effect", "irrelevant", "no difference", "significant", "certainly"):
        assert word not in sentence


def test_same_seed_same_verdict_and_progress_reaches_one():
    data = run(2, n=1000)
    seen: list[float] = []
    first = quick(*data, progress=lambda share, _: seen.append(share))
    assert first.sentence == quick(*data).sentence
    assert seen[-1] == 1.0
    assert seen == sorted(seen)


def test_bad_input_is_named():
    with pytest.raises(InvalidInput, match="alpha"):
        quick(*run(0, n=100), alpha=0)
    with pytest.raises(InvalidInput, match="rho"):
        quick([0.5, 0.5], [1, 0], [1, np.nan])


def test_a_test_that_could_not_run_is_not_said_to_disagree():
    rng = np.random.default_rng(0)
    rho = (rng.random(6000) < 0.5).astype(float)
    confidence = rng.beta(4, 1.2, 6000)
    verdict = quick(confidence, rng.random(6000) < np.clip(confidence + 0.1 * (rho - 0.5), 0, 1), rho)
    assert verdict.paper.p_value is None
    assert verdict.primary.p_value < 0.05
    assert "disagree" not in verdict.sentence
    assert "The primary test alone" in verdict.sentence


def test_too_few_samples_to_match_confidence_is_not_evidence():
    rng = np.random.default_rng(3)
    confidence = rng.random(40)
    correct = confidence > 0.5 + 0.1 * rng.normal(size=40)
    verdict = quick(confidence, correct, confidence + 0.02 * rng.normal(size=40), controls=False)
    assert verdict.primary.p_value < 0.05
    assert verdict.outcome == "unreliable"
    assert "(confidence is not matched by 4 bins; accuracy rises" in verdict.sentence
    assert "the primary test's rejection does not count" in verdict.sentence


def test_an_primary_test_that_matches_nothing_is_not_called_finer():
    rng = np.random.default_rng(0)
    confidence, rho = np.full(90, 0.97), rng.normal(size=90)  # the paper's test alone rejects a dip in the middle
    verdict = quick(confidence, np.abs(rho) > 0.4, rho, controls=False, settings=TestSettings(quantiles=(0.4, 0.6)))
    assert "finer" not in verdict.sentence
