"""A dashboard that may write nowhere but in a scratch folder, has no room even there, or is told to stop."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
from websockets.frames import CloseCode

from app.compute.jobs import PATIENCE
from app.registry import PAGES
from engine.store import publish
from tests.faults.mounting import in_private_mounts
from tests.faults.scene import BROWSED, LeavingViewer, Scene
from tests.serving import ROOT, Served, serve
from tests.viewers import Viewer, run_through, write_version

FULL = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
import numpy as np
from engine.core.errors import RouteCalError
from engine.sandbox.run import read_isolated
from engine.store import RunRecord
from engine.store.publish import publish_own, write_own
from engine.sandbox.run import ask
names = dict.fromkeys(("run_id", "suite", "backbone", "dataset", "variant"), "a")
record = RunRecord(**names, confidence=np.random.default_rng(0).random(50_000), correct=np.ones(50_000))
for work in (
    lambda: ask(Path(sys.argv[2]), "SELECT * FROM samples"),
    lambda: read_isolated(b"confidence,correct\\n" + b"0.5,1\\n" * 50_000, "mine.csv"),
    lambda: publish_own(lambda folder: write_own(record, folder)),
):
    try:
        print("done", work())
    except RouteCalError as error:
        print(error)
"""


def test_pages_write_nowhere_and_what_needs_room_says_that_there_is_none(scene: Scene, tmp_path: Path):
    """Project and caches are mounted read-only as in compose.yaml, and the scratch folder is full.

    Every page is drawn all the same; a question, a file and one's own data are refused with a reason.
    """
    scratch, caches = tmp_path / "scratch", tmp_path / "caches"
    for folder in (scratch, caches):
        folder.mkdir()
    shutil.copyfile(scene.finished("old"), caches / "cache.duckdb")
    mounts = [f'mount -t tmpfs -o size=16k none "{scratch}"']
    mounts += [f'mount --bind "{path}" "{path}" && mount -o remount,ro,bind "{path}"' for path in (ROOT, caches)]
    mounts += [f'! touch "{path}/x" 2>/dev/null' for path in (ROOT, caches)]
    around = in_private_mounts(" && ".join(mounts))
    environment = {"TMPDIR": str(scratch), "HOME": str(caches), "PYTHONDONTWRITEBYTECODE": "1"}
    with serve(caches / "cache.duckdb", tmp_path / "log", around=around, **environment) as served:
        run_through(_visit(served, scene))
    assert "Read-only file system" not in (tmp_path / "log").read_text()
    done = subprocess.run(
        [*around, sys.executable, "-c", FULL, str(ROOT), str(caches / "cache.duckdb")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    question, file, own = done.stdout.splitlines()
    assert "more room than the server has left" in question
    assert "no room left" in file
    assert "No space left" in own


async def _visit(served: Served, scene: Scene) -> None:
    """Every page; those that audiences browse show the old cache wholly."""
    async with Viewer(served) as viewer:
        for page in PAGES:
            seen = await viewer.open(page.name)
            seen.assert_sound()
            assert not seen.alerts, (page.name, seen.alerts)
            if page.name in BROWSED:
                assert await scene.told(await viewer.wait_for(seen), page.name) == "old"


def test_it_stops_when_told_to_in_the_middle_of_work(tmp_path: Path):
    """SIGTERM while a viewer watches a long job: an orderly end that does not wait for it, nothing left behind.

    Viewers are told that the service restarts, upon which a browser keeps the page and tries to come back.
    """
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    write_version(tmp_path / "shards", 0, 20_000, 1)
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")

    async def stop(served: Served) -> float:
        async with LeavingViewer(served) as viewer, LeavingViewer(served) as idle:
            await idle.open("gap")
            seen = await viewer.open("probes", {"epochs": "800", "width": "64", "inits": "10"})
            while not any("epoch" in element.progress.text for element in seen.of("progress")):
                assert seen.looks_again, "nothing is computed in the background"
                seen = await viewer.look_again(seen)
            children = psutil.Process(served.process.pid).children(recursive=True)
            start = time.monotonic()
            served.process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(served.process.wait, 60) == 0
            took = time.monotonic() - start
            assert {await viewer.goodbye(), await idle.goodbye()} == {CloseCode.SERVICE_RESTART}
            assert not [child for child in children if child.is_running()]
            return took

    with serve(tmp_path / "cache.duckdb", tmp_path / "log", TMPDIR=str(scratch)) as served:
        assert run_through(stop(served)) < PATIENCE / 2
    assert not list(scratch.iterdir())
    assert "Traceback" not in (tmp_path / "log").read_text()
