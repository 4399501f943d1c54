"""What the kernel family smooths, before any logit is moved: the surface g(c, rho), its slices, its shrinkage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.benchmark.setup import TERTILE_FEATURE
from engine.calibrators import Samples
from engine.core import validation
from engine.core.binning import SPLIT_SEED, TERTILES, split, tertiles
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import BoolArray, FloatArray, RunData
from engine.features import CustomFeature, feature
from engine.kernel import Surface, nw_regress, nw_surface, scott_bandwidth, shrinkage, tertile_distance
from engine.kernel.selection import KERNEL_DIMENSION

Pair = tuple[float, float]
"""Multiples of Scott's bandwidth on the confidence axis and on the second axis."""
MIN_WEIGHT = 1.0
"""A value that rests on less than one calibration sample's weight is left blank."""
SLICE_POINTS = 48
SURFACE_POINTS = 64
CELLS = 16
"""Cells per axis that calibration samples are gathered in to be drawn."""


@dataclass(frozen=True, eq=False)
class Slices:
    """The regressions along confidence.

    Attributes
    ----------
    confidence : (p,) grid. tertiles : g(c, rho) at the mean rho of each tertile, (p,) each, none without a feature.
    controls : the matched controls by method name; confidence and entropy at the mean entropy of that confidence.
    """

    confidence: FloatArray
    tertiles: Mapping[str, FloatArray]
    controls: Mapping[str, FloatArray]


@dataclass(frozen=True, eq=False)
class Smoother:
    """The calibration half as the three members of the kernel family regress on it. No logits are needed.

    Attributes
    ----------
    confidence, correct : (n,). feature, entropy : (n,), or None where the run has none.
    scott : Scott's bandwidth of each axis that there is, m = 2 throughout.
    centres : mean feature of each tertile that holds samples; distance : between the outer two.
    """

    confidence: FloatArray
    correct: FloatArray
    feature: FloatArray | None
    entropy: FloatArray | None
    scott: Mapping[str, float]
    centres: Mapping[str, float]
    distance: float

    @classmethod
    def of(
        cls, confidence: FloatArray, correct: BoolArray, rho: FloatArray | None, entropy: FloatArray | None
    ) -> Smoother:
        """From checked columns of the calibration half."""
        columns = {"confidence": confidence, "feature": rho, "entropy": entropy}
        scott = {
            name: float(scott_bandwidth(column, dimension=KERNEL_DIMENSION)[0])
            for name, column in columns.items()
            if column is not None
        }
        centres: dict[str, float] = {}
        if rho is not None:
            groups = tertiles(rho).index
            members = {name: rho[groups == position] for position, name in enumerate(TERTILES)}
            centres = {name: float(values.mean()) for name, values in members.items() if values.size}
        distance = 0.0 if rho is None else tertile_distance(rho)
        return cls(confidence, correct.astype(np.float64), rho, entropy, scott, centres, distance)

    @classmethod
    def of_samples(cls, calibration: Samples, *, with_feature: bool = True) -> Smoother:
        """From the calibration half of a run with logits."""
        rho = calibration.feature if with_feature else None
        return cls.of(calibration.confidence, calibration.correct, rho, calibration.entropy)

    @classmethod
    def prepare(cls, run: RunData, name: str | CustomFeature = TERTILE_FEATURE, seed: int = SPLIT_SEED) -> Smoother:
        """Of a run without logits, whose entropy is unknown; raises `MissingData` without the feature."""
        rows, _ = split(run.n_samples, seed)
        return cls.of(run.confidence[rows], run.correct[rows], feature(run, name)[rows], None)

    def surface(self, multiplier: Pair, *, n_points: int = SURFACE_POINTS) -> Surface:
        """g(c, rho), exact, over the range of the calibration half; NaN where it rests on less than one sample."""
        if self.feature is None:
            raise MissingData("feature", "a surface over two axes", "choose a feature that the run has")
        grid = _span(self.confidence, n_points), _span(self.feature, n_points)
        return self._sums("feature", self.feature, multiplier, grid)

    def slices(self, multiplier: Pair, *, n_points: int = SLICE_POINTS) -> Slices:
        """All members along confidence."""
        grid = _span(self.confidence, n_points)
        by_tertile: dict[str, FloatArray] = {}
        if self.feature is not None:
            found = self._sums("feature", self.feature, multiplier, (grid, np.array(list(self.centres.values()))))
            by_tertile = {name: found.value[:, column] for column, name in enumerate(self.centres)}
        alone = self._sums("none", np.zeros_like(self.confidence), multiplier, (grid, np.zeros(1)))
        controls = {"nw_conf": alone.value[:, 0]}
        if self.entropy is not None:
            usual = nw_regress(self.confidence, self.entropy, grid, self.scott["confidence"])
            found = self._sums("entropy", self.entropy, multiplier, (grid, usual))
            controls["nw_conf_entropy"] = found.value.diagonal().copy()
        return Slices(grid, by_tertile, controls)

    def shrinkage(self, multiplier: Pair) -> float | None:
        """tanh(d^2 / 4 h^2) on the feature's axis, None without a feature."""
        _, second = _check_pair(multiplier)
        return None if self.feature is None else shrinkage(self.distance, second * self.scott["feature"])

    def cells(self, n_cells: int = CELLS) -> pd.DataFrame:
        """Calibration samples gathered in cells of (c, rho): mean position, count and accuracy of each that holds any.

        Columns: confidence, feature, count, accuracy.
        """
        if self.feature is None:
            raise MissingData("feature", "a picture over two axes", "choose a feature that the run has")
        axes = (self.confidence, self.feature)
        index = np.zeros(self.confidence.size, dtype=np.int64)
        for column in axes:
            spread = float(np.ptp(column))
            place = (column - column.min()) * (n_cells / spread) if spread > 0 else np.zeros(column.size)
            index = index * n_cells + np.minimum(place.astype(np.int64), n_cells - 1)
        frame = pd.DataFrame({"cell": index, "confidence": axes[0], "feature": axes[1], "accuracy": self.correct})
        found = frame.groupby("cell").agg(
            confidence=("confidence", "mean"),
            feature=("feature", "mean"),
            count=("cell", "size"),
            accuracy=("accuracy", "mean"),
        )
        return found.reset_index(drop=True)

    def _sums(self, axis: str, column: FloatArray, multiplier: Pair, grid: tuple[FloatArray, FloatArray]) -> Surface:
        """The regression on confidence and one more column (`none`: ignored), blank where it rests on too little."""
        first, second = _check_pair(multiplier)
        widths = (first * self.scott["confidence"], second * self.scott.get(axis, 0.0))
        found = nw_surface(np.column_stack([self.confidence, column]), self.correct, widths, grid)
        blank = np.where(found.weight >= MIN_WEIGHT, found.value, np.nan)
        return Surface(found.first, found.second, blank, found.weight)


def _check_pair(multiplier: Pair) -> Pair:
    first, second = validation.vector("multiplier", multiplier, 2).tolist()
    if first <= 0 or second <= 0:
        raise InvalidInput("multiplier", "two positive numbers", repr(multiplier))
    return first, second


def _span(column: FloatArray, n_points: int) -> FloatArray:
    return np.linspace(column.min(), column.max(), n_points)


def variation(surface: Surface) -> float:
    """How far the surface moves with the second axis at one confidence: the root mean square of g(c, rho) minus its
    mean over rho, both weighted by the number of calibration samples that a value rests on."""
    drawn = np.isfinite(surface.value)
    weight, value = np.where(drawn, surface.weight, 0.0), np.where(drawn, surface.value, 0.0)
    total = weight.sum(axis=1, keepdims=True)
    mean = np.divide((weight * value).sum(axis=1, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
    return float(np.sqrt((weight * (value - mean) ** 2).sum() / max(weight.sum(), np.finfo(np.float64).tiny)))
