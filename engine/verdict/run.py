"""From three arrays to one answer. Pages, command line and report all use it; nobody else phrases verdicts on a run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from numpy.typing import ArrayLike

from engine.controls import (
    VERDICT,
    FalseAlarms,
    PositiveControl,
    RealControl,
    false_alarm_rate,
    positive_control,
    real_control,
)
from engine.controls.simulation import Simulator
from engine.core import validation
from engine.core.labels import capital, counted, format_p, listed, percent, signed
from engine.core.threads import keep_blas_to_one_thread
from engine.core.types import Progress, silent
from engine.gaps.bootstrap import BootstrapResult, bootstrap_gap_of_counts
from engine.gaps.bound import EffectBound, effect_bound
from engine.gaps.combined import combined_test, echoes_confidence
from engine.gaps.gain import Estimate, Gain, routing_gain
from engine.gaps.ladder import LABELS, Rung, ladder_test
from engine.gaps.permutation import PermutationResult, permutation_test_of_counts
from engine.gaps.settings import TestSettings
from engine.gaps.shape import ShapeResult
from engine.gaps.stratified import StratifiedResult
from engine.verdict.wording import OTHER_SEEDS, UNCHECKED

Outcome = Literal["no_evidence", "evidence", "unreliable", "untestable"]
_CARRIES = (
    "Evidence beyond confidence; unresolved beyond the rest of the output",
    "Evidence beyond confidence and softmax shape; unresolved beyond that",
    "Evidence beyond confidence, shape and class; unresolved beyond the whole output",
    "Evidence beyond confidence, and beyond the whole output",
)
"""The answer by the last rung on which there is evidence."""
_CONTROL_REPLICATES = 100


@dataclass(frozen=True, eq=False)
class Verdict:
    """What the protocol says about one run and feature, and all that it rests on.

    answer : at most twelve words; detail : one or two sentences with the numbers.
    p_value : of the primary trend and the shape test combined; it decides, with the negative control.
    ladder : rung 0 is the primary test; the others need the model's outputs. bound : the effect, its interval and how
    small an effect is excluded. paper : the paper's test, which describes; paper_power : how often it would reject an
    effect of the size observed. gain, negative, positive, paper_power : None without controls.
    """

    outcome: Outcome
    answer: str
    detail: str
    p_value: float | None
    primary: StratifiedResult
    shape: ShapeResult
    ladder: tuple[Rung, ...]
    bound: EffectBound | None
    gain: Gain | None
    paper: PermutationResult
    paper_power: float | None
    gap: BootstrapResult
    negative: FalseAlarms | None
    positive: PositiveControl | None
    alpha: float

    @property
    def sentence(self) -> str:
        return f"{self.answer}. {self.detail}"

    @property
    def blind_spot(self) -> Estimate | None:
        """Half the effect: what no calibrator of confidence alone removes in the worse outer third (Proposition 2)."""
        if self.bound is None:
            return None
        near = max(0.0, self.bound.low, -self.bound.high)
        far = max(abs(self.bound.low), abs(self.bound.high))
        return Estimate(abs(self.bound.effect) / 2, near / 2, far / 2)

    @property
    def paper_sentence(self) -> str:
        """What the paper's own test says, and how far it could have seen; a description."""
        paper = self.paper
        if paper.p_value is None or paper.observed is None:
            return f"The paper's test could not be run: {paper.gap.notes[-1]}."
        said = f"The paper's test: largest gap {paper.observed:.2f}, exact {format_p(paper.p_value)}"
        if self.negative is not None and self.negative.broken("paper"):
            return f"{said}; it rejects {percent(self.negative.rate('paper'))} of simulations without effect here."
        if self.paper_power is None:
            return f"{said}. Its power was not measured here; see Controls."
        return f"{said}; it would reject in {percent(self.paper_power)} of runs with an effect of the size observed."


def judge(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    *,
    feature: str = "the feature",
    outputs: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    others: Mapping[str, ArrayLike] | None = None,
    controls: bool = True,
    alpha: float = 0.05,
    n_resamples: int = 5000,
    n_replicates: int = 400,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> Verdict:
    """Does rho say anything about correctness that confidence does not, and how far does that carry?

    feature : how rho is called in sentences. outputs : (n, K) logits or probabilities, for the rungs beyond confidence.
    clusters : the source that samples share. others : features known to matter, by name, such as the predictive
    entropies of other runs on these samples. controls : simulate what the tests can and cannot see on this run, and
    measure the gain (about 1.5 s at n = 10,000). settings : of the paper's test.
    """
    keep_blas_to_one_thread()
    validation.fraction("alpha", alpha)
    contingency = settings.tabulate(confidence, correct, rho)
    paper = permutation_test_of_counts(contingency, min_support=settings.min_support)
    gap = bootstrap_gap_of_counts(contingency, n_resamples=n_resamples, seed=seed, min_support=settings.min_support)
    tested = combined_test(confidence, correct, rho, clusters=clusters)
    primary = tested.primary
    bound: EffectBound | None = None
    ladder: tuple[Rung, ...] = ()
    if primary.effect is not None and primary.standard_error is not None:
        bound = effect_bound(primary.effect, primary.standard_error, alpha)
        ladder = (Rung(0, LABELS[0], primary.p_value, primary.z, primary.effect, primary.standard_error, 0),)
        if outputs is not None:
            ladder += ladder_test(confidence, correct, rho, outputs, clusters=clusters, seed=seed)
    negative = positive = gain = power = None
    if controls:
        report = progress or silent
        negative = false_alarm_rate(
            confidence, correct, rho, tests=(VERDICT, "paper"), n_replicates=n_replicates, alpha=alpha, seed=seed,
            settings=settings, progress=lambda share, text: report(0.5 * share, text),
        )  # fmt: skip
        report(0.5, "planting effects")
        positive = positive_control(confidence, correct, rho, n_replicates=_CONTROL_REPLICATES, alpha=alpha, seed=seed)
        report(0.85, "measuring the gain")
        gain = routing_gain(confidence, correct, rho, clusters=clusters, seed=seed)
        if bound is not None:
            power = _paper_power(confidence, correct, rho, abs(bound.effect), alpha, seed, settings)
        report(1.0, "done")
    echo = echoes_confidence(*validation.samples(confidence, correct, rho)[::2])
    outcome = _outcome(tested.p_value, primary, negative, alpha, echo=echo)
    verdict = Verdict(
        outcome, "", "", tested.p_value, primary, tested.shape, ladder, bound, gain, paper, power, gap, negative,
        positive, alpha,
    )  # fmt: skip
    real = None
    if controls and others:
        real = real_control(confidence, correct, others, clusters=clusters, alpha=alpha)
    return with_real_control(verdict, real, feature)


def with_real_control(verdict: Verdict, real: RealControl | None, feature: str) -> Verdict:
    """The same verdict beside what is known of other runs on these samples, phrased anew."""
    positive = verdict.positive and replace(verdict.positive, real=real)
    answer, detail = _phrase(
        verdict.outcome, verdict.p_value, verdict.primary, verdict.shape, verdict.ladder, verdict.bound, verdict.gain,
        verdict.negative, positive,
    )  # fmt: skip
    return replace(verdict, answer=answer, detail=detail.replace("the feature", feature), positive=positive)


def _paper_power(
    confidence: ArrayLike,
    correct: ArrayLike,
    rho: ArrayLike,
    delta: float,
    alpha: float,
    seed: int,
    settings: TestSettings,
) -> float:
    bench = Simulator(confidence, correct, rho, ("paper",), settings)
    planted = bench.planted(bench.world("logistic"), min(delta, 1.0), "monotone", "accuracy")
    (summary,) = bench.summarise([planted], 2 * _CONTROL_REPLICATES, (seed,))["paper"]
    return float((bench.tests["paper"].pvalues(summary) <= alpha).mean())


def _outcome(
    p_value: float | None, primary: StratifiedResult, negative: FalseAlarms | None, alpha: float, *, echo: bool
) -> Outcome:
    """The combined p decides; a rejection counts unless the negative control, or too few bins, speak against it.

    echo : rho has the order of confidence, so no test can tell the two apart.
    """
    if p_value is None:
        return "untestable"
    if p_value > alpha:
        return "no_evidence"
    broken = not primary.matched if negative is None else negative.broken(VERDICT)
    return "unreliable" if broken or echo else "evidence"


def _phrase(
    outcome: Outcome,
    p_value: float | None,
    primary: StratifiedResult,
    shape: ShapeResult,
    ladder: tuple[Rung, ...],
    bound: EffectBound | None,
    gain: Gain | None,
    negative: FalseAlarms | None,
    positive: PositiveControl | None,
) -> tuple[str, str]:
    """Answer and detail. "No evidence" never becomes "evidence of none"; one run is never called stable."""
    if outcome == "untestable" or p_value is None:
        return "Cannot tell: there is nothing to test in this run", f"{capital(primary.notes[-1])}."
    p_values = [f"trend {format_p(primary.p_value)}"] if primary.p_value is not None else []
    p_values += [f"shape {format_p(shape.p_value)}"] if shape.p_value is not None else []
    found = f"{', '.join(p_values)}, combined {format_p(p_value)}"
    if outcome == "unreliable":
        if (negative is None and primary.matched) or (negative is not None and not negative.broken(VERDICT)):
            why = "but the feature has the same order as confidence, so the two cannot be told apart"
        elif negative is None:
            why = f"with too few samples to match confidence ({primary.notes[-1]}) the rejection does not count"
        else:
            why = (
                f"but it also rejects {percent(negative.rate(VERDICT))} of simulations in which only confidence matters"
            )
        answer = "Cannot tell: on this run the test raises false alarms"
        return answer, f"The test rejects ({found}), {why}. That leaves no evidence beyond confidence."
    effect = f"No trend could be measured ({found})"
    if bound is not None:
        interval = f"{signed(bound.low)} to {signed(bound.high)}"
        effect = f"Accuracy changes by {signed(bound.effect)} (95 % interval {interval}) {_BY_THIRDS}: {found}"
    if outcome == "evidence":
        last = next((rung.number - 1 for rung in ladder[1:] if not _rejects(rung, bound)), 3)
        answer = _CARRIES[last] if len(ladder) > 1 else "Evidence beyond confidence in this run"
        carried = primary.p_value is not None and primary.p_value <= bound.alpha if bound else False
        return (
            answer,
            f"{effect}{'' if carried else _SHAPED}. {_how_far(ladder, gain)}{'' if negative else f' {UNCHECKED}'}",
        )
    excluded = "" if bound is None else f"; a monotone effect larger than {bound.excluded:.3f} is excluded"
    return "No evidence beyond confidence in this run", f"{effect}{excluded}. {_could_see(positive, negative)}"


_BY_THIRDS = "from the low to the high third of the feature among samples with similar confidence"
_SHAPED = "; the shape test carries this, so accuracy does not simply rise or fall with the feature"


def _rejects(rung: Rung, bound: EffectBound | None) -> bool:
    return bound is not None and rung.p_value is not None and rung.p_value <= bound.alpha


def _how_far(ladder: tuple[Rung, ...], gain: Gain | None) -> str:
    """`Beyond the shape of the softmax it is −0.012 ± 0.004 (p = 0.003), ...; using it explains 0.2 % of ...`"""
    names = ("the softmax's shape", "shape and class", "the whole output")
    rungs = [
        f"beyond {name} {signed(rung.effect)} ± {rung.standard_error:.3f} ({format_p(rung.p_value)})"
        for name, rung in zip(names, ladder[1:], strict=False)
        if rung.effect is not None and rung.standard_error is not None and rung.p_value is not None
    ]
    clauses = [f"{listed(rungs)}"] if rungs else []
    if gain is not None:
        share = max(gain.share, 0.0)
        said = "less than 0.1 %" if share < 0.001 else percent(share, 1)
        clauses.append(f"using the feature removes {said} of the squared error that confidence leaves")
    return f"{capital('; '.join([*clauses, OTHER_SEEDS]))}."


def _could_see(positive: PositiveControl | None, negative: FalseAlarms | None) -> str:
    """What the test would have found in 80 % of such runs."""
    if positive is None or negative is None:
        return "The power of the tests was not measured here; see Controls."
    if negative.broken(VERDICT):
        rate = percent(negative.rate(VERDICT))
        return f"Its false-alarm rate on this run is {rate}, so its power cannot be stated."
    gaps = [(shape, positive.detectable[shape, "accuracy"]) for shape in ("monotone", "U", "opposite signs")]
    named = {"monotone": "a monotone gap", "U": "a U-shaped one", "opposite signs": "one with opposite signs"}
    seen = [f"{named[shape]} of {gap:.2f}" for shape, gap in gaps if gap is not None]
    if not seen:
        return f"Not even a gap of {positive.largest:.2f} would be detected in 80 % of such runs, so this says little."
    real = positive.real
    known = ""
    if real is not None:
        known = f"; of {counted(len(real.table), 'feature')} known to matter it finds {real.n_found}"
    return f"In 80 % of such runs the test would detect {listed(seen)}{known}."
