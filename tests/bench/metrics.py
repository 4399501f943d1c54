"""Calibration metrics beside every peer that computes the same number, each given its native input types."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from engine import metrics
from tests.bench.data import predictions
from tests.bench.peers import declare_torchvision_operators
from tests.bench.runner import Case, Work, installed

N = 10_000


def _top_label(n_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    _, probabilities, labels = predictions(N, n_classes)
    return probabilities, labels, probabilities.max(axis=1), probabilities.argmax(axis=1) == labels


def _ece() -> tuple[Work, Mapping[str, Work]]:
    probabilities, labels, confidence, correct = _top_label(10)
    peers: dict[str, Work] = {}
    if installed("relplot"):
        import relplot

        target = correct.astype(float)
        peers["relplot"] = lambda: relplot.metrics.binnedECE(confidence, target, nbins=15)
    if installed("netcal"):
        from netcal.metrics import ECE

        peers["netcal"] = lambda: ECE(15).measure(confidence, correct)
    if installed("torchmetrics"):
        import torch

        declare_torchvision_operators()
        from torchmetrics.functional.classification import multiclass_calibration_error

        tensor, target_tensor = torch.from_numpy(probabilities), torch.from_numpy(labels)
        peers["torchmetrics"] = lambda: multiclass_calibration_error(tensor, target_tensor, 10, 15, "l1")
    return lambda: metrics.ece(confidence, correct), peers


def _adaptive_ece() -> tuple[Work, Mapping[str, Work]]:
    _, _, confidence, correct = _top_label(10)
    peers: dict[str, Work] = {}
    if installed("netcal"):
        from netcal.metrics import ECE

        peers["netcal (equal intervals)"] = lambda: ECE(15, equal_intervals=False).measure(confidence, correct)
    if installed("calibration"):
        import calibration

        target = correct.astype(int)
        peers["uncertainty-calibration"] = lambda: calibration.lower_bound_scaling_ce(
            confidence, target, p=1, debias=False, num_bins=15, binning_scheme=calibration.get_equal_bins
        )
    return lambda: metrics.adaptive_ece(confidence, correct), peers


def _classwise_ece() -> tuple[Work, Mapping[str, Work]]:
    probabilities, labels, _, _ = _top_label(100)
    peers: dict[str, Work] = {}
    if installed("netcal"):
        from netcal.metrics import ECE

        def by_class() -> float:
            return float(np.mean([ECE(15).measure(probabilities[:, k], labels == k) for k in range(100)]))

        peers["netcal, class by class"] = by_class
    if installed("torchmetrics"):
        import torch

        declare_torchvision_operators()
        from torchmetrics.functional.classification import binary_calibration_error

        tensor, target = torch.from_numpy(probabilities), torch.from_numpy(labels)

        def by_class_torch() -> float:
            errors = [binary_calibration_error(tensor[:, k], (target == k).long(), 15, "l1") for k in range(100)]
            return float(torch.stack(errors).mean())

        peers["torchmetrics, class by class"] = by_class_torch
    if installed("relplot"):
        import relplot

        one_hot = np.eye(100)[labels]

        def by_class_relplot() -> float:
            columns = range(100)
            return float(np.mean([relplot.metrics.binnedECE(probabilities[:, k], one_hot[:, k], 15) for k in columns]))

        peers["relplot, class by class"] = by_class_relplot
    return lambda: metrics.classwise_ece(probabilities, labels), peers


def _smooth_ece() -> tuple[Work, Mapping[str, Work]]:
    _, _, confidence, correct = _top_label(10)
    peers: dict[str, Work] = {}
    if installed("relplot"):
        import relplot

        target = correct.astype(float)
        peers["relplot"] = lambda: relplot.smECE(confidence, target)
    return lambda: metrics.smooth_ece(confidence, correct), peers


def _case(name: str, prepare: Callable[[], tuple[Work, Mapping[str, Work]]]) -> Case:
    return Case(name, prepare, target=1.0, repeats=15)


CASES: tuple[Case, ...] = (
    _case("ECE, 15 bins", _ece),
    _case("AdaECE, 15 bins", _adaptive_ece),
    _case("classwise ECE, 100 classes", _classwise_ece),
    _case("SmoothECE", _smooth_ece),
)
