"""What a page shows of an audit beyond its scores: predictions come true or not, stand-ins, names in notes."""

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InvalidInput, MissingData, UnknownName
from engine.core.types import RunData
from engine.probes import audit, descriptor, predicted_against_actual


def world(n=400, n_layers=3, seed=0):
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.4, 1, n)
    return confidence, rng.random((n, n_layers)), rng.random(n) < confidence


def run_of(confidence, profile, correct, **extra):
    return RunData("r", confidence, correct, profile, extra=extra)


CHEAP = {"hidden": 4, "epochs": 10, "n_inits": 2, "n_shuffles": 3}


def test_predicted_against_actual_is_pandas_over_quantiles():
    result = audit(*world(), **CHEAP)
    for probe in result.r2:
        predicted = result.predictions[probe][0]
        frame = pd.DataFrame({"predicted": predicted, "actual": result.target})
        expected = frame.groupby(pd.qcut(predicted, 5, labels=False)).agg(["mean", "sem", "size"])
        found = predicted_against_actual(result, probe, n_groups=5)
        assert found["count"].tolist() == expected["actual", "size"].tolist() == [40] * 5
        np.testing.assert_allclose(found["predicted"], expected["predicted", "mean"])
        np.testing.assert_allclose(found["actual"], expected["actual", "mean"])
        np.testing.assert_allclose(found["high"] - found["low"], 2 * 2.0227 * expected["actual", "sem"], rtol=1e-4)


def test_predictions_of_a_line_miss_a_bent_error_by_more_than_those_of_a_network():
    """Where confidence is true, |c - t| averages 2 c (1 - c): a hump, and the best line through it is flat."""
    rng = np.random.default_rng(1)
    confidence = rng.uniform(0, 1, 6000)
    result = audit(confidence, np.empty((6000, 0)), rng.random(6000) < confidence, n_inits=1)

    def miss(probe):
        groups = predicted_against_actual(result, probe, n_groups=10)
        return float((groups["predicted"] - groups["actual"]).abs().mean())

    assert miss("conf_lin") > 2 * miss("conf_mlp")


def test_probe_and_groups_are_checked():
    result = audit(*world(60, 0), **CHEAP)
    with pytest.raises(UnknownName, match="full_mlp"):
        predicted_against_actual(result, "full_mlp")
    with pytest.raises(InvalidInput, match="n_groups"):
        predicted_against_actual(result, "conf_mlp", n_groups=0)


def test_the_descriptor_is_the_profile_then_the_extra_columns_then_nothing():
    confidence, profile, correct = world(20)
    norms = {"block 1": np.arange(20.0), "block 2": np.ones(20)}
    routed = descriptor(run_of(confidence, profile, correct, **norms), ["a", "b", "c"])
    assert (routed.kind, routed.names) == ("routing", ("a", "b", "c"))
    np.testing.assert_array_equal(routed.values, profile)
    assert descriptor(run_of(confidence, profile, correct)).names == ("layer 1", "layer 2", "layer 3")
    plain = descriptor(run_of(confidence, np.empty((20, 0)), correct, **norms))
    assert (plain.kind, plain.names) == ("stand_in", ("block 1", "block 2"))
    np.testing.assert_array_equal(plain.values, np.column_stack([np.arange(20.0), np.ones(20)]))
    nothing = descriptor(run_of(confidence, np.empty((20, 0)), correct))
    assert (nothing.kind, nothing.names, nothing.values.shape) == ("nothing", (), (20, 0))
    with pytest.raises(InvalidInput, match="layer_names"):
        descriptor(run_of(confidence, profile, correct), ["a"])


def test_layers_are_picked_by_number_in_depth_order():
    confidence, profile, correct = world(20)
    whole = descriptor(run_of(confidence, profile, correct), ["a", "b", "c"])
    picked = whole.pick([3, 1])
    assert (picked.names, picked.numbers) == (("a", "c"), (1, 3))
    np.testing.assert_array_equal(picked.values, profile[:, [0, 2]])
    assert whole.pick([]) is whole
    with pytest.raises(MissingData, match="layer 4"):
        whole.pick([4])


def test_notes_call_columns_by_their_names():
    confidence, profile, correct = world(60)
    profile[:, 1] = 0.5
    named = audit(confidence, profile, correct, names=["a", "b", "c"], **CHEAP)
    assert [note.text for note in named.notes if note.code == "constant_columns"] == [
        "constant on the training half, so of no use to a probe: b"
    ]
    unnamed = audit(confidence, profile, correct, **CHEAP)
    assert unnamed.notes[0].text.endswith(": column 2")
    with pytest.raises(InvalidInput, match="names"):
        audit(confidence, profile, correct, names=["a"], **CHEAP)
