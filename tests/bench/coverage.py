"""`python -m tests.bench.coverage`: how often 95 % intervals of ECE, AdaECE and a difference of ECEs hold the truth.

Worlds: confidences of 10 classes, piled near 1 or less so; accuracy off by a temperature, off upwards and downwards, or
off in one bin only, by as much as makes the ECE of the population 0, 0.01, 0.03 or 0.1 (where the bin is full enough).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from engine.benchmark.scores import resample_counts
from engine.core.binning import Matching, confidence_bins, equal_width_bins
from engine.metrics import ece
from engine.metrics.debiased import debiased_difference, debiased_ece

PILES = {"piled near 1": (0.35, 2.6), "spread": (0.9, 2.2)}
TRUE = (0.0, 0.01, 0.03, 0.1)
SHAPES: dict[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "temperature": lambda c, size: expit(logit(c) * (1 - size)),
    "both ways": lambda c, size: np.clip(c + size * np.sin((c - 0.1) / 0.9 * 2 * np.pi) * np.sqrt(1 - c), 0, 1),
    "alternating": lambda c, size: np.clip(c + size * np.where(equal_width_bins(c) % 2 == 0, -1, 1), 0, 1),
    "one bin": lambda c, size: np.clip(c - size * (equal_width_bins(c) == 11), 0, 1),
    "last bin": lambda c, size: np.clip(c - size * (equal_width_bins(c) == 14), 0, 1),
}


def population_ece(confidence: np.ndarray, accuracy: np.ndarray, matching: Matching = "equal_width") -> float:
    bins = confidence_bins(confidence, 15, matching)
    return float(np.abs(np.bincount(bins, weights=accuracy - confidence)).sum() / confidence.size)


@dataclass(frozen=True, eq=False)
class World:
    """A population: confidence and accuracy of so many that they stand for all, and its ECE in either kind of bins."""

    confidence: np.ndarray
    accuracy: np.ndarray
    truth: dict[Matching, float]

    @classmethod
    def of(cls, pile: str, shape: str, true: float, size: int = 300_000) -> World:
        c = np.clip(1 - 0.9 * np.random.default_rng(0).beta(*PILES[pile], size), 0.1, 1 - 1e-7)
        off = 0.0 if true == 0 else brentq(lambda off: population_ece(c, SHAPES[shape](c, off)) - true, 0, 1)
        accuracy = SHAPES[shape](c, off) if off else c
        return cls(c, accuracy, {m: population_ece(c, accuracy, m) for m in ("equal_width", "equal_mass")})

    def sample(self, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        rows = rng.integers(0, self.confidence.size, n)
        return self.confidence[rows], rng.random(n) < self.accuracy[rows]

    def covered(self, n: int, n_samples: int, matching: Matching = "equal_width", seed: int = 0) -> float:
        """Share of the samples whose interval holds the truth."""
        rng, truth = np.random.default_rng(seed), self.truth[matching]
        found = [debiased_ece(*self.sample(n, rng), matching=matching) for _ in range(n_samples)]
        return float(np.mean([each.low <= truth <= each.high for each in found]))

    def covered_by_percentiles(self, n: int, n_samples: int, seed: int = 0) -> float:
        """The same for percentiles of 200 bootstrap resamples of the plug-in ECE."""
        rng, hits = np.random.default_rng(seed), 0
        for _ in range(n_samples):
            confidence, correct = self.sample(n, rng)
            drawn = [ece(confidence[rows], correct[rows]) for rows in rng.integers(0, n, (200, n))]
            low, high = np.quantile(drawn, [0.025, 0.975])
            hits += bool(low <= self.truth["equal_width"] <= high)
        return hits / n_samples


def _method(offset: Callable[[np.ndarray, float], np.ndarray], ece_wanted: float) -> np.ndarray:
    """Confidences of a method of this ECE on the samples of `CALIBRATED`."""
    size = brentq(lambda size: population_ece(offset(CALIBRATED, size), CALIBRATED) - ece_wanted, 0, 1)
    return offset(CALIBRATED, size)


CALIBRATED = np.clip(1 - 0.9 * np.random.default_rng(0).beta(*PILES["piled near 1"], 100_000), 0.1, 1 - 1e-7)


def _over(confidence: np.ndarray, size: float) -> np.ndarray:
    return expit(logit(confidence) * (1 + 4 * size))


def _under(confidence: np.ndarray, size: float) -> np.ndarray:
    return expit(logit(confidence) * (1 - size))


def _by_turns(confidence: np.ndarray, size: float) -> np.ndarray:
    sign = np.where(equal_width_bins(confidence) % 2 == 0, -1, 1)
    return np.clip(confidence + size * sign * np.sqrt(1 - confidence), 0.1, 1)


METHODS: dict[str, Callable[[], np.ndarray]] = {
    "nothing": lambda: CALIBRATED,
    "0.01 over": lambda: _method(_over, 0.01),
    "0.012 over": lambda: _method(_over, 0.012),
    "0.03 over": lambda: _method(_over, 0.03),
    "0.01 under": lambda: _method(_under, 0.01),
    "0.01 by turns": lambda: _method(_by_turns, 0.01),
}
"""Methods on the same samples: their accuracy is that of `CALIBRATED`, what a method is confident of is not."""
PAIRS = (
    ("nothing", "0.01 over"), ("nothing", "0.03 over"), ("0.01 over", "0.01 under"), ("0.01 over", "0.01 by turns"),
    ("0.01 over", "0.012 over"), ("0.01 under", "0.03 over"),
)  # fmt: skip


def difference_covered(one: str, other: str, n: int, n_samples: int, seed: int = 0) -> float:
    """Share of the samples whose interval of ECE of `one` minus ECE of `other` holds the truth."""
    methods = [METHODS[one](), METHODS[other]()]
    truth = population_ece(methods[0], CALIBRATED) - population_ece(methods[1], CALIBRATED)
    rng, hits = np.random.default_rng(seed), 0
    for _ in range(n_samples):
        rows = rng.integers(0, CALIBRATED.size, n)
        correct = rng.random(n) < CALIBRATED[rows]
        counts, found, drawn = resample_counts(n, 200, rng), [], []
        for method in methods:
            confidence = method[rows]
            found.append(debiased_ece(confidence, correct))
            cells = np.zeros((n, 15))
            cells[np.arange(n), equal_width_bins(confidence)] = correct - confidence
            drawn.append(np.abs(counts @ cells).sum(axis=1))
        between = debiased_difference(found[0], found[1], float(np.corrcoef(drawn)[0, 1]))
        hits += bool(between.low <= truth <= between.high)
    return hits / n_samples


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.coverage", description=__doc__)
    parser.add_argument("--samples", type=int, default=1000, help="simulated samples of each world")
    n_samples = parser.parse_args().samples
    heads = f"{'ECE':>8}{'AdaECE':>8}{'percentiles':>13}"
    print(f"{'confidence':<14}{'n':>7}{'true ECE':>10}  {'accuracy off by':<16}{heads}")
    for pile in PILES:
        for n in (1000, 10_000):
            for true in TRUE:
                for shape in SHAPES if true else ("temperature",):
                    try:
                        world = World.of(pile, shape, true)
                    except ValueError:  # no accuracy of that bin alone makes so large an ECE
                        continue
                    shares = [world.covered(n, n_samples, kind) for kind in ("equal_width", "equal_mass")]
                    shares.append(world.covered_by_percentiles(n, max(n_samples // 10, 1)))
                    printed = f"{shares[0]:8.3f}{shares[1]:8.3f}{shares[2]:13.2f}"
                    print(f"{pile:<14}{n:>7,}{true:>10}  {shape if true else 'nothing':<16}{printed}", flush=True)
    print("ECE of one method minus ECE of another on the same samples")
    for n in (1000, 5000):
        for one, other in PAIRS:
            print(f"{n:>7,}  {one:<14} {other:<16}{difference_covered(one, other, n, n_samples):8.3f}", flush=True)


if __name__ == "__main__":
    main()
