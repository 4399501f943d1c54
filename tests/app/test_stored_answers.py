"""Every page shows the same numbers whether the cache holds the answers at default settings or not."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from streamlit.testing.v1 import AppTest

from app.compute.keep import forget
from app.registry import PAGES
from cache_builder.diagnose import diagnose_shard
from engine.store import open_cache, publish, read_shard, shard_paths
from engine.store.diagnoses import diagnoses_path, read_diagnoses
from engine.store.shard import read_digest
from engine.verdict.answers import OF_RUNS, diagnoses_of, differing
from tests.app.driver import bodies, figures, open_app

BUNDLED = Path(__file__).resolve().parents[2] / "data" / "shards"
COMPUTED = (
    "gap.judge", "gap.effect_by_decile", "gap.histogram", "controls.simulate_controls", "calibrators.run_benchmark",
    "probes.audit", "sweep.diagnose", "overview.judge_cache",
)  # fmt: skip
"""What a page at its defaults has stored."""


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The bundled runs on digits, with their answers and without."""
    folder = tmp_path_factory.mktemp("digits")
    (folder / "shards").mkdir()
    for path in BUNDLED.glob("digits-*-full_ar-*.parquet"):
        shutil.copy(path, folder / "shards")
    for path in shard_paths(folder / "shards"):
        diagnose_shard(path)
    publish(folder / "shards", folder / "stored" / "cache.duckdb", diagnose=diagnoses_of)
    publish(folder / "shards", folder / "live" / "cache.duckdb")
    return {name: folder / name / "cache.duckdb" for name in ("stored", "live")}


def contents(app: AppTest) -> list[Any]:
    """Everything that carries numbers, in order; keys of elements are not numbers."""
    written = [element.value for kind in ("title", "markdown", "caption", "metric") for element in app.get(kind)]
    tables = [frame.value.to_json(double_precision=15) for frame in app.dataframe]
    return [
        *written,
        *map(re.compile(r'href="[^"]*"').sub, [""] * len(bodies(app)), bodies(app)),
        *tables,
        figures(app),
    ]


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_stored_answers_change_no_number(page: str, caches: dict[str, Path], monkeypatch: pytest.MonkeyPatch):
    seen = {}
    for name, cache in caches.items():
        st.cache_resource.clear()
        with open_cache(cache) as opened:
            forget(opened.kept_by)
        with monkeypatch.context() as patch:
            for place in COMPUTED if name == "stored" else ():
                patch.setattr(f"app.compute.{place}", None)
            seen[name] = contents(open_app(cache, patch, page))
    assert json.dumps(seen["stored"]) == json.dumps(seen["live"])


def test_the_bundles_answers_are_those_of_this_engine():
    """A change of a definition without new answers fails here: `python -m cache_builder diagnose` renews them, after
    `engine.store.schema.ENGINE_VERSION` was raised."""
    for path in shard_paths(BUNDLED):
        kept = read_diagnoses(BUNDLED, path.stem, read_digest(path))
        assert kept.keys() == {question.name for question in OF_RUNS}, f"{diagnoses_path(BUNDLED, path.stem)} is stale"
    sample = next(iter(sorted(BUNDLED.glob("digits-*-full_ar-*.parquet"))))
    record = read_shard(sample)
    kept = read_diagnoses(BUNDLED, sample.stem, read_digest(sample))
    assert differing(record.data(), [layer.name for layer in record.layers], kept) == []
