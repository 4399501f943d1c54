"""What the report and the pages draw of one run, put together from the engine's parts. No Streamlit in here."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from app.report.blind import BlindCache
from app.state.selection import N_SIMULATIONS, feature_label
from engine.controls import SIMULATED, FalseAlarms, PowerCurve, false_alarm_rate, power_curve
from engine.controls.table import controls_table
from engine.core.binning import N_BINS, Matching
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import WITHOUT_LOGITS, BoolArray, FloatArray, Progress, RunData, part_of
from engine.features import columns_of, feature
from engine.gaps.settings import MIN_SUPPORT, TestSettings
from engine.metrics import reliability_table
from engine.metrics.mechanism import DepthProfile, depth_profile
from engine.metrics.reliability import CalibrationSummary, calibration_summary
from engine.sweep.others import other_entropies
from engine.verdict import Verdict, judge

TRUST = {
    "label": "Test", "p": "p on this run", "false_alarm": "False alarms", "detectable": "Gap detected with 80 % power",
    "reading": "Reading",
}  # fmt: skip
TRUST_FORMATS = {"p": "p", "false_alarm": "percent", "detectable": "%.2f"}


@dataclass(frozen=True, eq=False)
class Diagram:
    """A reliability diagram before it is drawn: one row per bin, and the summary."""

    table: pd.DataFrame
    summary: CalibrationSummary


def diagram_of(confidence: FloatArray, correct: BoolArray, n_bins: int, matching: Matching) -> Diagram:
    """Equal-width or equal-mass bins of these samples."""
    # Equal-mass bins need a sample each; a thin slice may hold fewer than the bins asked for.
    kept = n_bins if matching == "equal_width" else min(n_bins, confidence.size)
    table = reliability_table(confidence, correct, n_bins=kept, matching=matching)
    return Diagram(table, calibration_summary(confidence, correct, n_bins=n_bins))


def depth_of(run: RunData, layers: pd.DataFrame) -> DepthProfile:
    """The routing profile by layer; of a run without one, its extra columns, of which there must be one."""
    if run.n_layers == 0:
        return depth_profile(np.column_stack(list(run.extra.values())), run.correct, names=list(run.extra))
    sources = [None if pd.isna(number) else int(number) for number in layers["n_sources"]]
    return depth_profile(run.entropies, run.correct, names=layers["name"].tolist(), n_sources=sources)


@dataclass(frozen=True)
class Settings:
    """What a report is about; everything else is the protocol's."""

    feature: str = "r_agg"
    min_support: int = MIN_SUPPORT

    @property
    def label(self) -> str:
        """How the feature is called."""
        return feature_label(self.feature)

    @property
    def test(self) -> TestSettings:
        """The settings of the paper's test."""
        return TestSettings(min_support=self.min_support)

    def describe(self) -> str:
        """The settings of the paper's test in words."""
        return f"{N_BINS} equal-width bins, at least {self.min_support} samples in each outer third, tertile cuts"


@dataclass(frozen=True, eq=False)
class Tested:
    """Both tests of one run and what its controls say about them."""

    verdict: Verdict
    alarms: FalseAlarms
    power: PowerCurve
    trust: pd.DataFrame


@dataclass(frozen=True, eq=False)
class Study:
    """One run. `tested` is None, and `missing` says why, if the run lacks the feature; `depth` is None without layers.

    routed : whether `depth` is of routing, or of other columns that stand in for it.
    """

    diagram: Diagram
    tested: Tested | None
    missing: str
    depth: DepthProfile | None
    routed: bool


def study_run(cache: BlindCache, run_id: str, settings: Settings, progress: Progress) -> Study:
    """Load a run and ask the engine everything that its section shows; all samples, nothing fitted."""
    run = cache.load(run_id, WITHOUT_LOGITS | columns_of(settings.feature))
    tested, missing = None, ""
    try:
        rho = feature(run, settings.feature)
    except (MissingData, InvalidInput) as error:
        missing = str(error)
    else:
        samples = run.confidence, run.correct, rho
        outputs = cache.load(run_id, {"logits"}).logits
        verdict = judge(
            *samples, feature=settings.label, outputs=outputs, others=other_entropies(cache, run_id),
            clusters=run.clusters, settings=settings.test, n_replicates=N_SIMULATIONS,
            progress=part_of(progress, 0, 0.4),
        )  # fmt: skip
        alarms = false_alarm_rate(
            *samples, settings=settings.test, n_replicates=N_SIMULATIONS,
            progress=part_of(progress, 0.4, 0.2),
        )  # fmt: skip
        power = power_curve(
            *samples, tests=SIMULATED, settings=settings.test, n_replicates=N_SIMULATIONS,
            progress=part_of(progress, 0.6, 0.4),
        )  # fmt: skip
        trust = controls_table(*samples, alarms, power, settings=settings.test)
        tested = Tested(verdict, alarms, power, trust)
    depth = depth_of(run, cache.layers(run_id)) if run.n_layers or run.extra else None
    return Study(
        diagram_of(run.confidence, run.correct, N_BINS, "equal_width"), tested, missing, depth, run.n_layers > 0
    )
