"""The probe audit: planted worlds, a valid p-value, and every odd shape of input."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

from engine.core.binning import split
from engine.core.errors import InvalidInput
from engine.probes import CONTRASTS, PROBES, audit
from engine.probes.auditing import shuffle_within
from engine.probes.networks import Batch, Recipe, initial_weights, train

CHEAP = {"hidden": 4, "epochs": 10, "n_inits": 2, "n_shuffles": 3}


def independent_world(n, n_layers, seed):
    """H tells nothing, about confidence or about correctness."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.4, 1, n)
    return confidence, rng.random((n, n_layers)), rng.random(n) < confidence


def repeating_world(n, seed):
    """The paper's trap: accuracy is steep in confidence, and H repeats confidence through bends of its own."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.4, 1, n)
    profile = 0.5 + 0.4 * np.tanh(np.outer(confidence - 0.7, [6, 9, -7])) + 0.02 * rng.normal(size=(n, 3))
    return confidence, profile, rng.random(n) < 1 / (1 + np.exp(-18 * (confidence - 0.7)))


def codes(result):
    return [note.code for note in result.notes]


# Planted worlds


def test_a_profile_that_decides_the_error_is_found_by_every_contrast():
    confidence, profile, _ = independent_world(2000, 4, 0)
    result = audit(confidence, profile, profile[:, 1] > 0.3, n_inits=3, n_shuffles=19)
    assert result.mean["full_mlp"] > 0.7
    assert result.capacity_matched.interval[0] > 0.3
    assert result.routing_specific.interval[0] > 0.3
    assert result.reference.p_value == pytest.approx(1 / 20)
    assert result.reference.r2.max() < result.reference.observed - 0.3


def test_an_independent_profile_adds_nothing():
    result = audit(*independent_world(2000, 4, 1), n_inits=3, n_shuffles=19)
    assert abs(result.routing_specific.estimate) < 0.02
    assert result.capacity_matched.estimate < 0
    assert result.reference.p_value > 0.05


def test_a_profile_that_repeats_confidence_beats_the_linear_probe_but_not_the_network_on_confidence():
    result = audit(*repeating_world(2000, 0), n_inits=3, n_shuffles=19)
    assert result.naive.interval[0] > 0.15
    assert result.capacity_matched.estimate < 0.01
    assert result.capacity_matched.interval[0] < 0
    assert result.reference.p_value > 0.05


# The p-value


def p_values(world, n_worlds, **settings):
    return np.array(
        [audit(*world(seed), n_inits=1, n_shuffles=9, **settings).reference.p_value for seed in range(n_worlds)]
    )


def test_p_is_uniform_when_the_profile_is_independent():
    p = p_values(lambda seed: independent_world(80, 3, seed), 200, hidden=8, epochs=25)
    counts = np.bincount(np.round(p * 10).astype(int), minlength=11)[1:]
    assert counts.sum() == 200
    assert stats.chisquare(counts).pvalue > 0.001, counts


def test_p_raises_no_false_alarm_when_the_profile_only_repeats_confidence(monkeypatch):
    """The smallest p is 0.1. Shuffling over all training rows instead gives it almost always, though H adds nothing."""

    def alarms():
        p = p_values(lambda seed: repeating_world(1000, seed), 50, epochs=50)
        return int((p <= 0.1 + 1e-9).sum())

    assert alarms() <= 12, "5 are expected, and more than 12 by chance once in 1000"
    monkeypatch.setattr("engine.probes.auditing.ROWS_PER_BIN", 1000)
    assert alarms() > 40


def test_a_profile_that_cannot_be_shuffled_gives_p_of_one():
    confidence, _, correct = independent_world(200, 0, 2)
    result = audit(confidence, np.full((200, 3), 0.7), correct, **CHEAP)
    assert result.reference.p_value == 1.0
    np.testing.assert_allclose(result.r2["shuf_full_mlp"], result.r2["full_mlp"], atol=1e-9)


def test_the_reference_starts_from_the_first_initialisation():
    result = audit(*independent_world(120, 2, 3), **CHEAP)
    assert result.reference.observed == result.r2["full_mlp"][0]
    hits = (result.reference.r2 >= result.reference.observed).sum()
    assert result.reference.p_value == pytest.approx((1 + hits) / (1 + 3))


def test_shuffling_within_bins_is_uniform_and_keeps_the_bins():
    bins = np.array([1, 0, 1, 0, 1])
    rng = np.random.default_rng(0)
    draws = np.array([shuffle_within(bins, rng) for _ in range(6000)])
    assert (bins[draws] == bins).all()
    _, counts = np.unique(draws, axis=0, return_counts=True)
    assert counts.size == 6 * 2
    assert stats.chisquare(counts).pvalue > 0.001


# Against peers


def test_linear_probes_and_r_squared_are_scikit_learns():
    confidence, profile, correct = independent_world(300, 5, 4)
    result = audit(confidence, profile, correct, **CHEAP)
    fitted, evaluated = split(300)
    target = np.abs(confidence - correct)
    inputs = np.column_stack([confidence, profile])
    inputs = StandardScaler().fit(inputs[fitted]).transform(inputs)
    line = LinearRegression().fit(inputs[fitted, :1], target[fitted]).predict(inputs[evaluated, :1])
    plane = Ridge(alpha=1.0).fit(inputs[fitted], target[fitted]).predict(inputs[evaluated])
    assert result.r2["conf_lin"] == pytest.approx([r2_score(target[evaluated], line)] * 2)
    assert result.r2["full_lin"] == pytest.approx([r2_score(target[evaluated], plane)] * 2)
    assert result.evaluated.tolist() == evaluated.tolist()
    np.testing.assert_allclose(result.target, target[evaluated])
    for name in PROBES:
        scores = [r2_score(result.target, predictions) for predictions in result.predictions[name]]
        assert result.r2[name] == pytest.approx(scores)
        assert result.mean[name] == pytest.approx(np.mean(scores))
        assert result.std[name] == pytest.approx(np.std(scores))


def test_the_shuffled_probe_permutes_the_profile_in_the_training_half_only():
    confidence, profile, correct = independent_world(200, 3, 5)
    result = audit(confidence, profile, correct, **CHEAP, seed=9)
    fitted, evaluated = split(200)
    inputs = np.column_stack([confidence, profile])
    inputs = (inputs - inputs[fitted].mean(axis=0)) / inputs[fitted].std(axis=0)
    rng = np.random.default_rng([9, 2])
    for initialisation in range(2):
        order = np.argsort(rng.permutation(100))
        batch = Batch(
            private=inputs[fitted, :1].T,
            shared=inputs[fitted][order, 1:],
            targets=np.abs(confidence - correct)[fitted][None],
            starts=[initial_weights(4, 4, np.random.default_rng([9, 1, initialisation]))],
            held_out=inputs[evaluated],
        )
        (alone,) = train([batch], Recipe(hidden=4, epochs=10))
        np.testing.assert_allclose(result.predictions["shuf_full_mlp"][initialisation], alone.predictions[0])


def test_contrasts_are_paired_t_intervals():
    result = audit(*independent_world(200, 3, 6), hidden=4, epochs=10, n_inits=4, n_shuffles=0)
    for name, (probe, against) in CONTRASTS.items():
        contrast = result.contrasts[name]
        expected = stats.ttest_rel(result.r2[probe], result.r2[against]).confidence_interval(0.95)
        assert contrast.interval == pytest.approx((expected.low, expected.high))
        assert contrast.estimate == pytest.approx(result.mean[probe] - result.mean[against])
        assert (contrast.probe, contrast.against) == (probe, against)
    assert result.reference is None


# Shapes and invariances


def test_shapes_curves_and_settings():
    result = audit(*independent_world(101, 3, 7), **CHEAP)
    assert set(result.r2) == set(result.predictions) == set(PROBES)
    assert all(values.shape == (2,) for values in result.r2.values())
    assert all(values.shape == (2, 51) for values in result.predictions.values())
    assert set(result.curves) == {"conf_mlp", "full_mlp", "shuf_full_mlp"}
    assert all(curve.shape == (2, 10) and (np.diff(curve[:, [0, -1]]) < 0).all() for curve in result.curves.values())
    assert result.reference.r2.shape == (3,)
    assert (result.recipe, result.n_inits, result.n_shuffles, result.seed) == (Recipe(4, 10), 2, 3, 42)


def test_the_same_seed_gives_the_same_bytes_and_another_seed_keeps_the_split():
    world = independent_world(120, 2, 8)
    first, again, other = audit(*world, **CHEAP), audit(*world, **CHEAP), audit(*world, **CHEAP, seed=1)
    for name in PROBES:
        assert first.predictions[name].tobytes() == again.predictions[name].tobytes()
    assert first.reference.r2.tobytes() == again.reference.r2.tobytes()
    assert first.r2["conf_lin"].tolist() == other.r2["conf_lin"].tolist()
    assert first.r2["full_mlp"].tolist() != other.r2["full_mlp"].tolist()


def test_units_of_the_descriptor_do_not_matter():
    confidence, profile, correct = independent_world(120, 2, 9)
    plain = audit(confidence, profile, correct, **CHEAP)
    scaled = audit(confidence, profile * [1e3, -5] + 7, correct, **CHEAP)
    assert scaled.r2["full_lin"] == pytest.approx(plain.r2["full_lin"])
    negated = audit(confidence, profile * [1e3, 5] + 7, correct, **CHEAP)
    assert negated.r2["full_mlp"] == pytest.approx(plain.r2["full_mlp"])


def test_without_a_profile_only_the_confidence_probes_are_fitted():
    confidence, _, correct = independent_world(100, 0, 10)
    result = audit(confidence, np.empty((100, 0)), correct, **CHEAP)
    assert set(result.r2) == {"conf_lin", "conf_mlp"}
    assert (result.naive, result.capacity_matched, result.routing_specific, result.reference) == (None,) * 4
    assert result.contrasts == {}
    assert codes(result) == ["no_profile"]


def test_constant_columns_are_named_and_harmless():
    confidence, profile, correct = independent_world(400, 3, 11)
    profile[:, 1] = 1 / 3
    result = audit(confidence, profile, correct, **CHEAP)
    assert codes(result) == ["constant_columns"]
    assert "column 2" in str(result.notes[0])
    assert all(np.isfinite(values).all() for values in result.r2.values())


def test_sixty_samples_work_and_say_that_they_are_few():
    result = audit(*independent_world(60, 16, 12), epochs=30)
    assert codes(result) == ["few_rows"]
    assert all(np.isfinite(values).all() for values in result.r2.values())
    assert 1 / 21 <= result.reference.p_value <= 1


def test_an_all_correct_run_is_scored_against_what_confidence_leaves():
    confidence, profile, _ = independent_world(200, 3, 13)
    result = audit(confidence, profile, np.ones(200), **CHEAP)
    assert result.mean["conf_lin"] == pytest.approx(1)
    assert codes(result) == []


def test_a_constant_target_leaves_r_squared_undefined_and_says_so():
    profile = np.random.default_rng(0).random((40, 2))
    result = audit(np.ones(40), profile, np.ones(40), **CHEAP)
    assert "constant_target" in codes(result)
    assert "constant_columns" in codes(result)
    assert "confidence" in next(note.text for note in result.notes if note.code == "constant_columns")
    assert all(np.isnan(values).all() for values in result.r2.values())
    assert (result.contrasts, result.reference) == ({}, None)


def test_a_nearly_constant_target_is_scored_with_a_warning():
    rng = np.random.default_rng(0)
    result = audit(1 - 1e-5 * rng.random(40), rng.random((40, 1)), np.ones(40), **CHEAP)
    assert "near_constant_target" in codes(result)
    assert all(np.isfinite(values).all() for values in result.r2.values())


def test_one_initialisation_has_estimates_but_no_intervals():
    result = audit(*independent_world(100, 2, 14), hidden=4, epochs=5, n_inits=1, n_shuffles=0)
    assert codes(result) == ["one_initialisation"]
    assert all(contrast.interval is None for contrast in result.contrasts.values())
    assert set(result.contrasts) == set(CONTRASTS)


def test_progress_runs_to_the_end():
    seen = []
    audit(*independent_world(60, 2, 15), **CHEAP, progress=lambda fraction, _text: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"entropies": np.zeros((19, 2))}, "entropies"),
        ({"entropies": np.full((20, 2), np.nan)}, "entropies"),
        ({"entropies": np.zeros(20)}, "entropies"),
        ({"confidence": np.full(20, 1.5)}, "confidence"),
        ({"correct": np.full(20, 0.5)}, "correct"),
        ({"correct": np.ones(19)}, "correct"),
        ({"hidden": 0}, "hidden"),
        ({"epochs": 0}, "epochs"),
        ({"n_inits": 0}, "n_inits"),
        ({"n_shuffles": -1}, "n_shuffles"),
        ({"seed": -1}, "seed"),
        ({"lr": 0.0}, "lr"),
        ({"lr": float("nan")}, "lr"),
        ({"weight_decay": -1.0}, "weight_decay"),
    ],
)
def test_bad_arguments_are_named(change, argument):
    arguments = {"confidence": np.full(20, 0.5), "entropies": np.zeros((20, 2)), "correct": np.ones(20)} | change
    with pytest.raises(InvalidInput) as raised:
        audit(**arguments)
    assert raised.value.argument == argument


def test_too_few_samples_are_refused():
    with pytest.raises(InvalidInput, match="confidence: expected at least 8 samples"):
        audit(np.full(7, 0.5), np.zeros((7, 1)), np.ones(7))


def test_torch_is_imported_only_when_a_network_is_trained():
    code = "import sys, engine.probes; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
