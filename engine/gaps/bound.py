"""How small an effect is: its interval, and the size beyond which it is excluded."""

from dataclasses import dataclass

from scipy.special import ndtri

from engine.core import validation
from engine.gaps.stratified import SMALLEST_P


@dataclass(frozen=True)
class EffectBound:
    """An effect with its interval (low, high) at level 1 - alpha.

    excluded : effects larger than this, of either sign, are excluded by two one-sided tests at alpha (TOST,
    Schuirmann 1987).
    """

    effect: float
    low: float
    high: float
    excluded: float
    alpha: float


def effect_bound(effect: float, standard_error: float, alpha: float = 0.05) -> EffectBound:
    """effect -+ q_{1 - alpha/2} se, and max |effect -+ q_{1 - alpha} se|: the smallest d at which both tests of
    |effect| >= d reject, (d - |effect|) / se >= q_{1 - alpha}."""
    validation.number("effect", effect, -validation.LARGEST)
    validation.number("standard_error", standard_error, 0)
    validation.fraction("alpha", alpha)
    # From the lower tail, whose quantiles stay finite however small alpha is.
    half = -float(ndtri(max(alpha / 2, SMALLEST_P))) * standard_error
    excluded = abs(effect) - float(ndtri(max(alpha, SMALLEST_P))) * standard_error
    return EffectBound(effect, effect - half, effect + half, excluded, alpha)
