"""What is held of runs: the samples of many, the logits of few, and nothing twice."""

from __future__ import annotations

import gc
import shutil
import weakref
from pathlib import Path

import duckdb
import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.compute.cache import feature_of, load_run
from app.compute.keep import forget
from app.state.selection import Protocol, Selection, Slice
from app.state.view import View
from engine.core.errors import InvalidInput, MissingData
from engine.features import feature
from engine.store import Cache, open_cache
from tests.app.driver import ROOT, published


@pytest.fixture(scope="module")
def cache(tmp_path_factory, make_run) -> Cache:
    records = [make_run(f"s{seed}", seed=seed, n=60) for seed in range(5)]
    records.append(make_run("bare", n=60, logits=False, variant="block_ar"))
    return open_cache(published(records, tmp_path_factory.mktemp("loader")))


def test_a_run_with_logits_shares_the_rest_and_keeps_no_probabilities(cache: Cache):
    plain, first, second = load_run(cache, "s0"), *(load_run(cache, "s0", with_logits=True) for _ in range(2))
    assert first.confidence is plain.confidence
    assert first.logits is second.logits
    assert first.probs is not second.probs, "they go with the one who asked for them"
    assert load_run(cache, "bare", with_logits=True).logits is None


def test_few_logits_are_held(cache: Cache):
    held = [weakref.ref(load_run(cache, f"s{seed}", with_logits=True).logits) for seed in range(5)]
    gc.collect()
    assert [logits() is not None for logits in held] == [False, False, True, True, True]
    assert load_run(cache, "s0") is load_run(cache, "s0")


def test_a_feature_of_logits_needs_them_once(cache: Cache, monkeypatch):
    expected = feature(cache.load("s1"), "pred_entropy")
    assert feature_of(cache, "s1", "pred_entropy") == pytest.approx(expected)
    with pytest.raises(MissingData):
        feature_of(cache, "bare", "pred_entropy")
    monkeypatch.setattr("app.compute.cache._logits", None)  # cannot be called
    chosen = Selection(cache.fingerprint, "s1", None, "pred_entropy", Slice(band=(0.5, 1.0)), Protocol())
    view = View(cache, cache.runs().set_index("run_id", drop=False), chosen)
    kept = view.run.confidence.size
    assert 0 < kept < 60
    assert view.rho == pytest.approx(expected[load_run(cache, "s1").confidence >= 0.5])
    assert np.array_equal(view.feature("pred_entropy"), view.rho)


def test_wide_columns_are_read_when_asked_for(cache: Cache, monkeypatch):
    """The profile of a run of millions of samples is not read to say how many there are."""
    forget(cache.kept_by)
    whole, asked, load = cache.load("s0"), [], Cache.load

    def noting(self: Cache, run_id: str, columns):
        asked.append(set(columns))
        return load(self, run_id, columns)

    monkeypatch.setattr(Cache, "load", noting)
    run = load_run(cache, "s0")
    assert run.n_samples == whole.n_samples
    assert asked == [{"labels", "predictions", "confidence", "correct", "clusters"}]
    np.testing.assert_array_equal(run.replace(logits=None).entropies, whole.entropies)
    assert asked[1:] == [{"entropies"}]
    few = run.subset(np.arange(5))
    np.testing.assert_array_equal(few.entropies, whole.entropies[:5])
    assert few.extra.keys() == whole.extra.keys()
    with pytest.raises(InvalidInput, match="logits"):
        _ = run.logits


def test_the_words_of_a_foreign_cache_are_not_markdown(cache_of_kinds: Path, tmp_path: Path, monkeypatch):
    """A picture in them would tell its owner who looks at the file."""
    monkeypatch.setenv("ROUTECAL_CACHE", str(tmp_path / "a.duckdb"))
    shutil.copyfile(cache_of_kinds, tmp_path / "a.duckdb")
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("UPDATE meta SET value = '![x](http://evil.example/)' WHERE key = 'schema_version'")
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=600).run()
    (told,) = [alert.value for alert in app.warning if "evil" in alert.value]
    assert r"!\[x\](http" in told
