"""What a page of fitted calibrators works on: all samples of a run, fitted on one half and judged on the other."""

from __future__ import annotations

from dataclasses import dataclass

from app.view import View
from engine.benchmark.halves import TERTILE_FEATURE
from engine.binning import N_BINS
from engine.features import FEATURES
from engine.splitting import SPLIT_SEED


@dataclass(frozen=True, eq=False)
class BenchmarkView(View):
    """One run under the protocol's benchmark, whatever slice or settings the sidebar shows."""

    def caption(self) -> str:
        """The population, what is fixed, and which choices of the sidebar have no say here."""
        n_samples = int(self.row["n_samples"])
        half = n_samples // 2
        parts = [
            self.label,
            f"population: benchmark split of all {n_samples:,} samples (seed {SPLIT_SEED}), "
            f"{half:,} to fit on and the other {n_samples - half:,} to judge on",
            f"ECE over {N_BINS} equal-width bins",
            f"AR-CondCal and worst tertile: {FEATURES[TERTILE_FEATURE].label}",
            "the sidebar's slice, population, feature, bins and cuts do not apply to this page",
        ]
        return " · ".join([*parts, f"cache {self.cache.fingerprint}"])
