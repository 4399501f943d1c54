"""Whatever happens to the published file, viewers see the old numbers or the new ones, and never need a restart."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import duckdb
import pytest

from app.shell.wording import typeset
from engine.store import open_cache, publish
from engine.verdict import judge
from tests.faults.conftest import bound_by_permissions
from tests.faults.scene import WAITING, Audience, Scene
from tests.viewers import FEATURE, Viewer, run_through, write_version

Fault = Callable[[Scene], AbstractContextManager[None]]


def at_once(inflict: Callable[[Path], object]) -> Fault:
    """A fault that needs no undoing but a new publish."""

    def fault(scene: Scene) -> AbstractContextManager[None]:
        inflict(scene.cache)
        return nullcontext()

    return fault


def overwrite(path: Path, at: int, n_bytes: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(random.Random(0).randbytes(n_bytes))


def rename_over(path: Path, content: bytes) -> None:
    beside = path.with_name("beside.tmp")
    beside.write_bytes(content)
    os.replace(beside, path)


def of_version(version: str) -> Fault:
    """The new numbers, made by a release with another schema."""

    def inflict(scene: Scene) -> AbstractContextManager[None]:
        beside = scene.folder / "other.duckdb"
        shutil.copyfile(scene.finished("new"), beside)
        with duckdb.connect(str(beside)) as connection:
            connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", [version])
        os.replace(beside, scene.cache)
        return nullcontext()

    return inflict


@contextmanager
def moved_away(scene: Scene) -> Iterator[None]:
    elsewhere = scene.folder / "elsewhere"
    scene.cache.parent.rename(elsewhere)
    try:
        yield
    finally:
        elsewhere.rename(scene.cache.parent)


@contextmanager
def replaced_by_a_folder(scene: Scene) -> Iterator[None]:
    scene.cache.unlink()
    scene.cache.mkdir()
    try:
        yield
    finally:
        scene.cache.rmdir()


WRITER = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


@contextmanager
def locked(scene: Scene) -> Iterator[None]:
    """A new cache appears that another process still has open for writing."""
    beside = scene.folder / "live" / "beside.tmp"
    shutil.copyfile(scene.finished("new"), beside)
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(beside)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert writer.stdout is not None
        writer.stdout.readline()
        os.replace(beside, scene.cache)
        yield
    finally:
        writer.communicate()


def forbidden(what: Callable[[Path], Path]) -> Fault:
    """The mode of the new file, or of its folder, keeps the dashboard out."""

    @contextmanager
    def fault(scene: Scene) -> Iterator[None]:
        if not bound_by_permissions() and os.getuid() == 0:
            pytest.skip("root may read everything here, and setpriv cannot take that away")
        scene.put("new")
        path = what(scene.cache)
        mode = path.stat().st_mode
        path.chmod(0)
        try:
            yield
        finally:
            path.chmod(mode)

    return fault


FAULTS: dict[str, Fault] = {
    "truncated to a half": at_once(lambda path: os.truncate(path, path.stat().st_size // 2)),
    "truncated by a page": at_once(lambda path: os.truncate(path, path.stat().st_size - 4096)),
    "truncated to nothing": at_once(lambda path: os.truncate(path, 0)),
    "overwritten with garbage": at_once(lambda path: overwrite(path, 0, path.stat().st_size)),
    "garbage in the middle": at_once(lambda path: overwrite(path, path.stat().st_size // 3, 300_000)),
    "deleted": at_once(Path.unlink),
    "replaced by garbage": at_once(lambda path: rename_over(path, random.Random(1).randbytes(500_000))),
    "replaced by half a cache": at_once(lambda path: rename_over(path, path.read_bytes()[: path.stat().st_size // 2])),
    "replaced by a folder": replaced_by_a_folder,
    "its folder moved away": moved_away,
    "of an older schema": of_version("0"),
    "of a newer schema": of_version("99"),
    "locked by a writer": locked,
    "file not readable": forbidden(lambda path: path),
    "folder not readable": forbidden(lambda path: path.parent),
}


@pytest.mark.parametrize("name", FAULTS)
def test_ten_viewers_while_the_file_is(name: str, scene: Scene):
    """Old numbers while the fault lasts, new ones after it, by themselves."""
    run_through(_meet(FAULTS[name], scene))


async def _meet(fault: Fault, scene: Scene) -> None:
    scene.put("old")
    n_lines = len(scene.served.log_lines())
    async with Audience(scene) as audience:
        assert await audience.browse() == {"old"}
        with fault(scene):
            assert await audience.browse() == {"old"}
        scene.put("new")
        assert await audience.browse() == {"new"}
    assert scene.served.process.poll() is None
    entries = scene.served.log_lines()[n_lines:]
    warnings = [entry for entry in entries if entry["logger"] == "routecal" and entry["level"] == "warning"]
    assert warnings, "nothing in the log"
    assert all(entry["request"] and entry["session"] for entry in warnings)
    assert any("can be read again" in entry["message"] for entry in entries)
    scene.served.assert_no_faults(n_lines)


def test_a_viewer_who_has_nothing_to_show_waits_and_comes_back(scene: Scene):
    """A cache that was never readable: a calm word, then its numbers without a click."""
    scene.put("old")
    second = scene.cache.with_name("second.duckdb")
    second.write_bytes(b"")

    async def watch() -> None:
        async with Viewer(scene.served) as viewer:
            seen = await viewer.open("gap", {"cache": second.name})
            assert await scene.told(seen, "gap") == WAITING
            assert "second.duckdb" in seen.alerts[0]
            looking = asyncio.create_task(viewer.wait_for(seen))
            await asyncio.sleep(0.5)
            shutil.copyfile(scene.finished("new"), second.with_suffix(".tmp"))
            os.replace(second.with_suffix(".tmp"), second)
            assert await scene.told(await looking, "gap") == "new"

    try:
        run_through(watch())
    finally:
        second.unlink()


@pytest.mark.parametrize("spoilt", [True, False], ids=["spoilt in place", "deleted"])
def test_what_nobody_has_read_yet(spoilt: bool, scene: Scene, tmp_path: Path):
    """Of a deleted file it can still be read; of one spoilt in place it cannot, and the page says so and waits."""
    write_version(tmp_path / "shards", 2 + spoilt, 300, 3)
    publish(tmp_path / "shards", tmp_path / "third.duckdb")
    whole = (tmp_path / "third.duckdb").read_bytes()
    with open_cache(tmp_path / "third.duckdb") as cache:
        run = cache.load("run-s1")
    expected = typeset(judge(run.confidence, run.correct, run.entropies.mean(axis=1), feature=FEATURE).detail)
    rename_over(scene.cache, whole)

    async def watch() -> None:
        async with Viewer(scene.served) as viewer:
            assert not (await viewer.open("yourdata")).alerts  # reads the first run only
        if spoilt:
            os.truncate(scene.cache, len(whole) // 2)
        else:
            scene.cache.unlink()
        async with Viewer(scene.served) as viewer:
            seen = await viewer.open("gap", {"run": "seed 1"})
            seen.assert_sound()
            assert "the last readable version" in " ".join(seen.alerts)
            if spoilt:
                assert "cannot be read at the moment" in " ".join(seen.alerts)
                assert expected not in seen.text
                rename_over(scene.cache, whole)
                seen = await viewer.wait_for(seen)
            assert expected in seen.text

    run_through(watch())
