"""Settings of the tests, and the two tests that stand side by side everywhere: the paper's and the primary one."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from engine.core import validation
from engine.core.binning import N_BINS, TERTILE_QUANTILES, Matching, check_quantiles
from engine.core.contingency import Contingency, tabulate
from engine.core.labels import HEADLINES, counted

MIN_SUPPORT = 5
SAMPLES_PER_BIN = 100
BINS_FOR_SMALL_RUNS = 40
FEWEST_SAMPLES_PER_BIN = 10
FEWEST_BINS = 10


def primary_bins(n_samples: int) -> int:
    """max(n // 100, min(40, n // 10), 1) equal-mass bins: of 100 samples, yet 40 of them while a bin keeps 10 samples.

    Differs from the protocol for n < 4000, where n // 100 bins are too wide to match confidence. In simulated data
    in which only confidence matters, with rho a noisy copy of it, they reject 42-93 % at n = 300, 10-78 % at 600 and
    8-51 % at 1200 at a nominal 5 %; these bins reject 3-6 %, 4-5 % and 3-6 % (300 simulations each).
    """
    n = validation.whole("n_samples", n_samples, 0)
    return max(n // SAMPLES_PER_BIN, min(BINS_FOR_SMALL_RUNS, n // FEWEST_SAMPLES_PER_BIN), 1)


def matches_confidence(n_bins: int) -> bool:
    """Whether this many bins match confidence at all; the primary ones do from 100 samples on."""
    return n_bins >= FEWEST_BINS


@dataclass(frozen=True)
class TestSettings:
    """What may be chosen of a test over fixed bins; the defaults are the paper's. Checked here, once.

    n_bins : confidence bins. min_support : samples of each outer third that a bin needs to count. quantiles : where rho
    is cut into low, mid and high. Tests with fine bins (`primary_bins`) take the last two only, the trend none.
    """

    __test__: ClassVar[bool] = False  # by its name pytest would take it for a test

    n_bins: int = N_BINS
    min_support: int = MIN_SUPPORT
    quantiles: tuple[float, float] = TERTILE_QUANTILES

    def __post_init__(self) -> None:
        validation.bins(self.n_bins)
        validation.whole("min_support", self.min_support, 1)
        check_quantiles(self.quantiles)

    @property
    def keywords(self) -> dict[str, Any]:
        """The same for the functions of `engine.gaps`, which take each by its name."""
        return asdict(self)

    def tabulate(self, confidence: ArrayLike, correct: ArrayLike, rho: ArrayLike) -> Contingency:
        """The counts that the paper's test is made of."""
        return tabulate(confidence, correct, rho, n_bins=self.n_bins, matching=PAPER.matching, quantiles=self.quantiles)


@dataclass(frozen=True)
class Preset:
    """A registered statistic (`engine.gaps.statistics`) on a matching; `n_bins` None means the primary bins."""

    name: str
    label: str
    statistic: str
    matching: Matching
    n_bins: int | None

    def bins_for(self, n_samples: int) -> int:
        """Number of bins for a run of this size."""
        return primary_bins(n_samples) if self.n_bins is None else self.n_bins

    def over(self, n_bins: int) -> Preset:
        """The same test over another number of bins, if it has a fixed one; its label says so."""
        if self.n_bins in (None, n_bins):
            return self
        name = self.label.removesuffix(f", {self.n_bins} bins")
        return replace(self, n_bins=n_bins, label=f"{name}, {counted(n_bins, 'bin')}")


PAPER = Preset("paper", HEADLINES["paper"], "max_gap", "equal_width", N_BINS)
PRIMARY = Preset("primary", HEADLINES["primary"], "trend", "equal_mass", None)
