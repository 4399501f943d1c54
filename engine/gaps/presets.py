"""The two named tests that stand side by side everywhere."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.binning import N_BINS, Matching

SAMPLES_PER_BIN = 100


def audited_bins(n_samples: int) -> int:
    """Equal-mass bins of 100 samples, at least one bin."""
    return max(1, n_samples // SAMPLES_PER_BIN)


@dataclass(frozen=True)
class Preset:
    """A statistic on a matching; `n_bins` None means bins of 100 samples."""

    name: str
    label: str
    statistic: str
    matching: Matching
    n_bins: int | None
    description: str

    def bins_for(self, n_samples: int) -> int:
        """Number of bins for a run of this size."""
        return audited_bins(n_samples) if self.n_bins is None else self.n_bins

    def over(self, n_bins: int) -> Preset:
        """The same test over another number of bins, if it has a fixed one; its label says so."""
        if self.n_bins is None:
            return self
        return replace(self, n_bins=n_bins, label=self.label.replace(f"{self.n_bins} bins", f"{n_bins} bins"))


PAPER = Preset(
    "paper",
    "the paper's test",
    "max_gap",
    "equal_width",
    N_BINS,
    "largest low-against-high gap over 15 equal-width confidence bins, within-bin permutation",
)
AUDITED = Preset(
    "audited",
    "the audited test",
    "trend",
    "equal_mass",
    None,
    "Mantel trend of correctness on the rank of the feature in equal-mass bins of 100 samples",
)
TESTS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        PAPER,
        AUDITED,
        Preset(
            "paper_weighted", "weighted gap, 15 bins", "weighted_gap", "equal_width", N_BINS,
            "weighted gap over 15 equal-width bins, normal approximation with exact moments",
        ),
        Preset(
            "paper_cmh", "CMH, 15 bins", "cmh", "equal_width", N_BINS,
            "Cochran-Mantel-Haenszel of low/high tertile over 15 equal-width bins",
        ),
        Preset(
            "paper_trend", "trend, 15 bins", "trend", "equal_width", N_BINS,
            "Mantel trend over 15 equal-width bins",
        ),
        Preset(
            "audited_cmh", "CMH, fine bins", "cmh", "equal_mass", None,
            "Cochran-Mantel-Haenszel of low/high tertile in equal-mass bins of 100 samples",
        ),
        Preset(
            "audited_weighted", "weighted gap, fine bins", "weighted_gap", "equal_mass", None,
            "weighted gap in equal-mass bins of 100 samples, normal approximation with exact moments",
        ),
    )
}  # fmt: skip
