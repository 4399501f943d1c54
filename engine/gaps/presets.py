"""The two named tests that stand side by side everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine import validation
from engine.binning import N_BINS, Matching

SAMPLES_PER_BIN = 100


def audited_bins(n_samples: int) -> int:
    """Equal-mass bins of 100 samples, at least one bin."""
    return max(1, validation.whole("n_samples", n_samples, 0) // SAMPLES_PER_BIN)


@dataclass(frozen=True)
class Preset:
    """A statistic on a matching; `n_bins` None means bins of 100 samples.

    statistic : max_gap (exact within-bin permutation), weighted_gap (normal approximation with exact moments), cmh (low
    against high tertile) or trend (Mantel's, on the rank of the feature).
    """

    name: str
    label: str
    statistic: str
    matching: Matching
    n_bins: int | None

    def bins_for(self, n_samples: int) -> int:
        """Number of bins for a run of this size."""
        return audited_bins(n_samples) if self.n_bins is None else self.n_bins

    def over(self, n_bins: int) -> Preset:
        """The same test over another number of bins, if it has a fixed one; its label says so."""
        if self.n_bins is None:
            return self
        return replace(self, n_bins=n_bins, label=self.label.replace(f"{self.n_bins} bins", f"{n_bins} bins"))


PAPER = Preset("paper", "the paper's test", "max_gap", "equal_width", N_BINS)
AUDITED = Preset("audited", "the audited test", "trend", "equal_mass", None)
TESTS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        PAPER,
        AUDITED,
        Preset("paper_weighted", "weighted gap, 15 bins", "weighted_gap", "equal_width", N_BINS),
        Preset("paper_cmh", "CMH, 15 bins", "cmh", "equal_width", N_BINS),
        Preset("paper_trend", "trend, 15 bins", "trend", "equal_width", N_BINS),
        Preset("audited_cmh", "CMH, fine bins", "cmh", "equal_mass", None),
        Preset("audited_weighted", "weighted gap, fine bins", "weighted_gap", "equal_mass", None),
    )
}
