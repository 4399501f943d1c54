"""The named features, the custom builder, and what a run must hold for each."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InvalidInput, MissingData, UnknownName
from engine.core.types import RunData
from engine.features import FEATURES, CustomFeature, available_features, custom, feature

PROFILE = np.array([[1.0, 0.5, 0.0], [0.2, 0.4, 0.9]])
LOGITS = np.log(np.array([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]]))


def run(**changes) -> RunData:
    columns = {
        "run_id": "r",
        "confidence": np.array([0.7, 0.5]),
        "correct": np.array([True, False]),
        "entropies": PROFILE,
        "logits": LOGITS,
    }
    return RunData(**(columns | changes))


def test_named_features_by_hand():
    expected = {
        "r_agg": [0.5, 0.5],
        "r_std": [np.sqrt((0.25 + 0 + 0.25) / 3), np.sqrt((0.09 + 0.01 + 0.16) / 3)],
        "last": [0.0, 0.9],
        "concentration": [0.5, 0.5],
        "r_agg_x_conf": [0.35, 0.25],
        "pred_entropy": [
            -(0.7 * np.log(0.7) + 0.2 * np.log(0.2) + 0.1 * np.log(0.1)) / np.log(3),
            -(0.5 * np.log(0.25) + 0.5 * np.log(0.5)) / np.log(3),
        ],
        "confidence": [0.7, 0.5],
    }
    assert set(expected) == set(FEATURES), "every named feature has its values by hand here"
    for name, values in expected.items():
        assert feature(run(), name) == pytest.approx(values), name


@pytest.mark.parametrize(
    ("summary", "expected"),
    [
        ("mean", [0.5, 0.5]),
        ("max", [1.0, 0.9]),
        ("min", [0.0, 0.2]),
        ("range", [1.0, 0.7]),
        ("first", [1.0, 0.2]),
        ("last", [0.0, 0.9]),
        ("slope", [-1.0, 0.7]),  # depth 0, 1/2, 1: slope = (last - first) for three evenly spaced layers
    ],
)
def test_custom_summaries_by_hand(summary: str, expected: list[float]):
    assert custom(run(), [1, 2, 3], summary) == pytest.approx(expected)
    assert custom(run(), [1, 2, 3], summary, times_confidence=True) == pytest.approx(np.multiply(expected, [0.7, 0.5]))


def test_custom_layers_are_numbered_from_one_and_sorted():
    assert custom(run(), [2], "mean") == pytest.approx([0.5, 0.4])
    assert custom(run(), [3, 1], "first") == pytest.approx([1.0, 0.2])
    assert feature(run(), CustomFeature((1, 3), "range")) == pytest.approx([1.0, 0.7])
    assert CustomFeature((1, 3), "range", True).name == "range(H1,H3)*c"


def test_layer_order_of_summation_matches_a_left_to_right_sum():
    # The SQL path adds layers from left to right; pairwise summation would give other last bits.
    profile = np.random.default_rng(0).random((500, 22)).astype(np.float32).astype(float)
    by_hand = profile[:, 0].copy()
    for layer in range(1, 22):
        by_hand += profile[:, layer]
    wide = run(confidence=np.full(500, 0.5), correct=np.zeros(500, dtype=bool), entropies=profile, logits=None)
    assert (feature(wide, "r_agg") == by_hand / 22).all()


def test_constant_profile_has_zero_spread():
    flat = run(entropies=np.ones((2, 3)))
    assert feature(flat, "r_std").tolist() == [0.0, 0.0]


def test_missing_pieces_are_named():
    bare = run(entropies=np.empty((2, 0)), logits=None, extra={"margin": np.array([1.0, 2.0])})
    assert available_features(bare) == ["confidence", "margin"]
    assert feature(bare, "margin").tolist() == [1.0, 2.0]
    for name in ("r_agg", "r_std", "last", "concentration", "r_agg_x_conf"):
        with pytest.raises(MissingData, match="routing profile"):
            feature(bare, name)
    with pytest.raises(MissingData, match="logits"):
        feature(bare, "pred_entropy")
    with pytest.raises(MissingData, match="routing profile"):
        custom(bare, [1])


def test_unknown_names_list_the_valid_ones():
    with pytest.raises(UnknownName, match="r_agg, r_std, last") as caught:
        feature(run(extra={"margin": np.ones(2)}), "entropy")
    assert caught.value.valid[-1] == "margin"
    with pytest.raises(UnknownName, match="slope"):
        custom(run(), [1], "median")
    with pytest.raises(UnknownName, match="slope"):
        custom(run(), [1], ["mean"])
    with pytest.raises(UnknownName, match="r_agg"):
        feature(run(), ["r_agg"])


@pytest.mark.parametrize("layers", [[], [0], [1.5], [True], None, 3])
def test_bad_layers_are_refused(layers):
    with pytest.raises(InvalidInput, match="layers"):
        custom(run(), layers, "mean")


def test_a_layer_the_run_does_not_have_is_missing_data():
    with pytest.raises(MissingData, match="layer 4"):
        custom(run(), [4], "mean")


def test_slope_of_one_layer_is_refused():
    with pytest.raises(InvalidInput, match="two layers"):
        custom(run(), [1], "slope")


def test_slope_is_over_the_depth_of_the_chosen_layers():
    profile = np.array([[0.1, 0.2, 0.5, 0.9, 0.4, 0.3, 0.7, 0.8, 0.6, 1.0]])
    deep = run(confidence=np.array([0.5]), correct=np.array([True]), entropies=profile, logits=None)
    by_numpy = np.polyfit([0, 1 / 9, 1], profile[0, [0, 1, 9]], 1)[0]
    assert custom(deep, [1, 2, 10], "slope") == pytest.approx([by_numpy])


def test_one_class_has_no_predictive_entropy():
    assert "pred_entropy" not in available_features(run(logits=np.zeros((2, 1))))
    with pytest.raises(MissingData, match="second class"):
        feature(run(logits=np.zeros((2, 1))), "pred_entropy")


def test_run_data_refuses_unequal_columns_and_subsets_all():
    with pytest.raises(InvalidInput, match="correct"):
        run(correct=np.array([True]))
    part = run(extra={"margin": np.array([1.0, 2.0])}).subset(np.array([1]))
    assert part.n_samples == 1
    assert part.extra["margin"].tolist() == [2.0]
    assert part.probs == pytest.approx(np.array([[0.25, 0.5, 0.25]]))
