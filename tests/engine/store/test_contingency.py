"""Counting in SQL equals counting in numpy, count for count and cut for cut."""

from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.core.binning import MATCHINGS, equal_width_edges
from engine.core.contingency import tabulate
from engine.core.errors import CacheError, InvalidInput, MissingData, UnknownName
from engine.features import FEATURES, SUMMARIES, CustomFeature, feature
from engine.store import counting, open_cache, publish, write_shard
from engine.store.counting import Source, count
from engine.store.expressions import SUMMARY_SQL

ALL_FEATURES = [
    *FEATURES,
    "margin",
    "distance",
    *(CustomFeature((1, 2, 5), summary, times) for summary in SUMMARIES for times in (False, True)),
    CustomFeature((4,), "std"),
    CustomFeature((5, 1, 1), "first"),
]


@pytest.fixture(scope="module")
def cache(tmp_path_factory, make_record):
    folder = tmp_path_factory.mktemp("contingency")
    for seed in range(3):
        write_shard(make_record(f"run{seed}", seed=seed, n=3000 + seed, n_layers=5), folder)
    publish(folder, folder / "cache.duckdb")
    with open_cache(folder / "cache.duckdb") as opened:
        yield opened


def assert_equal(found, expected):
    np.testing.assert_array_equal(found.counts, expected.counts, strict=True)
    assert found.cuts == expected.cuts
    assert (found.matching, found.quantiles) == (expected.matching, expected.quantiles)


def test_every_summary_has_its_sql():
    assert set(SUMMARY_SQL) == set(SUMMARIES)


@pytest.mark.parametrize("matching", MATCHINGS)
@pytest.mark.parametrize("name", ALL_FEATURES, ids=lambda f: f if isinstance(f, str) else f.name)
def test_equals_numpy_for_every_feature(cache, name, matching):
    for run_id in ("run0", "run2"):
        run = cache.load(run_id)
        expected = tabulate(run.confidence, run.correct, feature(run, name), matching=matching)
        assert_equal(cache.contingency(run_id, name, matching=matching), expected)


@pytest.mark.parametrize("matching", MATCHINGS)
@pytest.mark.parametrize(
    ("n_bins", "quantiles"), [(1, (0.5, 0.5)), (7, (0.1, 0.2)), (100, (1 / 3, 2 / 3)), (999, (0.001, 0.999))]
)
def test_equals_numpy_for_other_settings(cache, n_bins, quantiles, matching):
    run = cache.load("run1")
    settings_ = {"n_bins": n_bins, "quantiles": quantiles, "matching": matching}
    expected = tabulate(run.confidence, run.correct, feature(run, "r_std"), **settings_)
    assert_equal(cache.contingency("run1", "r_std", **settings_), expected)


def memory_source(connection, confidence, correct, rho):
    frame = {"sample_id": np.arange(len(rho)), "confidence": confidence, "correct": correct, "rho": rho}
    connection.register("given", pd.DataFrame(frame))
    return Source("SELECT * FROM given", {}, len(rho))


values = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0, *equal_width_edges(15), *equal_width_edges(7)]))
rhos = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([0.0, -0.0, 0.5, 1.0, 1e-300, 5e-324]))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(st.tuples(values, st.booleans(), rhos), min_size=1, max_size=80),
    n_bins=st.integers(1, 20),
    matching=st.sampled_from(MATCHINGS),
    quantiles=st.tuples(st.floats(0.01, 0.99), st.floats(0.01, 0.99)).map(lambda pair: tuple(sorted(pair))),
    sample_rows=st.sampled_from([1000, 30, 5, 1]),
)
def test_equals_numpy_on_random_data(rows, n_bins, matching, quantiles, sample_rows):
    """Small `sample_rows` force the brackets, their misses and the sort that stands in for them."""
    confidence, correct, rho = (np.array(column) for column in zip(*rows, strict=True))
    if matching == "equal_mass":
        n_bins = min(n_bins, len(rows))
    with duckdb.connect(":memory:") as connection:
        source = memory_source(connection, confidence, correct, rho)
        found = count(
            connection, source, n_bins=n_bins, matching=matching, quantiles=quantiles, sample_rows=sample_rows
        )
    assert_equal(found, tabulate(confidence, correct, rho, n_bins=n_bins, matching=matching, quantiles=quantiles))


@pytest.mark.parametrize("shape", ["smooth", "tied", "constant", "outliers"])
def test_brackets_from_a_sample_give_the_same_cuts(shape, monkeypatch):
    """200,000 rows bracketed by 8,000 of them, and the sort never needed."""
    rng = np.random.default_rng(3)
    n = 200_000
    rho = {
        "smooth": rng.normal(size=n),
        "tied": rng.integers(0, 4, n).astype(float),
        "constant": np.full(n, 0.25),
        "outliers": np.where(rng.uniform(size=n) < 1e-4, 1e12, rng.normal(size=n) * 1e-9),
    }[shape]
    confidence, correct = rng.uniform(size=n) ** 0.2, rng.uniform(size=n) < 0.8

    def never(*_):
        raise AssertionError("the sample's brackets should have sufficed")

    monkeypatch.setattr(counting, "_sorted_brackets", never)
    with duckdb.connect(":memory:") as connection:
        source = memory_source(connection, confidence, correct, rho)
        quantiles = (1 / 3, 2 / 3)
        brackets = counting._sampled_brackets(connection, source, quantiles, 8000)
        inside = ((rho >= brackets[0][0]) & (rho <= brackets[0][1])).mean()
        assert shape in ("tied", "constant") or inside < 0.08
        found = count(connection, source, n_bins=15, matching="equal_width", quantiles=quantiles, sample_rows=8000)
    assert_equal(found, tabulate(confidence, correct, rho))


@pytest.mark.parametrize("wrong", [((-9.0, -8.0), (-7.0, -6.0)), ((0.9, 0.95), (0.96, 0.97)), ((0.0, 0.3), (0.9, 1.0))])
def test_brackets_that_miss_fall_back_to_a_sort(wrong, monkeypatch):
    rng = np.random.default_rng(5)
    rho = rng.uniform(size=500)
    confidence, correct = rng.uniform(size=500), rng.uniform(size=500) < 0.5
    monkeypatch.setattr(counting, "_sampled_brackets", lambda *_: wrong)
    with duckdb.connect(":memory:") as connection:
        source = memory_source(connection, confidence, correct, rho)
        found = count(connection, source, n_bins=15, matching="equal_width", quantiles=(1 / 3, 2 / 3), sample_rows=10)
    assert_equal(found, tabulate(confidence, correct, rho))


def test_missing_rows_are_noticed():
    with duckdb.connect(":memory:") as connection:
        source = memory_source(connection, np.full(4, 0.5), np.ones(4, bool), np.arange(4.0))
        with pytest.raises(CacheError, match="5 expected, 4 found"):
            count(
                connection,
                Source(source.select, {}, 5),
                n_bins=15,
                matching="equal_width",
                quantiles=(1 / 3, 2 / 3),
            )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"feature": "nonsense"}, UnknownName, "r_std"),
        ({"feature": CustomFeature((6,))}, MissingData, "1 to 5"),
        ({"feature": CustomFeature((1,), "slope")}, InvalidInput, "two layers"),
        ({"n_bins": 0}, InvalidInput, "n_bins"),
        ({"n_bins": 3002, "matching": "equal_mass"}, InvalidInput, "at most 3000"),
        ({"matching": "quantile"}, UnknownName, "equal_mass"),
        ({"quantiles": (0.7, 0.2)}, InvalidInput, "lower fraction first"),
        ({"run_id": "nope"}, UnknownName, "run0, run1, run2"),
    ],
)
def test_bad_arguments(cache, arguments, error, text):
    with pytest.raises(error, match=text):
        cache.contingency(**({"run_id": "run0", "feature": "r_agg"} | arguments))


def test_what_a_partial_run_lacks(tmp_path, make_plain_record):
    record = make_plain_record()
    write_shard(record, tmp_path)
    publish(tmp_path, tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as opened:
        for name, what in (("r_std", "routing profile"), ("pred_entropy", "logits")):
            with pytest.raises(MissingData, match=what):
                opened.contingency("plain", name)
        expected = tabulate(record.confidence, record.correct, record.extra["margin"].astype(np.float64))
        assert_equal(opened.contingency("plain", "margin"), expected)
