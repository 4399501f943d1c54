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
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path

import duckdb
import pytest

from app.compute.own_data import _state
from engine.core.errors import CacheError
from engine.sandbox.run import ask
from engine.store import open_cache, publish
from engine.store.atomic import HOST, log_of, remove_leftovers
from tests.faults.mounting import in_mounts_of, in_private_mounts
from tests.faults.scene import Audience, Scene, progress
from tests.serving import ROOT, Served, serve
from tests.viewers import Seen, Viewer, run_through

PUBLISH = """
import json, sys
sys.path.insert(0, sys.argv[1])
from engine.core.errors import CacheError
from engine.store import publish
print("ready", flush=True)
try:
    for shards in sys.argv[3:]:
        publish(shards, sys.argv[2])
    print(json.dumps("published"))
except CacheError as error:
    print(json.dumps(str(error)))
"""


PERSIST = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
from engine.core.errors import CacheError
from engine.store import publish
while True:
    try:
        publish(sys.argv[3], sys.argv[2])
        break
    except CacheError as error:
        print(json.dumps(str(error)), flush=True)
        time.sleep(0.1)
print(json.dumps("published"))
"""


def builder(
    target: Path, *shards: Path, before: tuple[str, ...] = (), script: str = PUBLISH, **options: object
) -> subprocess.Popen[bytes]:
    """A process that publishes these folders one after the other, or one of them as soon as it can."""
    command = [*before, sys.executable, "-c", script, str(ROOT), str(target), *map(str, shards)]
    return subprocess.Popen(command, **{"stdout": subprocess.PIPE} | options)  # type: ignore[call-overload,no-any-return]


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
            assert await audience.browse() == {"old"}  # else a cache of an earlier test is the last one that was read
            replacing = asyncio.create_task(asyncio.to_thread(_replace, scene, 40))
            assert await browse_until(replacing.done, audience) <= {"old", "new"}
            await replacing
            assert await audience.browse() == {"new"}

    run_through(watch())


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

    run_through(watch())
    with open_cache(scene.cache) as cache:
        other = "new" if cache.fingerprint == scene.fingerprints["old"] else "old"
    assert publish(scene.folder / other, scene.cache).changed  # whoever publishes next clears up after the dead
    assert [path.name for path in scene.cache.parent.iterdir()] == [scene.cache.name]


def test_ten_viewers_while_the_disk_is_full(scene: Scene, tmp_path: Path):
    """A builder that fails again and again, early or late in its work, changes nothing, and publishes into new room.

    Dashboard and builder share a file system of their own, on which a ballast leaves no room at first. Skipped where
    no file system may be mounted; the next test is not.
    """
    disk, size = tmp_path / "disk", scene.finished("new").stat().st_size
    disk.mkdir()
    around = in_private_mounts(
        f'mount -t tmpfs -o size={6 * size} none "{disk}" && cp "{scene.finished("old")}" "{disk}/cache.duckdb"'
        f' && ! head -c {6 * size} /dev/zero > "{disk}/ballast"'
    )
    with (
        serve(disk / "cache.duckdb", tmp_path / "log", around=around) as served,
        (tmp_path / "told").open("wb") as told,
    ):
        child = builder(
            disk / "cache.duckdb",
            scene.folder / "new",
            before=in_mounts_of(served.process.pid),
            script=PERSIST,
            stdout=told,
        )
        try:
            inside = Path(f"/proc/{served.process.pid}/root{disk}")
            run_through(_make_room(Audience(scene, served), child, inside, Path(told.name), size))
            assert {path.name for path in inside.iterdir()} == {"cache.duckdb", "ballast"}
        finally:
            child.kill()
            child.wait()
    served.assert_no_faults()


async def _make_room(full: Audience, child: subprocess.Popen[bytes], disk: Path, told: Path, size: int) -> None:
    """Let the builder come further and further; viewers browse until it has failed thrice more each time."""
    ballast = disk / "ballast"
    filled = ballast.stat().st_size
    async with full as audience:
        for share in (0.0, 0.3, 0.9):
            os.truncate(ballast, filled - int(share * size))
            enough = failed(told) + 3
            assert await browse_until(lambda enough=enough: failed(told) >= enough, audience) == {"old"}
            assert child.poll() is None
        os.truncate(ballast, 0)
        assert await browse_until(lambda: child.poll() is not None, audience) <= {"old", "new"}
        assert await audience.browse() == {"new"}
    *reasons, last = map(json.loads, told.read_bytes().splitlines())
    assert last == "published"
    assert all("nothing was changed" in reason and "No space left" in reason for reason in reasons), reasons


def failed(told: Path) -> int:
    """How often a persistent builder has failed so far."""
    return len(told.read_bytes().splitlines())


def test_ten_viewers_while_no_file_may_grow(scene: Scene):
    """A builder that runs into a limit on the size of its files, early or late, changes nothing and says so."""
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

    run_through(watch())


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

    run_through(watch())


DAY = 24 * 3600 * 10**9


@pytest.mark.parametrize(
    ("jump", "in_place"),
    [(0, False), (-400 * DAY, False), (0, True), (400 * DAY, True)],
    ids=["within a tick", "back", "within a tick, copied over", "ahead, copied over"],
)
def test_ten_viewers_while_files_are_dated_by_a_clock_that_jumps(jump: int, in_place: bool, scene: Scene):
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

    run_through(watch())


CLOCK = Path(__file__).parent / "clock"
HOUR = 3600


def test_ten_viewers_while_the_clock_of_the_machine_jumps(scene: Scene, tmp_path: Path):
    """An hour ahead, then an hour back, for dashboard and builder alike, while a job is under way.

    The job is neither given up nor kept waiting, and new caches are picked up.
    """
    clock = tmp_path / "clock"
    clock.write_text("+0000")
    environment = {"PYTHONPATH": str(CLOCK), "ROUTECAL_TEST_CLOCK": str(clock)}

    async def watch(served: Served) -> None:
        async with Audience(scene, served) as audience:
            for jump, inits in ((b"+3600", "10"), (b"-3600", "9")):  # another number, and the job is another
                scene.put("old")
                async with Viewer(served) as viewer:
                    seen = await viewer.open("probes", {"epochs": "800", "width": "64", "inits": inits})
                    while progress(seen) < 30:
                        assert seen.looks_again, "nothing is computed in the background"
                        seen = await viewer.look_again(seen)
                    with clock.open("r+b") as file:  # in one step: whoever reads it meanwhile must find a number
                        file.write(jump)
                    _, told = await asyncio.gather(goes_on(viewer, seen), audience.browse())
                assert told == {"old"}
                await asyncio.to_thread(wait_for_clock, served, int(jump))
                child = builder(scene.cache, scene.folder / "new", env=os.environ | environment)
                publishing = asyncio.create_task(asyncio.to_thread(outcome, child))
                assert await browse_until(publishing.done, audience) <= {"old", "new"}
                assert await publishing == "published"
                assert await audience.browse() == {"new"}

    with serve(scene.cache, tmp_path / "log", **environment) as served:
        run_through(watch(served))
    served.assert_no_faults()


async def goes_on(viewer: Viewer, seen: Seen) -> None:
    """The job ends without having begun anew: one that was given up would."""
    before = progress(seen)
    while seen.looks_again:
        seen = await viewer.look_again(seen)
        if seen.looks_again:
            assert progress(seen) >= before
            before = progress(seen)
    seen.assert_sound()
    assert not seen.alerts


def wait_for_clock(served: Served, off_by: int) -> None:
    """Until the dates that the server writes in its answers are off by this much."""
    deadline = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(f"{served.address}/_stcore/health", timeout=60) as answer:
            date = parsedate_to_datetime(answer.headers["date"])
        if abs(date.timestamp() - time.time() - off_by) < HOUR / 2:
            return
        assert time.monotonic() < deadline, f"the server has it {date}"
        time.sleep(0.2)


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

    n_lines = len(scene.served.log_lines())
    with serve(scene.cache, scene.folder / "second.log") as served:
        run_through(watch(Audience(scene, served)))
    scene.served.assert_no_faults(n_lines)
    served.assert_no_faults()


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
