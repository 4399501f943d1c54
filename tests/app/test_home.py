"""The home page over a full, an empty, a missing and a broken cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from engine.store import RunRecord, publish, write_shard

ROOT = Path(__file__).resolve().parents[2]


def publish_runs(folder: Path, n_runs: int) -> Path:
    shards = folder / "shards"
    shards.mkdir(exist_ok=True)
    rng = np.random.default_rng(0)
    for seed in range(n_runs):
        write_shard(
            RunRecord(
                run_id=f"toy-s{seed}", suite="test", backbone="toy", dataset="dice", variant="full_ar", seed=seed,
                confidence=rng.random(50), correct=rng.random(50) < 0.5,
            ),
            shards,
        )  # fmt: skip
    publish(shards, folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture
def app(tmp_path: Path, monkeypatch) -> AppTest:
    monkeypatch.setenv("ROUTECAL_CACHE", str(tmp_path / "cache.duckdb"))
    return AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=30)


def test_runs_are_listed_and_a_new_cache_is_picked_up(app: AppTest, tmp_path: Path):
    publish_runs(tmp_path, 2)
    app.run()
    assert not app.exception
    assert app.dataframe[0].value["run_id"].tolist() == ["toy-s0", "toy-s1"]
    assert "2 runs in 1 cells" in app.markdown[0].value
    publish_runs(tmp_path, 3)
    app.run()
    assert len(app.dataframe[0].value) == 3


def test_an_empty_cache_says_what_to_do(app: AppTest, tmp_path: Path):
    publish_runs(tmp_path, 0)
    app.run()
    assert not app.exception
    assert "cache_builder sweep" in app.info[0].value


def test_a_missing_cache_says_what_to_do(app: AppTest):
    app.run()
    assert not app.exception
    assert "make publish" in app.error[0].value


def test_a_broken_cache_says_so(app: AppTest, tmp_path: Path):
    (tmp_path / "cache.duckdb").write_bytes(b"not a database" * 100)
    app.run()
    assert not app.exception
    assert "cannot be read" in app.error[0].value
