"""Builders that fail, are killed, race or meet a clock that jumps, while viewers browse what they publish."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from app.loaders.own import _state
from engine.errors import CacheError
from engine.store import open_cache, publish
from engine.store.atomic import HOST, log_of, remove_leftovers
from engine.store.sql import ask
from tests.faults.mounting import in_private_mounts
from tests.faults.scene import Audience, Scene
from tests.viewers import ROOT, serve

pytestmark = pytest.mark.xdist_group("faults")

PUBLISH = """
import json, sys
sys.path.insert(0, sys.argv[1])
from app.loaders.own import _state
from engine.errors import CacheError
from engine.store import publish
print("ready", flush=True)
try:
    for shards in sys.argv[3:]:
        publish(shards, sys.argv[2])
    print(json.dumps("published"))
except CacheError as error:
    print(json.dumps(str(error)))
"""


def builder(target: Path, *shards: Path, before: tuple[str, ...] = (), **options: object) -> subprocess.Popen[bytes]:
    """A process that publishes these folders one after the other."""
    command = [*before, sys.executable, "-c", PUBLISH, str(ROOT), str(target), *map(str, shards)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, **options)  # type: ignore[call-overload,no-any-return]


def outcome(process: subprocess.Popen[bytes]) -> str:
    """`published`, or why not."""
    told, _ = process.communicate(timeout=60)
    return str(json.loads(told.splitlines()[-1]))


async def browse_until(done: Callable[[], bool], audience: Audience) -> set[str]:
    """Everything that viewers are told until then."""
    told: set[str] = set()
    while not done():
        told |= await audience.browse()
    return told


def test_ten_viewers_while_it_is_replaced_again_and_again(scene: Scene):
    """Forty caches in a few seconds: every page is wholly of one of them."""
    scene.put("old")

    async def watch() -> None:
        async with Audience(scene) as audience:
            replacing = asyncio.create_task(asyncio.to_thread(_replace, scene, 40))
            assert await browse_until(replacing.done, audience) <= {"old", "new"}
            await replacing
            assert await audience.browse() == {"new"}

    asyncio.run(watch())


def _replace(scene: Scene, times: int) -> None:
    for number in range(times):
        scene.put(("old", "new")[number % 2])
        time.sleep(0.02)


KILL = """
import os, random, signal, sys, time
sys.path.insert(0, sys.argv[1])
from engine.store import publish
moments = random.Random(7)
for _ in range(12):
    child = os.fork()
    if child == 0:
        while True:
            for shards in sys.argv[3:]:
                publish(shards, sys.argv[2])
    time.sleep(moments.uniform(0.0, 0.3))
    os.kill(child, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    with open(sys.argv[2], "rb") as file:
        assert file.read(12)[8:] == b"DUCK"
print("killed twelve")
"""


def test_ten_viewers_while_builders_are_killed(scene: Scene):
    """Twelve builders killed with -9 at random moments of their work: the cache is always one of the two, and whole."""
    scene.put("old")
    command = [sys.executable, "-c", KILL, ROOT, scene.cache, scene.folder / "new", scene.folder / "old"]

    async def watch() -> None:
        async with Audience(scene) as audience:
            killing = asyncio.create_task(asyncio.to_thread(subprocess.run, command, stdout=subprocess.PIPE))
            assert await browse_until(killing.done, audience) <= {"old", "new"}
            assert (await killing).stdout == b"killed twelve\n"
            assert await audience.browse() <= {"old", "new"}

    asyncio.run(watch())
    with open_cache(scene.cache) as cache:
        other = "new" if cache.fingerprint == scene.fingerprints["old"] else "old"
    assert publish(scene.folder / other, scene.cache).changed  # whoever publishes next clears up after the dead
    assert [path.name for path in scene.cache.parent.iterdir()] == [scene.cache.name]


def test_ten_viewers_while_the_disk_is_full(scene: Scene):
    """A builder that runs out of room, early or late, changes nothing and says so."""
    scene.put("old")
    size = scene.finished("new").stat().st_size
    before = set(scene.cache.parent.iterdir())

    async def watch() -> None:
        async with Audience(scene) as audience:
            for room in (size // 4, size - 4096):
                child = builder(
                    scene.cache,
                    scene.folder / "new",
                    preexec_fn=lambda room=room: resource.setrlimit(resource.RLIMIT_FSIZE, (room, room)),
                )
                told = await asyncio.to_thread(outcome, child)
                assert "cannot be written" in told
                assert "nothing was changed" in told
                assert await audience.browse() == {"old"}
            assert set(scene.cache.parent.iterdir()) == before
            assert outcome(builder(scene.cache, scene.folder / "new")) == "published"
            assert await audience.browse() == {"new"}

    asyncio.run(watch())


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 4.0])
def test_a_disk_of_any_size_holds_the_old_cache_or_the_new_one(share: float, scene: Scene, tmp_path: Path):
    """With room for the old cache and a share of the new: DuckDB itself keeps silent about a full disk at the end."""
    disk, after = tmp_path / "disk", tmp_path / "after.duckdb"
    disk.mkdir()
    size = int((1 + share) * scene.finished("new").stat().st_size)
    before = in_private_mounts(
        f'mount -t tmpfs -o size={size} none "{disk}" && cp "{scene.finished("old")}" "{disk}/cache.duckdb"'
    )
    # The disk is gone with the process that sees it, so that same process looks at what is left.
    look = ("sh", "-c", f'"$@" && ls -A "{disk}" && cp "{disk}/cache.duckdb" "{after}"', "sh")
    told, _ = builder(disk / "cache.duckdb", scene.folder / "new", before=(*before, *look)).communicate(timeout=60)
    _, result, *left = told.decode().splitlines()
    assert left == ["cache.duckdb"]
    which = "new" if json.loads(result) == "published" else "old"
    assert which == "new" or share < 2
    with open_cache(after) as cache:
        assert cache.fingerprint == scene.fingerprints[which]
        assert all(cache.load(run_id).n_samples == 300 for run_id in cache.runs()["run_id"])


def test_a_log_left_by_a_killed_writer_does_not_spoil_the_next_publish(scene: Scene, tmp_path: Path):
    target = tmp_path / "cache.duckdb"
    shutil.copyfile(scene.finished("old"), target)
    code = (
        "import duckdb, os, sys; c = duckdb.connect(sys.argv[1]); c.execute('CREATE TABLE t (x INTEGER)'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(target)], check=False)
    assert log_of(target).exists()
    assert publish(scene.folder / "new", target).changed
    with open_cache(target) as cache:
        assert cache.fingerprint == scene.fingerprints["new"]
    assert not log_of(target).exists()


def test_viewers_keep_writers_out_of_the_file_in_use(scene: Scene):
    """Nobody changes in place what a dashboard reads; looking for a newer file does not give the lock away."""
    scene.put("old")

    async def watch() -> None:
        async with Audience(scene) as audience:
            assert await audience.browse() == {"old"}
            with pytest.raises(duckdb.IOException, match="lock"):
                duckdb.connect(str(scene.cache))
            assert await audience.browse() == {"old"}

    asyncio.run(watch())


DAY = 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("jump", "in_place"),
    [(0, False), (-400 * DAY, False), (0, True), (400 * DAY, True)],
    ids=["within a tick", "back", "within a tick, copied over", "ahead, copied over"],
)
def test_ten_viewers_while_the_clock_jumps(jump: int, in_place: bool, scene: Scene):
    """A new cache of the same size, dated like the old one or earlier, is noticed all the same.

    Even when it is copied over the old file, which keeps its inode: nothing but DuckDB's own headers tells them apart.
    """
    scene.put("old")
    assert scene.finished("old").stat().st_size == scene.finished("new").stat().st_size

    async def watch() -> None:
        async with Audience(scene) as audience:
            assert await audience.browse() == {"old"}
            before = scene.cache.stat()
            if in_place:
                scene.cache.write_bytes(scene.finished("new").read_bytes())
            else:
                scene.put("new")
            os.utime(scene.cache, ns=(before.st_atime_ns, before.st_mtime_ns + jump))
            assert (scene.cache.stat().st_ino == before.st_ino) == in_place
            assert await audience.browse() == {"new"}

    asyncio.run(watch())


def test_a_clock_that_jumps_a_day_does_not_take_a_builders_work_away(tmp_path: Path):
    """Only a dead builder's file, or one of another machine a day old, is cleared up; a live one's never."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        working = tmp_path / f".cache.duckdb.{HOST}-{sleeper.pid}-0123abcd.tmp"
        working.touch()
        os.utime(working, (0, 0))
        remove_leftovers(tmp_path)
        assert working.exists()
    finally:
        sleeper.kill()
        sleeper.wait()
    remove_leftovers(tmp_path)
    assert not working.exists()


def test_a_local_file_written_anew_within_a_tick_is_read_anew(tmp_path: Path):
    path = tmp_path / "mine.csv"
    path.write_text("a,b\n1,2\n")
    before, status = _state(path), path.stat()
    path.write_text("a,b\n3,4\n")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert _state(path) != before


def test_a_question_is_answered_by_the_cache_on_the_page_or_not_at_all(scene: Scene, tmp_path: Path):
    target, question = tmp_path / "cache.duckdb", "SELECT value FROM meta WHERE key = 'fingerprint'"
    shutil.copyfile(scene.finished("old"), target)
    with open_cache(target) as shown:
        assert ask(target, question, of=shown.identity).frame.iloc[0, 0] == shown.fingerprint
        shutil.copyfile(scene.finished("new"), tmp_path / "beside")
        os.replace(tmp_path / "beside", target)
        with pytest.raises(CacheError, match="replaced in the meantime"):
            ask(target, question, of=shown.identity)


def test_two_dashboards_and_one_builder_share_a_folder(scene: Scene):
    """Both follow the builder; neither disturbs it or the other."""
    scene.put("old")

    async def watch(second: Audience) -> None:
        async with Audience(scene) as first, second:
            child = builder(scene.cache, *[scene.folder / "new", scene.folder / "old"] * 6, scene.folder / "new")
            told: set[str] = set()
            while child.poll() is None:
                told = told.union(*await asyncio.gather(first.browse(), second.browse()))
            assert told <= {"old", "new"}
            assert outcome(child) == "published"
            assert await asyncio.gather(first.browse(), second.browse()) == [{"new"}, {"new"}]

    with serve(scene.cache, scene.folder / "second.log") as served:
        asyncio.run(watch(Audience(scene, served)))
    assert '"level": "error"' not in (scene.folder / "second.log").read_text()


def test_a_cache_replaced_while_it_is_opened_is_one_or_the_other(scene: Scene, tmp_path: Path, monkeypatch):
    """The file is exchanged between the look at it and the opening: numbers and fingerprint are of one file."""
    from engine.store import cache as module

    target = tmp_path / "cache.duckdb"
    shutil.copyfile(scene.finished("old"), target)
    really, exchanged = module.open_read_only, []

    def open_late(path: Path) -> duckdb.DuckDBPyConnection:
        if not exchanged:
            exchanged.append(True)
            shutil.copyfile(scene.finished("new"), tmp_path / "beside")
            os.replace(tmp_path / "beside", path)
        return really(path)

    monkeypatch.setattr(module, "open_read_only", open_late)
    with open_cache(target) as cache:
        assert cache.fingerprint == scene.fingerprints["new"]
        assert cache.is_current()
        shutil.copyfile(scene.finished("old"), target)
        with pytest.raises(CacheError, match="written to"):
            cache.runs()
