"""Caches of strangers beside the good one: whoever looks at the good one notices nothing."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.compute import cache as opening
from app.compute.cache import Holder, available_caches, runs
from app.compute.keep import forget
from engine.core.errors import CacheError, NotACache
from engine.store import publish, write_shard
from tests.engine.sandbox.test_unfamiliar import change


@pytest.fixture
def good(tmp_path: Path, make_run, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_shard(make_run("one", n=300), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "good.duckdb")
    monkeypatch.setenv("ROUTECAL_CACHE", str(tmp_path / "good.duckdb"))
    return tmp_path / "good.duckdb"


def test_who_waits_for_one_file_does_not_keep_others(good: Path, monkeypatch: pytest.MonkeyPatch):
    slow, started, finish = good.with_name("slow.duckdb"), threading.Event(), threading.Event()
    slow.write_bytes(good.read_bytes())
    really = opening.try_out

    def try_out(path, identity):
        if path == slow:
            started.set()
            assert finish.wait(60)
            return "slow"
        return really(path, identity)

    monkeypatch.setattr(opening, "try_out", try_out)
    holder, ends = Holder(), []

    def ask() -> None:
        try:
            holder.current(slow)
        except NotACache as error:
            ends.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        assert started.wait(60)
        assert holder.current(good).cache.runs()["run_id"].tolist() == ["one"]
    finally:
        finish.set()
        asking.join()
    assert ends == ["slow"]


def test_a_bad_file_is_tried_out_once(good: Path, monkeypatch: pytest.MonkeyPatch):
    tries = []
    monkeypatch.setattr(opening, "try_out", lambda path, _: tries.append(path) or "bad")
    holder = Holder()
    for _ in range(3):
        with pytest.raises(NotACache, match="bad"):
            holder.current(good)
    assert tries == [good]


def test_no_room_is_not_the_files_fault(good: Path, monkeypatch: pytest.MonkeyPatch):
    ends = [CacheError("no room"), ""]

    def try_out(*_):
        end = ends.pop(0)
        if isinstance(end, CacheError):
            raise end
        return end

    monkeypatch.setattr(opening, "try_out", try_out)
    holder = Holder()
    with pytest.raises(NotACache, match="no room"):
        holder.current(good)
    assert not holder.current(good).trouble


def test_an_edited_copy_does_not_show_its_numbers_as_anothers(good: Path):
    """The file says itself which contents it has; an edited one says what the genuine one says."""
    copy, holder = good.with_name("copy.duckdb"), Holder()
    copy.write_bytes(good.read_bytes())
    change(copy, "UPDATE runs SET dataset = 'edited'")
    edited = holder.current(copy).cache
    genuine = holder.current(good).cache
    assert edited.fingerprint == genuine.fingerprint
    try:
        assert runs(edited)["dataset"].tolist() == ["edited"]
        assert runs(genuine)["dataset"].tolist() != ["edited"]
    finally:
        forget(edited.kept_by)
        forget(genuine.kept_by)


def test_only_files_with_names_of_text_are_offered(good: Path):
    os.mkfifo(good.with_name("fifo.duckdb"))
    good.with_name("folder.duckdb").mkdir()
    Path(os.fsdecode(os.fsencode(good.parent) + b"/\xff\xfe.duckdb")).write_bytes(good.read_bytes())
    good.with_name("other.duckdb").write_bytes(good.read_bytes())
    assert [path.name for path in available_caches()] == ["good.duckdb", "other.duckdb"]


def unreadable() -> None:
    from pathlib import Path

    from app.shell.errors import show_unreadable
    from engine.core.errors import CacheError

    show_unreadable(CacheError("run '![beacon](http://example.org/x.png) **bold** $x$'"), Path("x.duckdb"), None)


def test_the_words_of_a_cache_are_text_in_an_alert():
    [told] = AppTest.from_function(unreadable).run(timeout=30).warning
    assert r"!\[beacon\](http" in told.value
    assert r"\*\*bold\*\* \$x\$" in told.value
