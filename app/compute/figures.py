"""What pages and the report draw of one run, put together from the engine's parts. No Streamlit in here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from engine.core.binning import Matching
from engine.core.types import BoolArray, FloatArray, RunData
from engine.metrics import reliability_table
from engine.metrics.mechanism import DepthProfile, depth_profile
from engine.metrics.reliability import CalibrationSummary, calibration_summary


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
