"""Post-hoc calibrators behind one interface.

`CALIBRATORS[name]().fit(logits, labels, feature=None)` returns a fitted object that predicts, by
`predict_proba(logits, feature=None)`, and carries what it learnt. The order is that of the paper's tables.
"""

from engine.calibrators.base import Calibrator, Fitted
from engine.calibrators.bayesian_binning import BayesianBinning
from engine.calibrators.classwise import ClasswiseTemperatureScaling
from engine.calibrators.ensemble import EnsembleTemperatureScaling
from engine.calibrators.histogram import HistogramBinning
from engine.calibrators.isotonic import IsotonicCalibration
from engine.calibrators.kernel_family import (
    CV_NLL,
    Bandwidth,
    FittedKernel,
    KernelCalibrator,
    KernelConfidence,
    KernelConfidenceEntropy,
    KernelConfidenceRouting,
    KernelPrediction,
)
from engine.calibrators.logit_norm import LogitNormalisation
from engine.calibrators.margin_entropy import MarginEntropyCalibration
from engine.calibrators.parametric import ParametricTemperatureScaling
from engine.calibrators.samples import Samples
from engine.calibrators.soft_binned import SoftBinnedTemperatureScaling
from engine.calibrators.temperature import NoCalibration, TemperatureScaling
from engine.calibrators.vector import VectorScaling

CALIBRATORS: dict[str, type[Calibrator]] = {
    calibrator.name: calibrator
    for calibrator in (
        NoCalibration,
        TemperatureScaling,
        EnsembleTemperatureScaling,
        VectorScaling,
        ClasswiseTemperatureScaling,
        ParametricTemperatureScaling,
        HistogramBinning,
        BayesianBinning,
        IsotonicCalibration,
        SoftBinnedTemperatureScaling,
        LogitNormalisation,
        MarginEntropyCalibration,
        KernelConfidence,
        KernelConfidenceEntropy,
        KernelConfidenceRouting,
    )
}

__all__ = [
    "CALIBRATORS",
    "CV_NLL",
    "Bandwidth",
    "Calibrator",
    "Fitted",
    "FittedKernel",
    "KernelCalibrator",
    "KernelPrediction",
    "Samples",
]
