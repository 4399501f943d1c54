"""What an audit returns: five probes, three contrasts, a permutation reference, and what to know about them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from engine.core import validation
from engine.core.binning import quantile_groups
from engine.core.types import BEHIND, FloatArray, IntArray
from engine.probes.networks import Recipe

PROBES = ("conf_lin", "conf_mlp", "full_lin", "full_mlp", "shuf_full_mlp")
CONTRASTS: Mapping[str, tuple[str, str]] = {
    "naive": ("full_mlp", "conf_lin"),
    "capacity_matched": ("full_mlp", "conf_mlp"),
    "routing_specific": ("full_mlp", "shuf_full_mlp"),
}
"""Each contrast is the held-out R^2 of the first probe minus that of the second."""

ROWS_PER_BIN = 5
"""Training rows with similar confidence among which the reference permutes H; fewer would cost power."""

NoteCode = Literal[
    "no_profile", "constant_columns", "constant_target", "near_constant_target", "few_rows", "one_initialisation"
]
N_GROUPS = 20


@dataclass(frozen=True)
class Note:
    """Something a reader of the numbers should know, with a code to act on."""

    code: NoteCode
    text: str

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Contrast:
    """A difference of held-out R^2 between two probes.

    `estimate` is the mean over initialisations of the paired differences, `interval` the 95 % t interval of that mean:
    it speaks of other initialisations (and, for the shuffled probe, of other shuffles), not of other samples. None with
    one initialisation.
    """

    probe: str
    against: str
    differences: FloatArray = field(repr=False, compare=False)
    estimate: float
    interval: tuple[float, float] | None


@dataclass(frozen=True, eq=False)
class Reference:
    """Held-out R^2 that the full-profile network reaches when H says nothing beyond confidence.

    Null hypothesis: given confidence, H is independent of correctness. Each shuffle permutes the rows of H among
    training rows with similar confidence (equal-mass bins of about `ROWS_PER_BIN`) and trains from the observed
    network's initial weights. Observed and shuffled values are then one function of equally likely data sets, whence
    p = (1 + #{shuffled >= observed}) / (1 + n) is valid: exactly if H is independent of confidence and correctness,
    and as far as the bins match confidence if H follows it. Permuting the training half is enough; the held-out half
    is part of what is held fixed.

    Differs from paper: the paper compares with an unrestricted shuffle (kept as `shuf_full_mlp`). Where H repeats
    confidence and adds nothing, that shuffle also breaks the link to confidence. In 40 simulations of this kind
    (2,000 samples, accuracy steep in confidence) a p-value made of it was at most 0.05 in 29, this one in 1; the power
    to see a planted effect in 300 samples was 0.63 and 0.58. Limit: with 300 samples and accuracy that rises from 0.1
    to 0.9 within 18 training rows even these bins are coarse, and p was at most 0.05 in 11 of 60 simulations. One
    initialisation stands on both sides, because a mean over several is no fair match for single shuffled networks.

    Attributes
    ----------
    r2 : (n_shuffles,) of the shuffled networks.
    observed : R^2 of `full_mlp` from its first initialisation, the one that the shuffled networks start from.
    """

    r2: FloatArray
    observed: float
    p_value: float


@dataclass(frozen=True, eq=False)
class ProbeResult:
    """An audit. With no profile only the confidence probes are there; contrasts and the reference are then None.

    Attributes
    ----------
    r2 : held-out R^2 by probe, (n_inits,); a closed-form probe repeats its one value.
    mean, std : of `r2` (std with ddof 0).
    predictions : held-out predictions by probe, (n_inits, m).
    curves : training loss by network probe, (n_inits, epochs), each value taken before its step.
    groups : by probe, its mean prediction beside the mean of the target (`predicted_against_actual`).
    target : (m,) held-out |confidence - correct|; `evaluated` are their rows.
    """

    r2: Mapping[str, FloatArray]
    mean: Mapping[str, float]
    std: Mapping[str, float]
    predictions: Mapping[str, FloatArray] = field(metadata=BEHIND)
    curves: Mapping[str, FloatArray] = field(metadata=BEHIND)
    groups: Mapping[str, pd.DataFrame]
    naive: Contrast | None
    capacity_matched: Contrast | None
    routing_specific: Contrast | None
    reference: Reference | None
    target: FloatArray = field(metadata=BEHIND)
    evaluated: IntArray = field(metadata=BEHIND)
    recipe: Recipe
    n_inits: int
    n_shuffles: int
    seed: int
    notes: tuple[Note, ...]

    @property
    def contrasts(self) -> dict[str, Contrast]:
        """The contrasts that could be formed, by name."""
        formed = {name: getattr(self, name) for name in CONTRASTS}
        return {name: contrast for name, contrast in formed.items() if contrast is not None}


def predicted_against_actual(result: ProbeResult, probe: str, *, n_groups: int = N_GROUPS) -> pd.DataFrame:
    """Mean of |c - t| against its prediction, in quantile groups of the prediction over the held-out half.

    Columns: predicted (mean of the group), actual, low, high (95 % t interval over the group's samples; missing in a
    group of one), count. The first initialisation speaks, not the mean of several: averaged networks are another,
    better probe. Equal predictions stay in one group, so there may be fewer groups than asked for.
    """
    validation.choice("probe", probe, result.predictions)
    validation.bins(n_groups, "n_groups")
    return grouped(result.predictions[probe][0], result.target, n_groups)


def grouped(predicted: FloatArray, target: FloatArray, n_groups: int = N_GROUPS) -> pd.DataFrame:
    """The table of `predicted_against_actual`."""
    groups = quantile_groups(predicted, n_groups)
    low, high = groups.interval(target)
    return pd.DataFrame(
        {
            "predicted": groups.mean(predicted),
            "actual": groups.mean(target),
            "low": low,
            "high": high,
            "count": groups.counts,
        }
    )
