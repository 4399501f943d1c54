"""What the report and the pages draw of one run, put together from the engine's parts. No Streamlit in here."""

from dataclasses import dataclass

import pandas as pd

from app.report.blind import BlindCache
from app.state.selection import N_SIMULATIONS, feature_label
from engine.controls import FalseAlarms, PowerCurve
from engine.controls.table import simulate_controls
from engine.core.binning import N_BINS
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import WITHOUT_LOGITS, Progress, part_of
from engine.features import columns_of, feature
from engine.gaps.settings import MIN_SUPPORT, TestSettings
from engine.metrics.mechanism import DepthProfile
from engine.metrics.reliability import Diagram, diagram_of
from engine.sweep.others import other_entropies
from engine.verdict import Verdict, judge
from engine.verdict.answers import depth_of, layers_of

TRUST = {
    "label": "Test", "p": "p on this run", "false_alarm": "False alarms", "detectable": "Gap detected with 80 % power",
    "reading": "Reading",
}  # fmt: skip
TRUST_FORMATS = {"p": "p", "false_alarm": "percent", "detectable": "%.2f"}


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
        controls = simulate_controls(
            *samples, clusters=run.clusters, settings=settings.test, n_replicates=N_SIMULATIONS,
            progress=part_of(progress, 0.4, 0.6),
        )  # fmt: skip
        tested = Tested(verdict, controls.alarms, controls.power, controls.trust)
    depth = depth_of(run, layers_of(cache.layers(run_id))) if run.n_layers or run.extra else None
    return Study(
        diagram_of(run.confidence, run.correct, N_BINS, "equal_width"), tested, missing, depth, run.n_layers > 0
    )
