"""Each calibrator, fitted on 5000 samples and applied to 5000 more, beside every peer that offers the same method."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import numpy as np
from scipy.special import softmax

from engine.calibrators import CALIBRATORS
from engine.core.types import FloatArray, IntArray
from tests.bench.data import predictions
from tests.bench.peers import probmetrics_calibrators
from tests.bench.runner import Case, Work, installed

HALF = 5000
Peers = Callable[[FloatArray, FloatArray, IntArray], dict[str, Work]]


def _case(name: str, n_classes: int, peers: Peers | None = None, repeats: int = 7) -> Case:
    def prepare() -> tuple[Work, Mapping[str, Work]]:
        logits, probabilities, labels = predictions(2 * HALF, n_classes)
        feature = np.random.default_rng(3).gamma(3.0, 0.01, 2 * HALF)
        cal, test = slice(0, HALF), slice(HALF, None)

        def ours() -> object:
            fitted = CALIBRATORS[name]().fit(logits[cal], labels[cal], feature[cal])
            return fitted.predict_proba(logits[test], feature[test])

        return ours, {} if peers is None else peers(logits, probabilities, labels)

    title = f"{CALIBRATORS[name].label}, K = {n_classes}"
    return Case(title, prepare, target=None if peers is None else 1.0, repeats=repeats)


def _temperature_peers(logits: FloatArray, probabilities: FloatArray, labels: IntArray) -> dict[str, Work]:
    peers: dict[str, Work] = {}
    if installed("sklearn"):
        from sklearn.calibration import _TemperatureScaling

        peers["scikit-learn"] = lambda: _TemperatureScaling().fit(logits[:HALF], labels[:HALF]).predict(logits[HALF:])
    if installed("netcal"):
        from netcal.scaling import TemperatureScaling

        def netcal() -> object:
            method = TemperatureScaling()
            method.fit(probabilities[:HALF], labels[:HALF])
            return method.transform(probabilities[HALF:])

        peers["netcal"] = netcal
    peers |= _probmetrics("TemperatureScalingCalibrator", probabilities, labels)
    return peers


def _probmetrics(name: str, probabilities: FloatArray, labels: IntArray, **settings: str) -> dict[str, Work]:
    calibrators = probmetrics_calibrators()
    if calibrators is None:
        return {}

    def work() -> object:
        method = getattr(calibrators, name)(**settings)
        method.fit(probabilities[:HALF], labels[:HALF])
        return method.predict_proba(probabilities[HALF:])

    return {"probmetrics": work}


def _ensemble_peers(logits: FloatArray, probabilities: FloatArray, labels: IntArray) -> dict[str, Work]:  # noqa: ARG001
    return _probmetrics("ETSCalibrator", probabilities, labels, loss="ce")


def _vector_peers(logits: FloatArray, probabilities: FloatArray, labels: IntArray) -> dict[str, Work]:  # noqa: ARG001
    # netcal's LogisticCalibration is close in spirit but takes minutes at this size.
    return _probmetrics("VectorScalingCalibrator", probabilities, labels)


def _classwise_peers(logits: FloatArray, probabilities: FloatArray, labels: IntArray) -> dict[str, Work]:  # noqa: ARG001
    if not installed("sklearn"):
        return {}
    from sklearn.calibration import _TemperatureScaling

    predicted = logits.argmax(axis=1)
    cal, test = np.arange(HALF), np.arange(HALF, 2 * HALF)

    def by_class() -> FloatArray:
        result = np.empty((HALF, logits.shape[1]))
        for k in np.unique(predicted[test]):
            rows = cal[predicted[cal] == k]
            fitted = _TemperatureScaling().fit(logits[rows], labels[rows])
            result[predicted[test] == k] = fitted.predict(logits[test][predicted[test] == k])
        return result

    return {"scikit-learn, class by class": by_class}


class _TopLabel(Protocol):
    """A peer's calibrator of one confidence."""

    def fit(self, x: FloatArray, y: IntArray) -> object: ...


def _from_logits(
    make: Callable[[], _TopLabel], apply: str, logits: FloatArray, labels: IntArray
) -> Callable[[], FloatArray]:
    """A top-label peer carried to the same end as ours: from logits to the probabilities of all classes."""

    def work() -> FloatArray:
        probabilities = softmax(logits, axis=1)
        confidence, top = probabilities.max(axis=1), probabilities.argmax(axis=1)
        method = make()
        with contextlib.redirect_stderr(io.StringIO()):  # netcal draws a progress bar
            method.fit(confidence[:HALF], (top == labels).astype(np.int64)[:HALF])
            target = np.asarray(getattr(method, apply)(confidence[HALF:]), dtype=np.float64)
        result = probabilities[HALF:] * ((1 - target) / np.maximum(1 - confidence[HALF:], 1e-300))[:, np.newaxis]
        result[np.arange(HALF), top[HALF:]] = target
        return result

    return work


def _netcal_binning(name: str, **settings: int) -> Peers:
    def peers(logits: FloatArray, probabilities: FloatArray, labels: IntArray) -> dict[str, Work]:  # noqa: ARG001
        if not installed("netcal"):
            return {}
        from netcal import binning

        make = partial(getattr(binning, name), **settings)
        return {f"netcal {name}": _from_logits(make, "transform", logits, labels)}

    return peers


def _isotonic_peers(logits: FloatArray, probabilities: FloatArray, labels: IntArray) -> dict[str, Work]:
    peers = _netcal_binning("IsotonicRegression")(logits, probabilities, labels)
    if installed("sklearn"):
        from sklearn.isotonic import IsotonicRegression

        make = partial(IsotonicRegression, out_of_bounds="clip")
        peers["scikit-learn"] = _from_logits(make, "predict", logits, labels)
    return peers


PARAMETRIC: dict[str, Peers | None] = {
    "ts": _temperature_peers,
    "ets": _ensemble_peers,
    "vs": _vector_peers,
    "cts": _classwise_peers,
    "pts": None,
    "sbece": None,
    "lc": None,
    "rcmmc": None,
}

CASES: tuple[Case, ...] = (
    *(_case(name, n_classes, peers, repeats=5) for n_classes in (10, 100) for name, peers in PARAMETRIC.items()),
    _case("hb", 10, _netcal_binning("HistogramBinning", bins=15)),
    _case("bbq", 10, _netcal_binning("BBQ")),
    _case("isotonic", 10, _isotonic_peers),
    *(_case(name, 10) for name in ("nw_conf", "nw_conf_entropy", "nw_conf_routing")),
)
