"""From columns to runs: what is guessed, what is derived, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.errors import InvalidInput, UnknownName
from engine.importing import ColumnMapping, RunIdentity, build_record, choose_columns, guess_mapping
from engine.importing.checking import find_problems
from engine.importing.mapping import check_consecutive

V = np.zeros(3)
M = np.zeros((3, 2))
ME = RunIdentity("me")

GUESSES = {
    "netcal": ({"probs": M, "labels": V}, ColumnMapping(probabilities=("probs",), label="labels")),
    "calibration-framework": (
        {"ground_truth": V, "predictions": M, "probabilities": M},
        ColumnMapping(probabilities=("probabilities",), label="ground_truth"),
    ),
    "hollance": (
        {"conf": V, "pred": V, "labels": V},
        ColumnMapping(confidence="conf", prediction="pred", label="labels"),
    ),
    "logits win over probabilities": (
        {"probs": M, "Logits": M, "Label": V},
        ColumnMapping(logits=("Logits",), label="Label"),
    ),
    "numbered columns": (
        {"logit_1": V, "logit_0": V, "logit_2": V, "label": V, "H_2": V, "H_1": V},
        ColumnMapping(logits=("logit_0", "logit_1", "logit_2"), label="label", profile=("H_1", "H_2")),
    ),
    "ten classes in order": (
        {**{f"p{k}": V for k in range(11)}, "y": V},
        ColumnMapping(probabilities=tuple(f"p{k}" for k in range(11)), label="y"),
    ),
    "a gap in the numbers is no matrix": (
        {"logit_0": V, "logit_2": V, "label": V, "confidence": V, "correct": V},
        ColumnMapping(confidence="confidence", correct="correct", label="label"),
    ),
    "logits without labels, but correctness": (
        {"logits": M, "confidence": V, "correct": V},
        ColumnMapping(confidence="confidence", correct="correct"),
    ),
    "profile as a matrix": (
        {"conf": V, "correct": V, "entropies": M, "other": V},
        ColumnMapping(confidence="conf", correct="correct", profile=("entropies",)),
    ),
    "labels as a column matrix": (
        {"probs": M, "labels": np.zeros((3, 1))},
        ColumnMapping(probabilities=("probs",), label="labels"),
    ),
    "clusters": (
        {"logits": M, "label": V, "cluster_id": V},
        ColumnMapping(logits=("logits",), label="label", cluster="cluster_id"),
    ),
    "nothing known": ({"a": V}, ColumnMapping()),
}


@pytest.mark.parametrize("case", GUESSES)
def test_guess(case):
    columns, expected = GUESSES[case]
    assert guess_mapping(columns) == expected


def test_choose():
    columns = {"z_10": V, "z_2": V, "b": V, "a": V}
    assert choose_columns(columns, ["z_*"], "--logits") == ("z_2", "z_10")
    assert choose_columns(columns, ["?"], "--extra") == ("b", "a")
    assert choose_columns(columns, ["a", "*"], "--extra") == ("a", "z_10", "z_2", "b")
    assert choose_columns(columns, [], "--extra") == ()
    with pytest.raises(UnknownName, match=r"--logits.*z_10, z_2, b, a"):
        choose_columns(columns, ["q*"], "--logits")


def test_skipped_classes_are_refused():
    check_consecutive(["z_1", "z_2"], "logits")
    check_consecutive(["cat", "dog"], "logits")
    with pytest.raises(InvalidInput, match="consecutive"):
        check_consecutive(["z_0", "z_2"], "logits")


def test_from_logits():
    logits = np.log([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    record = build_record({"z": logits, "y": np.array([1, 2])}, ColumnMapping(logits=("z",), label="y"), ME)
    np.testing.assert_allclose(record.confidence, [0.5, 0.8], rtol=1e-6)
    assert record.correct.tolist() == [False, True]
    assert record.provenance["mapping"]["logits"] == ["z"]
    assert record.provenance["notes"] == []
    assert (record.suite, record.backbone, record.variant) == ("imported", "unknown", "imported")


def test_from_probabilities_kept_as_logarithms():
    probabilities = np.array([[0.7, 0.3, 0.0], [0.2, 0.2, 0.6]])
    columns = {f"p_{k}": probabilities[:, k] for k in range(3)} | {"y": np.array([0, 1])}
    record = build_record(columns, ColumnMapping(probabilities=("p_0", "p_1", "p_2"), label="y"), ME)
    np.testing.assert_allclose(record.confidence, [0.7, 0.6], rtol=1e-6)
    np.testing.assert_allclose(record.data().probs, probabilities, atol=1e-6)
    assert record.logits[0, 2] == np.float32(np.log(1e-37))
    assert any("logarithms" in note for note in record.provenance["notes"])
    assert any("1 probabilities below" in note for note in record.provenance["notes"])


def test_from_confidence():
    columns = {
        "c": np.array([0.5, 1 + 1e-7]),
        "t": np.array([0, 1]),
        "u": np.array([3.0, 4.0]),
        "H": np.full((2, 2), 0.5),
    }
    mapping = ColumnMapping(confidence="c", correct="t", extra=("u",), profile=("H",))
    record = build_record(columns, mapping, ME)
    assert record.confidence.tolist() == [0.5, 1]
    assert record.correct.tolist() == [False, True]
    assert record.extra["u"].tolist() == [3, 4]
    assert record.n_layers == 2
    assert record.provenance["notes"] == ["1 confidences above 1 by rounding were set to 1"]
    assert columns["c"][1] > 1


@pytest.mark.parametrize("outputs", ["confidence", "probabilities"])
def test_rounded_outputs_are_noted(outputs):
    top = np.random.default_rng(0).uniform(0.5, 0.95, 40)
    columns = {"p": np.column_stack([top, 1 - top]), "c": top, "t": np.ones(40)}
    mapping = {
        "confidence": ColumnMapping(confidence="c", correct="t"),
        "probabilities": ColumnMapping(probabilities=("p",), label="t"),
    }[outputs]
    rounded = {name: values.round(2) for name, values in columns.items()}
    assert not any("digits" in note for note in build_record(columns, mapping, ME).provenance["notes"])
    note = build_record(rounded, mapping, ME).provenance["notes"][0]
    assert note.startswith("Confidence is rounded to 2 digits: ")
    assert not note.endswith(".")


def test_from_confidence_prediction_and_label():
    columns = {"c": np.array([0.5, 0.9]), "p": np.array([1, 2]), "y": np.array([[1], [0]])}
    record = build_record(columns, ColumnMapping(confidence="c", prediction="p", label="y"), ME)
    assert record.correct.tolist() == [True, False]


P = np.array([[0.5, 0.5], [0.1, 0.9]])
BAD = {
    "nothing": ({"a": V}, ColumnMapping(), "a confidence column, got columns a"),
    "no label": ({"z": M}, ColumnMapping(logits=("z",)), "label"),
    "no correctness": ({"c": V}, ColumnMapping(confidence="c"), "correct"),
    "unknown column": ({"c": V}, ColumnMapping(confidence="d"), "one of: c"),
    "logits and confidence": ({"z": M, "y": V}, ColumnMapping(logits=("z",), label="y", confidence="y"), "derived"),
    "logits and probabilities": ({"z": M}, ColumnMapping(logits=("z",), probabilities=("z",), label="z"), "both"),
    "matrix as label": ({"z": M, "y": M}, ColumnMapping(logits=("z",), label="y"), "one value per row"),
    "wrong lengths": ({"z": M, "y": np.zeros(4)}, ColumnMapping(logits=("z",), label="y"), "labels"),
    "class columns of unequal length": (
        {"a": V, "b": np.zeros(4), "y": V},
        ColumnMapping(logits=("a", "b"), label="y"),
        "lengths 3, 4",
    ),
    "NaN logits": ({"z": M * np.nan, "y": V}, ColumnMapping(logits=("z",), label="y"), "finite"),
    "NaN confidence": ({"c": V * np.nan, "t": V}, ColumnMapping(confidence="c", correct="t"), "finite"),
    "confidence in percent": ({"c": V + 95, "t": V}, ColumnMapping(confidence="c", correct="t"), r"\[0, 1\]"),
    "logits as probabilities": ({"p": P * 5 - 1, "y": V[:2]}, ColumnMapping(probabilities=("p",), label="y"), "logits"),
    "not adding up": ({"p": P / 2, "y": V[:2]}, ColumnMapping(probabilities=("p",), label="y"), "add up to 1, got 0.5"),
    "one class": ({"z": M[:, :1], "y": V}, ColumnMapping(logits=("z",), label="y"), "two classes"),
    "labels from 1": ({"z": M, "y": np.array([1, 2, 1])}, ColumnMapping(logits=("z",), label="y"), "0 to 1"),
    "label too large": (
        {"c": V, "t": V, "y": V + 1e30},
        ColumnMapping(confidence="c", correct="t", label="y"),
        "label",
    ),
    "profile above 1": (
        {"c": V, "t": V, "H": M + 2},
        ColumnMapping(confidence="c", correct="t", profile=("H",)),
        "0, 1",
    ),
    "extra named like a feature": (
        {"c": V, "t": V, "r_std": V},
        ColumnMapping(confidence="c", correct="t", extra=("r_std",)),
        "built-in features",
    ),
    "extra with markup": (
        {"c": V, "t": V, "<b>": V},
        ColumnMapping(confidence="c", correct="t", extra=("<b>",)),
        "markup",
    ),
    "empty": ({"c": V[:0], "t": V[:0]}, ColumnMapping(confidence="c", correct="t"), "at least one sample"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case):
    columns, mapping, text = BAD[case]
    with pytest.raises(InvalidInput, match=text):
        build_record(columns, mapping, ME)


def test_clusters_are_numbered_and_none_may_be_missing():
    columns = {"conf": np.array([0.5, 0.6, 0.7]), "correct": np.array([1, 0, 1]), "cluster": np.array([7.0, 2.0, 7.0])}
    record = build_record(columns, guess_mapping(columns), ME)
    assert record.clusters.tolist() == record.data().clusters.tolist() == [1, 0, 1]
    assert record.data().subset(np.array([0, 2])).clusters.tolist() == [1, 1]
    columns["cluster"][1] = np.nan
    with pytest.raises(InvalidInput, match="cluster"):
        build_record(columns, guess_mapping(columns), ME)
    assert [problem.column for problem in find_problems(columns, guess_mapping(columns))] == ["cluster"]
