"""From three arrays to one sentence. Pages, command line and report all use it; nobody else phrases verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from numpy.typing import ArrayLike

from engine.controls import FalseAlarms, PowerCurve, false_alarm_rate, power_curve, raises_false_alarms
from engine.core import validation
from engine.core.labels import HEADLINES, capital, format_p
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import Progress
from engine.gaps.bootstrap import BootstrapResult, bootstrap_gap_of_counts
from engine.gaps.permutation import PermutationResult, permutation_test_of_counts
from engine.gaps.settings import TestSettings
from engine.gaps.statistics.trend import trend_test
from engine.gaps.stratified import StratifiedResult
from engine.verdict.wording import LOW_TO_HIGH, OTHER_SEEDS, UNCHECKED

_NAMES = {test: capital(label) for test, label in HEADLINES.items()}
Outcome = Literal["no_evidence", "evidence", "disagreement", "unreliable", "untestable"]


@dataclass(frozen=True, eq=False)
class Verdict:
    """Both tests of one run and feature, what they could have seen, and how to say it.

    paper, primary : the two tests; gap : both gaps with bootstrap intervals.
    detectable : smallest gap each test would have found with 80 % power (None: none of those tried, or the test raises
        false alarms, so that what it finds is not the gap).
    false_alarm : share of data sets simulated without effect that each test rejects. Both are None without controls.
    """

    outcome: Outcome
    sentence: str
    paper: PermutationResult
    primary: StratifiedResult
    gap: BootstrapResult
    detectable: Mapping[str, float | None] | None
    false_alarm: Mapping[str, float] | None
    alpha: float


def _paper_clause(paper: PermutationResult, feature: str) -> str:
    if paper.p_value is None or paper.observed is None:
        return f"the paper's test could not be run ({paper.gap.notes[-1]})"
    return (
        f"at matched confidence the low and high tertiles of {feature} differ by at most {paper.observed:.2f} "
        f"in accuracy (the paper's test, exact {format_p(paper.p_value)})"
    )


def _primary_clause(primary: StratifiedResult, alpha: float) -> str:
    if primary.p_value is None or primary.effect is None:
        return f"the primary test could not be run ({primary.notes[-1]})"
    remarks = list(primary.notes[-1:])
    if primary.p_value <= alpha:
        direction = "rises" if primary.effect > 0 else "falls"
        remarks.append(f"accuracy {direction} by {abs(primary.effect):.3f} {LOW_TO_HIGH}")
    clause = f"the primary trend test gives {format_p(primary.p_value)}"
    return f"{clause} ({'; '.join(remarks)})" if remarks else clause


def _power_clause(
    detectable: Mapping[str, float | None] | None, false_alarm: Mapping[str, float] | None, alpha: float, largest: float
) -> str:
    if detectable is None or false_alarm is None:
        return "The power of these tests was not measured."
    primary, paper = detectable["primary"], detectable["paper"]
    if primary is not None and paper is not None:
        return (
            f"In 80 % of such runs the primary test would detect a gap of {primary:.2f} and the paper's test one of "
            f"{paper:.2f}."
        )
    unsound = [name for name in detectable if raises_false_alarms(false_alarm[name], alpha)]
    if primary is None and paper is None and not unsound:
        return f"Neither test would detect even a gap of {largest:.2f} in 80 % of such runs, so this says little."
    clauses = []
    for name in ("primary", "paper"):
        gap = detectable[name]
        if name in unsound:
            clauses.append(
                f"{_NAMES[name]} has a false-alarm rate of {_percent(false_alarm[name])}, so its power cannot be "
                "stated."
            )
        elif gap is None:
            clauses.append(f"{_NAMES[name]} would not detect even a gap of {largest:.2f} in 80 % of such runs.")
        else:
            clauses.append(f"{_NAMES[name]} would detect a gap of {gap:.2f} in 80 % of such runs.")
    return " ".join(clauses)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _phrase(
    paper: PermutationResult,
    primary: StratifiedResult,
    feature: str,
    alpha: float,
    false_alarm: Mapping[str, float] | None,
    detectable: Mapping[str, float | None] | None,
    largest_delta: float,
) -> tuple[Outcome, str]:
    """The outcome and its wording. "No evidence" never becomes "evidence of none"; one run is never called stable."""
    clauses = capital(f"{_paper_clause(paper, feature)}, and {_primary_clause(primary, alpha)}")
    p_values = {"paper": paper.p_value, "primary": primary.p_value}
    if all(p is None for p in p_values.values()):
        return "untestable", f"{clauses}: nothing can be said about this run."
    rejecting = [name for name, p in p_values.items() if p is not None and p <= alpha]
    if not rejecting:
        seen = _power_clause(detectable, false_alarm, alpha, largest_delta)
        return "no_evidence", f"{clauses}: no evidence beyond confidence. {seen}"
    caution, believed = _discount(rejecting, false_alarm or {}, alpha, unmatched=not primary.matched)
    if not believed:
        return "unreliable", f"{clauses}.{caution} That leaves no evidence beyond confidence."
    stability = f"{OTHER_SEEDS}."
    if false_alarm is None:
        stability += f" {UNCHECKED}"
    if believed == ["paper", "primary"]:
        return "evidence", f"{clauses}: both tests find a difference beyond confidence in this run; {stability}"
    alone = _NAMES[believed[0]]
    other = "primary" if believed == ["paper"] else "paper"
    if p_values[other] is None or other in rejecting:
        return "evidence", f"{clauses}.{caution} {alone} alone finds a difference beyond confidence here; {stability}"
    if believed == ["primary"]:
        return (
            "disagreement",
            f"{clauses}.{caution} The two disagree: the primary test, which uses every sample, finds a difference "
            "beyond confidence in this run, and the paper's test does not confirm it; check other seeds before "
            "believing either.",
        )
    audit = "the finer primary test" if primary.matched else "the primary test"
    return (
        "disagreement",
        f"{clauses}.{caution} The two disagree: the paper's test rejects and {audit} does not confirm it; read this as "
        "no reliable evidence beyond confidence.",
    )


def _discount(
    rejecting: list[str], false_alarm: Mapping[str, float], alpha: float, *, unmatched: bool
) -> tuple[str, list[str]]:
    """Which rejections are believed, and why the others are not.

    A test that raises false alarms where only confidence matters is not believed; nor is a trend in too few bins to
    match confidence, unless the controls have shown it to be sound.
    """
    caution, believed = "", []
    for name in rejecting:
        rate = false_alarm.get(name)
        if rate is not None and raises_false_alarms(rate, alpha):
            caution += (
                f" {_NAMES[name]} has a false-alarm rate of {_percent(rate)}, so its rejection here does not count."
            )
        elif name == "primary" and unmatched and rate is None:
            caution += " With too few samples to match confidence, the primary test's rejection does not count."
        else:
            believed.append(name)
    return caution, believed


def judge(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    feature: str = "the feature",
    controls: bool = True,
    alpha: float = 0.05,
    n_resamples: int = 5000,
    n_replicates: int = 400,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> Verdict:
    """Does rho say anything about correctness that confidence does not? Both tests, their controls, one sentence.

    feature : how rho is called in the sentence. controls : simulate what the tests can and cannot see on this run
    (about a second at n = 10,000); without them the verdict says that this was not checked. settings : of the
    paper's test.
    """
    keep_blas_to_one_thread()
    validation.fraction("alpha", alpha)
    contingency = settings.tabulate(confidence, correct, rho)
    paper = permutation_test_of_counts(contingency, min_support=settings.min_support)
    primary = trend_test(confidence, correct, rho)
    gap = bootstrap_gap_of_counts(contingency, n_resamples=n_resamples, seed=seed, min_support=settings.min_support)
    alarms: FalseAlarms | None = None
    power: PowerCurve | None = None
    if controls:

        def part(start: float) -> Progress | None:
            if progress is None:
                return None
            return lambda share, text: progress(start + share / 2, text)

        alarms = false_alarm_rate(
            confidence,
            correct,
            rho,
            tests=("paper", "primary"),
            n_replicates=n_replicates,
            alpha=alpha,
            seed=seed,
            settings=settings,
            progress=part(0.0),
        )
        power = power_curve(
            confidence,
            correct,
            rho,
            n_replicates=n_replicates,
            alpha=alpha,
            seed=seed,
            settings=settings,
            progress=part(0.5),
        )
    false_alarm = None if alarms is None else {test: alarms.rate(test) for test in ("paper", "primary")}
    detectable = None if power is None else power.detectable
    largest = 0.0 if power is None else power.deltas[-1]
    outcome, sentence = _phrase(paper, primary, feature, alpha, false_alarm, detectable, largest)
    return Verdict(outcome, sentence, paper, primary, gap, detectable, false_alarm, alpha)
