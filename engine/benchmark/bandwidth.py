"""The kernel family at other bandwidths: AR-CondCal beside its matched controls, and the paper's five modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from engine.benchmark.scores import HEADLINE, headline_scores, predict_kernel
from engine.benchmark.setup import CONTROLS, ROUTING, TERTILE_FEATURE, Halves, halve, make_calibrator, make_kernel
from engine.benchmark.smoothing import Pair, Smoother
from engine.calibrators import CV_NLL, FittedKernel, KernelCalibrator, Samples
from engine.core.binning import SPLIT_SEED
from engine.core.errors import MissingData
from engine.core.types import Progress, RunData, silent
from engine.features import CustomFeature
from engine.kernel import cv_nll_bandwidth
from engine.kernel.selection import MULTIPLIERS

FIXED_MODES = (0.5, 1.0, 2.0)
ORACLE = "oracle_ece"


def cross_validated(fitted: FittedKernel, calibration: Samples, seed: int) -> float:
    """The multiple of Scott's bandwidth that a fitted kernel takes by 5-fold NLL on its calibration half."""
    choice = cv_nll_bandwidth(fitted.regressors, calibration.logits, calibration.known_labels, seed=seed)
    return choice.multiplier


def bandwidth_sensitivity(
    run: RunData,
    *,
    feature: str | CustomFeature = TERTILE_FEATURE,
    seed: int = SPLIT_SEED,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The paper's five modes: 0.5x, 1x and 2x Scott, the multiple of least cross-validated NLL, and the oracle.

    The oracle takes the multiple of {0.25, 0.5, 1, 2, 4} with the least ECE on the evaluated half: a ceiling, not a
    method. Tidy frame: run_id, mode, multiplier, metric, value.
    """
    report = progress or silent
    halves = halve(run, feature, seed)
    if halves.calibration.feature is None:
        raise MissingData(f"feature {halves.feature_name!r}", "AR-CondCal", "choose a feature that the run has")
    fitted = make_kernel(halves.feature_name).fit_samples(halves.calibration)
    by_multiplier = {}
    for position, multiplier in enumerate(MULTIPLIERS):
        report(0.5 * position / len(MULTIPLIERS), f"bandwidth {multiplier:g}x Scott")
        prediction, _ = predict_kernel(fitted.at(multiplier), halves.evaluation)
        by_multiplier[multiplier] = headline_scores(prediction, halves.evaluation, halves.tertile_rho)
    report(0.5, "cross-validation")
    chosen = {f"{multiplier:g}x": multiplier for multiplier in FIXED_MODES}
    chosen[CV_NLL] = cross_validated(fitted, halves.calibration, seed)
    chosen[ORACLE] = min(by_multiplier, key=lambda multiplier: by_multiplier[multiplier]["ece"])
    report(1.0, "done")
    rows = [
        (run.run_id, mode, multiplier, metric, by_multiplier[multiplier][metric])
        for mode, multiplier in chosen.items()
        for metric in HEADLINE
    ]
    return pd.DataFrame(rows, columns=["run_id", "mode", "multiplier", "metric", "value"])


FAMILY = (ROUTING, *CONTROLS)
OWN_CONTROLS = {"confidence": "nw_conf", "pred_entropy": "nw_conf_entropy"}
"""Features with which AR-CondCal is one of its own matched controls."""
PATHS = ("both", "confidence", "feature")
"""Which axes a multiple moves; the other axis stays at Scott's bandwidth."""
LAB_MULTIPLIERS = tuple(2.0 ** (quarter / 4) for quarter in range(-12, 13))
"""From an eighth to eight times Scott's bandwidth in quarters of a doubling; holds the paper's five."""


def pair_on(path: str, multiplier: float) -> Pair:
    """The multiples of both axes at one stop of a path."""
    return (1.0 if path == "feature" else multiplier, 1.0 if path == "confidence" else multiplier)


@dataclass(frozen=True, eq=False)
class BandwidthCurves:
    """The kernel family of one run along every path.

    Attributes
    ----------
    table : path, multiplier, method, the `HEADLINE` metrics, clip_low, clip_high (shares of the evaluated half whose
        target no temperature reaches) and tied (number of samples that ties hold back).
    marks : multiple on both axes that each mode chooses for AR-CondCal ("scott", and with a feature "cv_nll" and
        "oracle_ece", the least ECE on the evaluated half among the paper's five: a ceiling, not a method).
    """

    run_id: str
    feature: str
    n_calibration: int
    n_evaluation: int
    table: pd.DataFrame
    marks: Mapping[str, float]

    @property
    def has_routing(self) -> bool:
        return bool((self.table["method"] == ROUTING).any())

    def along(self, path: str, method: str) -> pd.DataFrame:
        """One member along one path, in the order of the multiples."""
        rows = (self.table["path"] == path) & (self.table["method"] == method)
        return self.table[rows].sort_values("multiplier")

    def at(self, multiplier: Pair) -> pd.DataFrame | None:
        """Every member at one pair of multiples, or None if no path passes there."""
        for path in PATHS:
            for stop in multiplier:
                if pair_on(path, stop) == multiplier:
                    found = self.table[(self.table["path"] == path) & (self.table["multiplier"] == stop)]
                    return found if len(found) else None
        return None


@dataclass(frozen=True, eq=False)
class MatchedLab:
    """A run prepared for the whole family: halves and Scott's bandwidths are computed once.

    `members` lacks AR-CondCal if the run lacks the feature or the feature makes it one of its own controls.
    """

    run_id: str
    halves: Halves
    members: Mapping[str, FittedKernel]
    smoother: Smoother
    seed: int

    @classmethod
    def prepare(
        cls, run: RunData, feature: str | CustomFeature = TERTILE_FEATURE, seed: int = SPLIT_SEED
    ) -> MatchedLab:
        """Raises `MissingData` for a run without logits or labels."""
        halves = halve(run, feature, seed)
        missing = halves.calibration.feature is None or halves.feature_name in OWN_CONTROLS
        members = {}
        for method in CONTROLS if missing else FAMILY:
            calibrator = make_calibrator(method, halves.feature_name)
            assert isinstance(calibrator, KernelCalibrator)
            members[method] = calibrator.fit_samples(halves.calibration)
        smoother = Smoother.of_samples(halves.calibration, with_feature=not missing)
        return cls(run.run_id, halves, members, smoother, seed)

    def score(self, method: str, multiplier: Pair) -> dict[str, float]:
        """The `HEADLINE` metrics, clip rates and ties of one member on the evaluated half."""
        prediction, solution = predict_kernel(self.members[method].at(multiplier), self.halves.evaluation)
        return headline_scores(prediction, self.halves.evaluation, self.halves.tertile_rho) | {
            "clip_low": solution.clip_rate_low,
            "clip_high": solution.clip_rate_high,
            "tied": solution.n_tied,
        }

    def curves(self, progress: Progress | None = None) -> BandwidthCurves:
        """Every member along every path over `LAB_MULTIPLIERS`."""
        report = progress or silent
        known: dict[tuple[str, float, float], dict[str, float]] = {}
        stops = [(path, multiplier) for path in PATHS for multiplier in LAB_MULTIPLIERS]
        rows = []
        for position, (path, multiplier) in enumerate(stops):
            report(0.95 * position / len(stops), f"bandwidth {multiplier:.2g}x Scott")
            first, second = pair_on(path, multiplier)
            for method in self.members:
                # The kernel on confidence alone has no second axis.
                key = (method, first, second if len(self.members[method].axes) > 1 else 1.0)
                if key not in known:
                    known[key] = self.score(method, (first, second))
                rows.append({"path": path, "multiplier": multiplier, "method": method, **known[key]})
        columns = ["path", "multiplier", "method", *HEADLINE, "clip_low", "clip_high", "tied"]
        table = pd.DataFrame(rows, columns=columns)
        marks = {"scott": 1.0}
        if ROUTING in self.members:
            report(0.95, "cross-validation")
            chosen = cross_validated(self.members[ROUTING], self.halves.calibration, self.seed)
            marks |= {CV_NLL: chosen, ORACLE: _oracle(table)}
        report(1.0, "done")
        halves = self.halves
        return BandwidthCurves(
            self.run_id, halves.feature_name, halves.calibration.n_samples, halves.evaluation.n_samples, table, marks
        )


def _oracle(table: pd.DataFrame) -> float:
    """The multiple of the paper's five with the least ECE on the evaluated half."""
    linked = table[(table["path"] == "both") & (table["method"] == ROUTING) & table["multiplier"].isin(MULTIPLIERS)]
    return float(linked["multiplier"].to_numpy()[linked["ece"].to_numpy().argmin()])
