"""What the report and the pages draw of one run, put together from the engine's parts. No Streamlit in here."""

from dataclasses import dataclass

from app.report.blind import BlindCache
from app.state.selection import N_SIMULATIONS, feature_label
from engine.controls.table import Controls, simulate_controls
from engine.core.binning import N_BINS
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import WITHOUT_LOGITS, Progress, part_of
from engine.features import columns_of, feature
from engine.gaps.settings import MIN_SUPPORT, TestSettings
from engine.metrics.reliability import Diagram, diagram_of
from engine.sweep.others import other_entropies
from engine.verdict import Verdict, judge

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
class Study:
    """One run. The verdict and its controls are None, and `missing` says why, if the run lacks the feature."""

    diagram: Diagram
    verdict: Verdict | None = None
    controls: Controls | None = None
    missing: str = ""


def study_run(cache: BlindCache, run_id: str, settings: Settings, progress: Progress) -> Study:
    """Load a run and ask the engine everything that its section shows; all samples, nothing fitted."""
    run = cache.load(run_id, WITHOUT_LOGITS | columns_of(settings.feature))
    diagram = diagram_of(run.confidence, run.correct, N_BINS, "equal_width")
    try:
        samples = run.confidence, run.correct, feature(run, settings.feature)
    except (MissingData, InvalidInput) as error:
        return Study(diagram, missing=str(error))
    verdict = judge(
        *samples, feature=settings.label, outputs=cache.load(run_id, {"logits"}).logits,
        others=other_entropies(cache, run_id), clusters=run.clusters, settings=settings.test,
        n_replicates=N_SIMULATIONS, progress=part_of(progress, 0, 0.4),
    )  # fmt: skip
    controls = simulate_controls(
        *samples,
        clusters=run.clusters,
        settings=settings.test,
        n_replicates=N_SIMULATIONS,
        progress=part_of(progress, 0.4, 0.6),
    )
    return Study(diagram, verdict, controls)
