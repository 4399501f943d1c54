"""What all registered calibrators promise, checked on each of them."""

from __future__ import annotations

import numpy as np
import pytest

from engine import metrics
from engine.calibrators import CALIBRATORS
from engine.core.errors import InvalidInput

NAMES = list(CALIBRATORS)
WITH_FEATURE = [name for name, entry in CALIBRATORS.items() if "feature" in entry.needs]


def is_simplex(probabilities: np.ndarray, shape: tuple[int, int]) -> bool:
    return (
        probabilities.shape == shape
        and bool(np.isfinite(probabilities).all())
        and bool((probabilities >= 0).all())
        and bool(np.allclose(probabilities.sum(axis=1), 1, atol=1e-9))
    )


def keeps_predictions(logits: np.ndarray, probabilities: np.ndarray) -> bool:
    rows = np.arange(len(logits))
    return bool((probabilities[rows, logits.argmax(axis=1)] >= probabilities.max(axis=1)).all())


def test_registry_holds_the_papers_list_in_its_order():
    listed = "none ts ets vs cts pts hb bbq isotonic sbece lc rcmmc nw_conf nw_conf_entropy nw_conf_routing"
    paper = listed.split()
    assert [name for name in NAMES if name in paper] == paper
    assert [name for name in paper if name in WITH_FEATURE] == ["nw_conf_routing"]
    assert [name for name in paper if not CALIBRATORS[name].keeps_argmax] == ["vs", "hb", "bbq", "isotonic"]
    for name, entry in CALIBRATORS.items():
        assert entry.name == name
        assert entry.label
        assert entry.reference


@pytest.mark.parametrize("n_classes", [2, 10, 100, 1000])
@pytest.mark.parametrize("name", NAMES)
def test_probabilities_and_promised_argmax(name, n_classes, network):
    data = network(600, n_classes, seed=n_classes, temperature=1.5)
    cal, test = slice(0, 300), slice(300, 600)
    logits, _, feature = data.rows(test)
    fitted = CALIBRATORS[name]().fit(*data.rows(cal))
    probabilities = fitted.predict_proba(logits, feature)
    assert is_simplex(probabilities, logits.shape)
    if CALIBRATORS[name].keeps_argmax:
        assert keeps_predictions(logits, probabilities)
    assert fitted.name == name
    assert (fitted.n_samples, fitted.n_classes) == (300, n_classes)


@pytest.mark.parametrize("name", NAMES)
def test_a_calibrated_network_is_left_nearly_alone(name, network):
    data = network(10_000, 10, seed=1)
    cal, test = slice(0, 5000), slice(5000, None)
    logits, labels, feature = data.rows(test)
    fitted = CALIBRATORS[name]().fit(*data.rows(cal))
    before = CALIBRATORS["none"]().fit(*data.rows(cal)).predict_proba(logits)
    after = fitted.predict_proba(logits, feature)
    assert np.abs(after.max(axis=1) - before.max(axis=1)).mean() < 0.03
    assert metrics.nll(after, labels) < metrics.nll(before, labels) + 0.02
    assert metrics.ece(after.max(axis=1), after.argmax(axis=1) == labels) < 0.035


@pytest.mark.parametrize("name", [name for name in NAMES if name != "none"])
def test_over_confidence_is_cured(name, network):
    data = network(8000, 10, seed=2, temperature=2.0)
    logits, labels, feature = data.rows(slice(4000, None))
    probabilities = CALIBRATORS[name]().fit(*data.rows(slice(0, 4000))).predict_proba(logits, feature)
    raw = CALIBRATORS["none"]().fit(*data.rows(slice(0, 4000))).predict_proba(logits)
    assert metrics.ece(raw.max(axis=1), raw.argmax(axis=1) == labels) > 0.1
    assert metrics.ece(probabilities.max(axis=1), probabilities.argmax(axis=1) == labels) < 0.045
    assert metrics.nll(probabilities, labels) < metrics.nll(raw, labels)


@pytest.mark.parametrize("name", NAMES)
def test_same_input_same_bytes(name, network):
    data = network(400, 5, seed=3)
    once, again = (CALIBRATORS[name]().fit(*data.rows(slice(0, 200))) for _ in range(2))
    logits, _, feature = data.rows(slice(200, None))
    assert once.predict_proba(logits, feature).tobytes() == again.predict_proba(logits, feature).tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_fitted_object_tells_what_it_learnt(name, network):
    fitted = CALIBRATORS[name]().fit(*network(300, 4, seed=4).rows(slice(None)))
    assert bool(fitted.learned) is (name != "none")
    assert fitted.converged, fitted.note
    assert fitted.note == ""


@pytest.mark.parametrize("name", NAMES)
def test_a_class_missing_from_the_calibration_half(name, network):
    data = network(1200, 10, seed=5, temperature=1.5)
    kept = np.flatnonzero(data.labels[:600] != 7)
    logits, labels, feature = data.rows(slice(600, None))
    probabilities = CALIBRATORS[name]().fit(*data.rows(kept)).predict_proba(logits, feature)
    assert is_simplex(probabilities, logits.shape)
    assert (probabilities[labels == 7, 7] > 1e-4).mean() > 0.8


@pytest.mark.parametrize("name", NAMES)
def test_fifty_calibration_samples(name, network):
    data = network(550, 10, seed=6, temperature=1.5)
    logits, _, feature = data.rows(slice(50, None))
    fitted = CALIBRATORS[name]().fit(*data.rows(slice(0, 50)))
    assert is_simplex(fitted.predict_proba(logits, feature), logits.shape)


@pytest.mark.parametrize("name", NAMES)
def test_duplicate_rows(name, network):
    data = network(40, 6, seed=7)
    rows = np.repeat(np.arange(40), 10)
    fitted = CALIBRATORS[name]().fit(*data.rows(rows))
    probabilities = fitted.predict_proba(data.logits[rows], data.feature[rows])
    assert is_simplex(probabilities, (400, 6))
    assert (probabilities[::10] == probabilities[9::10]).all()


@pytest.mark.parametrize("name", NAMES)
def test_identical_samples(name):
    logits = np.tile([2.0, 1.0, 0.0], (60, 1))
    labels = np.arange(60) % 2
    fitted = CALIBRATORS[name]().fit(logits, labels, np.full(60, 0.2))
    assert is_simplex(fitted.predict_proba(logits[:3], np.full(3, 0.2)), (3, 3))


@pytest.mark.parametrize("name", NAMES)
def test_logits_of_ten_thousand(name, network):
    data = network(800, 10, seed=8)
    huge, small = 1e4 * data.logits, data.logits
    cal, test = slice(0, 400), slice(400, None)
    probabilities = (
        CALIBRATORS[name]()
        .fit(huge[cal], data.labels[cal], data.feature[cal])
        .predict_proba(huge[test], data.feature[test])
    )
    assert is_simplex(probabilities, (400, 10))
    if name in ("ts", "cts", "sbece", "lc"):  # methods that know no scale of their own
        plain = CALIBRATORS[name]().fit(small[cal], data.labels[cal], data.feature[cal])
        assert probabilities == pytest.approx(plain.predict_proba(small[test], data.feature[test]), abs=2e-3)


@pytest.mark.parametrize("wrong", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_only_correct_or_only_wrong_predictions(name, wrong, network):
    data = network(600, 5, seed=9)
    order = np.argsort(data.logits, axis=1)
    labels = order[:, 0] if wrong else order[:, -1]
    fitted = CALIBRATORS[name]().fit(data.logits[:300], labels[:300], data.feature[:300])
    probabilities = fitted.predict_proba(data.logits[300:], data.feature[300:])
    assert is_simplex(probabilities, (300, 5))
    if CALIBRATORS[name].keeps_argmax:
        assert keeps_predictions(data.logits[300:], probabilities)
    if name in ("ts", "ets", "cts", "pts", "rcmmc") or (name == "vs" and not wrong):
        assert not fitted.converged
        assert "no finite optimum" in fitted.note
        raw = CALIBRATORS["none"]().fit(data.logits[:300], labels[:300]).predict_proba(data.logits[300:])
        if name != "ets":
            assert probabilities == pytest.approx(raw, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("change", "culprit"),
    [
        ({"logits": [[0.0, np.nan], [1.0, 0.0]]}, "logits"),
        ({"logits": [[0.0, np.inf], [1.0, 0.0]]}, "logits"),
        ({"logits": [[0.0], [1.0]]}, "logits"),
        ({"logits": [0.0, 1.0]}, "logits"),
        ({"labels": [0, 2]}, "labels"),
        ({"labels": [0, -1]}, "labels"),
        ({"labels": [0, 0.5]}, "labels"),
        ({"labels": [0]}, "labels"),
    ],
)
def test_bad_input_is_named(name, change, culprit):
    arguments = {"logits": [[0.0, 1.0], [1.0, 0.0]], "labels": [0, 1], "feature": [0.1, 0.2], **change}
    with pytest.raises(InvalidInput) as caught:
        CALIBRATORS[name]().fit(**arguments)
    assert caught.value.argument == culprit


@pytest.mark.parametrize("name", WITH_FEATURE)
def test_missing_or_misfit_feature_is_named(name, network):
    data = network(100, 4)
    with pytest.raises(InvalidInput, match="feature: expected one value per sample") as caught:
        CALIBRATORS[name]().fit(data.logits, data.labels)
    assert caught.value.argument == "feature"
    with pytest.raises(InvalidInput, match="feature"):
        CALIBRATORS[name]().fit(data.logits, data.labels, data.feature[:99])
    with pytest.raises(InvalidInput, match="feature"):
        CALIBRATORS[name]().fit(data.logits, data.labels, np.where(np.arange(100) == 3, np.nan, data.feature))
    fitted = CALIBRATORS[name]().fit(*data.rows(slice(None)))
    with pytest.raises(InvalidInput, match="feature"):
        fitted.predict_proba(data.logits)
    with pytest.raises(InvalidInput, match="feature"):
        fitted.predict_proba(data.logits, data.feature[:5])


@pytest.mark.parametrize("name", NAMES)
def test_another_number_of_classes_is_refused(name, network):
    fitted = CALIBRATORS[name]().fit(*network(100, 4).rows(slice(None)))
    other = network(10, 5)
    with pytest.raises(InvalidInput, match="4 classes, as in the fit"):
        fitted.predict_proba(other.logits, other.feature)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in WITH_FEATURE])
def test_a_feature_without_use_is_ignored(name, network):
    data = network(200, 4, seed=10)
    without = CALIBRATORS[name]().fit(data.logits, data.labels).predict_proba(data.logits)
    assert CALIBRATORS[name]().fit(*data.rows(slice(None))).predict_proba(data.logits) == pytest.approx(without)
