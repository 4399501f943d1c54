"""Somebody's own cache: theirs alone, and gone afterwards."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from engine.store import open_cache
from engine.store.atomic import HOST
from engine.store.publish import publish_own, remove_abandoned_own, remove_own, write_own

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_published_privately_and_removed(make_run, tmp_path: Path):
    path = publish_own(partial(write_own, make_run("mine", n=50)))
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["own.duckdb"]
    with open_cache(path) as cache:
        assert cache.runs()["run_id"].tolist() == ["mine"]
    remove_abandoned_own()
    assert path.exists()
    remove_own(path)
    assert not list(tmp_path.iterdir())


def test_a_failed_publish_leaves_nothing(make_run, tmp_path: Path, monkeypatch):
    def fail(*_: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(sys.modules["engine.store.publish"], "publish", fail)
    with pytest.raises(RuntimeError, match="no room"):
        publish_own(partial(write_own, make_run("mine", n=50)))
    assert not list(tmp_path.iterdir())


def test_what_a_killed_server_left_is_removed(tmp_path: Path):
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    dead = tmp_path / f"routecal-own-{HOST}-{child.pid}-abc123"
    earlier_life = tmp_path / f"routecal-own-{HOST}-{os.getpid()}-abc123"
    alive = tmp_path / f"routecal-own-{HOST}-{os.getppid()}-abc123"
    elsewhere = tmp_path / "routecal-own-00000000-1-abc123"
    other = tmp_path / "routecal-own-notes"
    for folder in (dead, earlier_life, alive, elsewhere, other):
        folder.mkdir()
        (folder / "own.duckdb").touch()
    remove_abandoned_own()
    assert sorted(tmp_path.iterdir()) == sorted([alive, elsewhere, other])


def test_removed_when_the_server_ends(tmp_path: Path):
    code = f"""
import tempfile; tempfile.tempdir = {str(tmp_path)!r}
import numpy as np
from engine.store import RunRecord
from functools import partial
from engine.store.publish import publish_own, write_own
names = dict.fromkeys(("run_id", "suite", "backbone", "dataset", "variant"), "a")
record = RunRecord(**names, confidence=np.ones(3), correct=np.ones(3))
print(publish_own(partial(write_own, record)).exists())
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    assert not list(tmp_path.iterdir())
