"""What a page of fitted calibrators works on: all samples of a run, fitted on one half and judged on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from app.state.selection import feature_label
from app.state.view import View
from engine.benchmark.halves import TERTILE_FEATURE
from engine.core.binning import N_BINS
from engine.core.splitting import SPLIT_SEED


@dataclass(frozen=True, eq=False)
class BenchmarkView(View):
    """One run under the protocol's benchmark, whatever slice or settings the sidebar shows."""

    ignored: ClassVar[str] = "slice, population, feature, bins and cuts"

    @property
    def features_used(self) -> str:
        """What AR-CondCal is fitted with, and whose tertiles are scored."""
        return f"AR-CondCal and worst tertile: {feature_label(TERTILE_FEATURE)}"

    def caption(self) -> str:
        """The population, what is fixed, and which choices of the sidebar have no say here."""
        n_samples = int(self.row["n_samples"])
        half = n_samples // 2
        parts = [
            self.label,
            f"population: benchmark split of all {n_samples:,} samples (seed {SPLIT_SEED}), "
            f"{half:,} to fit on and the other {n_samples - half:,} to judge on",
            f"ECE over {N_BINS} equal-width bins",
            self.features_used,
            f"the sidebar's {self.ignored} do not apply to this page",
        ]
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])


@dataclass(frozen=True, eq=False)
class KernelView(BenchmarkView):
    """The same with AR-CondCal on the feature that the sidebar shows."""

    ignored: ClassVar[str] = "slice, population, bins and cuts"

    @property
    def features_used(self) -> str:
        return f"feature: {self.feature_label}, worst tertile: {feature_label(TERTILE_FEATURE)}"
