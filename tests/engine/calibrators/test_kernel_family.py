"""AR-CondCal and its matched controls."""

from __future__ import annotations

import numpy as np
import pytest

from engine.calibrators import CALIBRATORS, FittedKernel, Samples
from engine.calibrators.kernel_family import KernelConfidence, KernelConfidenceEntropy, KernelConfidenceRouting
from engine.core.errors import InvalidInput, UnknownName
from engine.core.types import RunData
from engine.features import predictive_entropy
from engine.kernel import scott_bandwidth

CAL, TEST = slice(0, 600), slice(600, None)


@pytest.fixture(scope="module")
def data(network):
    return network(1200, 6, seed=50, temperature=1.8)


def test_top_probability_is_the_regression(data):
    kernel_regression = pytest.importorskip("statsmodels.nonparametric.kernel_regression")
    fitted = CALIBRATORS["nw_conf_routing"]().fit(*data.rows(CAL))
    cal = Samples.checked(data.logits[CAL], data.labels[CAL])
    test = Samples.checked(data.logits[TEST], feature=data.feature[TEST])
    x = np.column_stack([cal.confidence, data.feature[CAL]])
    bandwidth = x.std(axis=0) * 600 ** (-1 / 6)
    assert fitted.bandwidth == pytest.approx(bandwidth)
    peer = kernel_regression.KernelReg(cal.correct.astype(float), x, "cc", reg_type="lc", bw=bandwidth)
    target = peer.fit(np.column_stack([test.confidence, data.feature[TEST]]))[0]
    reachable = target.clip(1 / 6 + 1e-6, 1 - 1e-6)
    top = fitted.predict_proba(data.logits[TEST], data.feature[TEST])[np.arange(600), test.top]
    assert top == pytest.approx(reachable, abs=1e-8)


def test_all_members_share_the_exponent(data):
    fits = {name: CALIBRATORS[name]().fit(*data.rows(CAL)) for name in CALIBRATORS if name.startswith("nw_")}
    confidence = Samples.checked(data.logits[CAL]).confidence
    expected = scott_bandwidth(confidence, dimension=2)[0]
    assert [fit.bandwidth[0] for fit in fits.values()] == pytest.approx([expected] * 3)
    assert [fit.axes for fit in fits.values()] == [
        ("confidence",),
        ("confidence", "entropy"),
        ("confidence", "feature"),
    ]


def test_entropy_regressor_is_the_feature(data):
    run = RunData("r", np.full(1200, 0.5), np.ones(1200, dtype=bool), np.empty((1200, 0)), logits=data.logits)
    by_name = KernelConfidenceEntropy().fit(*data.rows(CAL)).predict_proba(data.logits[TEST])
    entropy = predictive_entropy(run)
    by_feature = KernelConfidenceRouting().fit(data.logits[CAL], data.labels[CAL], entropy[CAL])
    assert by_name == pytest.approx(by_feature.predict_proba(data.logits[TEST], entropy[TEST]), abs=1e-9)


def test_reflected_and_rescaled_features_change_nothing(data):
    reference = KernelConfidenceRouting().fit(*data.rows(CAL)).predict_proba(data.logits[TEST], data.feature[TEST])
    for transform in (lambda r: 1 - r, lambda r: 250 * r - 7, lambda r: (r - r.min()) / np.ptp(r)):
        moved = transform(data.feature)
        fitted = KernelConfidenceRouting().fit(data.logits[CAL], data.labels[CAL], moved[CAL])
        assert fitted.predict_proba(data.logits[TEST], moved[TEST]) == pytest.approx(reference, abs=1e-8)


def test_constant_feature_is_confidence_alone(data):
    constant = np.full(1200, 0.37)
    fitted = KernelConfidenceRouting().fit(data.logits[CAL], data.labels[CAL], constant[CAL])
    alone = KernelConfidence().fit(data.logits[CAL], data.labels[CAL])
    assert fitted.bandwidth[1] == 0
    assert "feature" in fitted.note
    moved = np.random.default_rng(0).normal(size=600)  # the axis is ignored even where queries vary
    assert fitted.predict_proba(data.logits[TEST], moved) == pytest.approx(
        alone.predict_proba(data.logits[TEST]), abs=1e-9
    )


def test_multipliers_per_axis(data):
    fitted = KernelConfidenceRouting(bandwidth=(0.5, 3.0)).fit(*data.rows(CAL))
    plain = KernelConfidenceRouting().fit(*data.rows(CAL))
    assert fitted.bandwidth == pytest.approx(plain.bandwidth * [0.5, 3.0])
    moved = plain.at((0.5, 3.0))
    assert isinstance(moved, FittedKernel)
    assert (
        moved.predict_proba(data.logits[TEST], data.feature[TEST]).tobytes()
        == fitted.predict_proba(data.logits[TEST], data.feature[TEST]).tobytes()
    )
    assert KernelConfidence(bandwidth=(0.5, 3.0)).fit(*data.rows(CAL)).multiplier.tolist() == [0.5]


def test_cross_validated_bandwidth_is_kept_with_its_reasons(data):
    fitted = KernelConfidenceRouting(bandwidth="cv_nll").fit(*data.rows(CAL))
    assert fitted.choice is not None
    assert fitted.multiplier.tolist() == [fitted.choice.multiplier] * 2
    assert fitted.choice.fold_nll.shape == (5, 5)


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), (1.0, 0.0), (1.0, 1.0, 1.0), ()])
def test_bad_multipliers(bandwidth, data):
    with pytest.raises(InvalidInput) as caught:
        KernelConfidenceRouting(bandwidth=bandwidth).fit(*data.rows(CAL))
    assert caught.value.argument == "bandwidth"


def test_unknown_bandwidth_rule(data):
    with pytest.raises(UnknownName, match="cv_nll"):
        KernelConfidenceRouting(bandwidth="oracle").fit(*data.rows(CAL))


def test_clipped_and_tied_samples_are_reported(data):
    labels = data.logits.argmax(axis=1)  # always right: the regression asks for probability 1
    fitted = KernelConfidence().fit(data.logits[CAL], labels[CAL])
    queries = np.vstack([data.logits[TEST], np.full((3, 6), 0.25)])
    prediction = fitted.predict(Samples.checked(queries))
    assert prediction.regression == pytest.approx(np.ones(603))
    assert prediction.solution.n_clipped_high == 603
    assert prediction.solution.n_tied == 3
    assert prediction.probabilities[-1] == pytest.approx(np.full(6, 1 / 6))
