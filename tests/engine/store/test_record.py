"""A record refuses what a cache must never hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import pytest

from engine.core.errors import InvalidInput
from engine.store import Layer

BAD = {
    "run_id with a path": ({"run_id": "../evil"}, "run_id"),
    "run_id with a space": ({"run_id": "a b"}, "run_id"),
    "empty run_id": ({"run_id": ""}, "run_id"),
    "hidden run_id": ({"run_id": ".hidden"}, "run_id"),
    "run_id with a newline": ({"run_id": "a\n"}, "run_id"),
    "too long run_id": ({"run_id": "a" * 121}, "run_id"),
    "markup": ({"backbone": "<script>alert(1)</script>"}, "backbone"),
    "formula": ({"dataset": "=HYPERLINK(1)"}, "dataset"),
    "control character": ({"suite": "a\x07"}, "suite"),
    "empty name": ({"variant": ""}, "variant"),
    "negative seed": ({"seed": -1}, "seed"),
    "seed beyond a BIGINT": ({"seed": 2**63}, "seed"),
    "block size beyond an INTEGER": ({"block_size": 2**31}, "block_size"),
    "epoch beyond an INTEGER": ({"epoch": 2**31}, "epoch"),
    "fractional block size": ({"block_size": 1.5}, "block_size"),
    "NaN logits": ({"logits": np.full((60, 4), np.nan)}, "logits"),
    "logits beyond float32": ({"logits": np.full((60, 4), 1e39)}, "logits"),
    "too many classes": ({"logits": np.zeros((1, 32_769)), "labels": np.zeros(1)}, "classes"),
    "too many layers": ({"entropies": np.zeros((60, 1025)), "layers": ()}, "layers"),
    "too many extra columns": ({"extra": {f"u{k}": np.zeros(60) for k in range(257)}}, "extra"),
    "a configuration of 5 MB": ({"config": {"x": "x" * 5_000_000}}, "config"),
    "one class": ({"logits": np.zeros((60, 1)), "labels": np.zeros(60)}, "logits"),
    "text logits": ({"logits": np.full((60, 4), "x")}, "logits"),
    "flat logits": ({"logits": np.zeros(60)}, "logits"),
    "no labels": ({"labels": None}, "labels"),
    "label too large": ({"labels": np.full(60, 4)}, "labels"),
    "fractional label": ({"labels": np.full(60, 0.5)}, "labels"),
    "too few labels": ({"labels": np.zeros(59)}, "labels"),
    "contradicting classes": ({"n_classes": 5}, "n_classes"),
    "confidence beside logits": ({"confidence": np.full(60, 0.5)}, "confidence"),
    "empty": ({"logits": np.zeros((0, 4)), "labels": np.zeros(0)}, "logits"),
    "profile above 1": ({"entropies": np.full((60, 3), 1.01)}, "entropies"),
    "profile with NaN": ({"entropies": np.full((60, 3), np.nan)}, "entropies"),
    "short profile": ({"entropies": np.zeros((59, 3))}, "entropies"),
    "too few layers": ({"layers": [Layer("a", 2)]}, "layers"),
    "layer with one source": ({"layers": [Layer("a", 1)] * 3}, "layers.n_sources"),
    "layer with too many sources": ({"layers": [Layer("a", 2**31)] * 3}, "layers.n_sources"),
    "extra with NaN": ({"extra": {"u": np.full(60, np.nan)}}, "extra"),
    "extra of wrong length": ({"extra": {"u": np.zeros(3)}}, "extra"),
    "extra named like a feature": ({"extra": {"r_std": np.zeros(60)}}, "extra"),
    "extra with markup": ({"extra": {"<b>": np.zeros(60)}}, "extra"),
    "unknown layer in epochs": (
        {"epochs": pd.DataFrame({"epoch": [0], "layer": [4], "mean_entropy": [1.0], "std_entropy": [0.0]})},
        "epochs.layer",
    ),
    "layer beyond all numbers in epochs": (
        {"epochs": pd.DataFrame({"epoch": [0], "layer": [1e30], "mean_entropy": [1.0], "std_entropy": [0.0]})},
        "epochs.layer: expected whole numbers up to 2,147,483,647",
    ),
    "epoch beyond an INTEGER in epochs": (
        {"epochs": pd.DataFrame({"epoch": [2**31], "layer": [1], "mean_entropy": [1.0], "std_entropy": [0.0]})},
        "epochs.epoch",
    ),
    "epoch of a metric beyond an INTEGER": (
        {"epoch_metrics": pd.DataFrame({"epoch": [-(2**40)], "name": ["l"], "value": [1]})},
        "epoch_metrics.epoch",
    ),
    "epochs without a column": ({"epochs": pd.DataFrame({"epoch": [0]})}, "epochs"),
    "NaN metric": ({"epoch_metrics": pd.DataFrame({"epoch": [0], "name": ["l"], "value": [np.nan]})}, "epoch_metrics"),
    "fractional epoch": ({"epoch_metrics": pd.DataFrame({"epoch": [0.5], "name": ["l"], "value": [1]})}, "whole"),
    "NaN in the config": ({"config": {"lr": float("nan")}}, "config"),
    "half a character in the config": ({"config": {"name": "\ud800"}}, "config"),
    "object in the provenance": ({"provenance": {"x": object()}}, "provenance"),
}


@pytest.mark.parametrize("case", BAD)
def test_refused(case, make_record):
    changes, argument = BAD[case]
    with pytest.raises(InvalidInput, match=argument):
        make_record(**changes)


BAD_PLAIN = {
    "no confidence": ({"confidence": None}, "confidence"),
    "no correctness": ({"correct": None}, "correct"),
    "confidence above 1": ({"confidence": np.full(60, 1.5)}, "confidence"),
    "NaN confidence": ({"confidence": np.full(60, np.nan)}, "confidence"),
    "correctness of 2": ({"correct": np.full(60, 2)}, "correct"),
    "contradiction": (
        {"correct": np.ones(60), "labels": np.zeros(60), "predictions": np.arange(60) % 2},
        "contradiction in row 1",
    ),
    "twenty million classes": ({"n_classes": 20_000_000}, "n_classes: .*32,768"),
    "too many samples": (
        {"confidence": np.full(10**7 + 1, 0.5), "correct": np.ones(10**7 + 1), "extra": {}},
        "10,000,000",
    ),
    "prediction out of range": ({"predictions": np.full(60, 9), "n_classes": 3}, "predictions"),
}


@pytest.mark.parametrize("case", BAD_PLAIN)
def test_refused_without_logits(case, make_plain_record):
    changes, argument = BAD_PLAIN[case]
    with pytest.raises(InvalidInput, match=argument):
        make_plain_record(**changes)


def test_derived_from_logits(make_record):
    record = make_record(n=2, logits=np.log([[0.7, 0.1, 0.1, 0.1], [0.25, 0.5, 0.125, 0.125]]), labels=[0, 2], extra={})
    np.testing.assert_allclose(record.confidence, [0.7, 0.5], rtol=1e-7)
    assert record.predictions.tolist() == [0, 1]
    assert record.correct.tolist() == [True, False]
    assert record.accuracy == 1 / 2
    assert (record.n_samples, record.n_classes, record.n_layers, record.has_logits) == (2, 4, 3, True)


def test_float32_overshoot_of_an_entropy_is_clipped(make_record):
    profile = np.full((60, 3), 0.5, dtype=np.float32)
    profile[0] = np.nextafter(np.float32(1), np.float32(2))
    assert make_record(entropies=profile).entropies.max() == 1


def test_a_record_does_not_share_memory_with_what_it_was_given(make_plain_record):
    confidence, correct = np.full(60, 0.5), np.ones(60, dtype=bool)
    margin = np.zeros(60, dtype=np.float32)
    profile = np.full((60, 2), 0.5, dtype=np.float32)
    record = make_plain_record(confidence=confidence, correct=correct, extra={"m": margin}, entropies=profile)
    confidence[0], correct[0], margin[0], profile[0, 0] = 0, False, 9, 0
    assert (record.confidence[0], record.correct[0], record.extra["m"][0], record.entropies[0, 0]) == (
        0.5,
        True,
        0,
        0.5,
    )


def test_times_are_kept_in_utc(make_record):
    noon_in_berlin = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=1)))
    assert make_record(created_at=noon_in_berlin).created_at == datetime(2026, 1, 1, 11)
    now = datetime.now(UTC).replace(tzinfo=None)
    assert timedelta() <= make_record().created_at - now < timedelta(minutes=1)


def test_layers_have_names_even_if_nobody_gave_any(make_record):
    assert [layer.name for layer in make_record(layers=()).layers] == ["H_1", "H_2", "H_3"]
