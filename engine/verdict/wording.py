"""Phrases that several verdicts share, and the Browse pages' sentences on one run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.controls import SHAPES, VERDICT
from engine.core.labels import capital, counted, format_p, percent
from engine.features import FEATURES
from engine.metrics.mechanism import DepthProfile, ErrorRelation, RankCorrelation
from engine.metrics.reliability import CalibrationSummary

if TYPE_CHECKING:  # it phrases itself with what stands here
    from engine.verdict.run import Verdict

LOW_TO_HIGH = "from the low to the high third of samples with similar confidence"
"""What a primary effect is a change of accuracy over."""
OTHER_SEEDS = "other seeds must show whether it repeats"
"""What one run, or one look at many, leaves open."""
UNCHECKED = "False-alarm rates were not checked here; see Controls."
_SMALL = 0.02


def reliability_sentence(summary: CalibrationSummary) -> str:
    """`Raw ECE is 0.083 (debiased 0.081, ...): this run is under-confident by 0.08 on average (...). ...`"""
    # Two digits read better, unless the three numbers then no longer add up before the reader's eyes.
    adds_up = round(round(summary.accuracy, 2) - round(summary.mean_confidence, 2), 2) == round(summary.gap, 2)
    digits = 2 if adds_up and abs(summary.gap) >= _SMALL else 3
    accuracy, confidence = f"{summary.accuracy:.{digits}f}", f"{summary.mean_confidence:.{digits}f}"
    if summary.direction == "neither":
        finding = (
            "on average this run is neither clearly over- nor under-confident "
            f"(accuracy {accuracy}, 95 % interval {summary.accuracy_low:.3f} to {summary.accuracy_high:.3f}, "
            f"mean confidence {confidence})"
        )
    else:
        finding = (
            f"this run is {summary.direction}-confident by {abs(summary.gap):.{digits}f} on average "
            f"(accuracy {accuracy}, mean confidence {confidence})"
        )
    debiased = summary.debiased
    return (
        f"Raw ECE is {summary.ece:.3f} (debiased {debiased.estimate:.3f}, 95 % interval {debiased.low:.3f} to "
        f"{debiased.high:.3f}): {finding}. Sampling noise alone would give a perfectly calibrated run of this "
        f"size an ECE of about {summary.ece_if_calibrated:.3f}."
    )


def controls_sentence(verdict: Verdict) -> tuple[str, str]:
    """Answer and detail on what the verdict's test can see on a run, and how often it raises a false alarm."""
    negative, positive = verdict.negative, verdict.positive
    if negative is None or positive is None:
        return "Cannot tell: the controls were not simulated", "Neither power nor false-alarm rates are known here."
    rate, fits = negative.rate(VERDICT), negative.by_fit["fit"].nunique()
    alarms = f"Trend and shape together reject {percent(rate, 1)} of simulations without effect (worst of {fits} fits)"
    if negative.broken(VERDICT):
        why = " Recorded confidences are rounded or tied." if negative.rounding is not None else ""
        return "No: on this run the test raises too many false alarms", f"{alarms}, where 5 % would be right.{why}"
    gaps = {shape: positive.detectable[shape, "accuracy"] for shape in SHAPES}
    seen = [f"{shape} {'none tried' if gap is None else f'{gap:.2f}'}" for shape, gap in gaps.items()]
    detail = f"{alarms}. Gap in accuracy detected in 80 % of such runs: {', '.join(seen)}"
    if positive.real is not None:
        detail += (
            f"; of {counted(len(positive.real.table), 'real feature')} (other runs' entropies on the same samples) it "
            f"finds {positive.real.n_found}"
        )
    monotone = gaps["monotone"]
    if monotone is None:
        return "False alarms are rare, but no gap tried is detected", f"{detail}."
    return f"It detects a gap of {monotone:.2f}, and false alarms are rare", f"{detail}."


def _depth_clause(profile: DepthProfile) -> str:
    if len(profile.names) == 1:
        return f"The one routing layer, {profile.names[0]}, has a mean entropy of {profile.mean[0]:.2f}."
    low, high = profile.lowest, profile.highest
    return (
        f"Mean routing entropy runs from {profile.mean[low]:.2f} ({profile.names[low]}) to {profile.mean[high]:.2f} "
        f"({profile.names[high]}) over {len(profile.names)} layers, 1 being an even mix of all alternatives."
    )


def _correlation_clause(correlation: RankCorrelation | None, feature: str) -> str:
    if correlation is None:
        return (
            f"{capital(feature)} cannot be ranked against the error |c - t|: one of them does not vary, or there are "
            "too few samples."
        )
    interval = ""
    if correlation.low is not None and correlation.high is not None:
        interval = f"95 % interval {correlation.low:.2f} to {correlation.high:.2f}, "
    if not correlation.clear:
        return (
            f"{capital(feature)} has no clear rank correlation with the error |c - t| "
            f"({correlation.value:.2f}, {interval}{format_p(correlation.p_value)})."
        )
    way = "rises" if correlation.value > 0 else "falls"
    return (
        f"The error |c - t| {way} with {feature} (rank correlation {correlation.value:.2f}, "
        f"{interval}{format_p(correlation.p_value)})."
    )


def mechanism_sentence(
    profile: DepthProfile | None, relation: ErrorRelation, feature: str, *, lacking: str = ""
) -> str:
    """Depth, then how the feature goes with the error, then what this does not show.

    profile : None for a run without routing. feature : how rho is called; lacking : what rho replaces because the run
    lacks it, or empty.
    """
    parts = [
        "This run has no routing profile, so routing across depth and training cannot be shown."
        if profile is None
        else _depth_clause(profile)
    ]
    if lacking:
        parts.append(f"It lacks {lacking}; below, {feature} stands in.")
    parts.append(_correlation_clause(relation.spearman, feature))
    if feature != FEATURES["confidence"].label:
        parts.append("Confidence is not held fixed here, so this does not say that anything is added to it.")
    return " ".join(parts)
