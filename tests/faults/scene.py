"""Two caches of the same runs with different numbers, a dashboard over one path, and viewers who tell them apart."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import numpy as np

from app.registry import PAGES
from engine.store import RunRecord, publish, write_shard
from tests.serving import Served
from tests.viewers import Seen, Viewer, expected_verdicts, write_version

N_VIEWERS = 10
WAITING = "waiting"
CALM = "cannot be read at the moment"
VERSIONS = ("old", "new")
Query = Mapping[str, str]
LABS: dict[str, Query] = {
    "bandwidth": {}, "features": {"shuffles": "100"}, "calibrators": {}, "probes": {"epochs": "50"},
    "paper": {"all": "true"},
}  # fmt: skip
"""Pages that work for long in the background, with choices: the shortest work of each, and the paper's longest, which
alone reads the cache while it works."""
BROWSED: dict[str, Query] = {page.name: {} for page in PAGES if page.name not in LABS}
PATIENCE = 180.0
"""Seconds for a page's work to be done, with ten viewers at once on a busy machine."""


@dataclass
class Scene:
    """Shards and finished caches `old` and `new`; what every page shows of either, from a dashboard left in peace.

    kind : before the names of the finished caches, where there are several pairs.
    pages : those that viewers walk through, with what they choose there.
    """

    folder: Path
    served: Served
    peace: Served
    kind: str = ""
    pages: Mapping[str, Query] = field(default_factory=lambda: BROWSED)
    fingerprints: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    _contents: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        """The path that the dashboard serves and everybody tampers with."""
        return self.folder / "live" / "cache.duckdb"

    def finished(self, which: str) -> Path:
        return self.folder / "peace" / f"{self.kind}{which}.duckdb"

    def put(self, which: str) -> None:
        """Put a finished cache in place as a publish does: beside it, then renamed over it."""
        self.cache.parent.mkdir(exist_ok=True)
        beside = self.cache.with_name("beside.tmp")
        shutil.copyfile(self.finished(which), beside)
        os.replace(beside, self.cache)

    async def contents(self, which: str, page: str) -> tuple[str, ...]:
        """What a page shows of a cache that nobody disturbs; its verdict is checked against the engine's."""
        key = (which, page)
        if key not in self._contents:
            async with Viewer(self.peace) as viewer:
                choices = {"cache": self.finished(which).name, **self.pages[page]}
                seen = await viewer.wait_for(await viewer.open(page, choices), PATIENCE)
            seen.assert_sound()
            assert not seen.alerts
            assert self.fingerprints[which] in seen.text
            assert self.verdicts[which].get(page, "") in seen.text
            self._contents[key] = seen.contents()
        return self._contents[key]

    async def told(self, seen: Seen, page: str) -> str:
        """`old`, `new` or `waiting`; anything else on the page, or a mixture, fails."""
        seen.assert_sound()
        found = seen.contents()
        for which in VERSIONS:
            expected = await self.contents(which, page)
            if found == expected:
                return which
            calm = [alert for alert in seen.alerts if CALM in alert]
            # What was drawn before it, then the line that says it waits; work that is not done has its own words.
            if calm and (len(set(found) - set(expected)) <= 1 or page in LABS):
                await self.told_so_far(seen, page)
                assert str(self.folder) not in calm[0]
                assert seen.looks_again, "it does not come back by itself"
                return WAITING
        kinds = {which: _differences(found, await self.contents(which, page)) for which in VERSIONS}
        raise AssertionError(f"{page} shows neither cache wholly: {kinds} {seen.alerts} {seen.text[:500]}")

    async def told_so_far(self, seen: Seen, page: str) -> set[str]:
        """The one cache, if any, that a page shows which still works: its name or anything that only it can show."""
        seen.assert_sound()
        contents = {which: set(await self.contents(which, page)) for which in VERSIONS}
        alone = {"old": contents["old"] - contents["new"], "new": contents["new"] - contents["old"]}
        shown = {
            which
            for which in VERSIONS
            if self.fingerprints[which] in seen.text or not alone[which].isdisjoint(seen.contents())
        }
        assert len(shown) <= 1, f"{page} mixes two caches: {seen.text[:500]}"
        return shown


def _differences(found: tuple[str, ...], expected: tuple[str, ...]) -> str:
    lacks = [one for one in expected if one not in found]
    adds = [one for one in found if one not in expected]
    return f"lacks {lacks}, adds {adds}"


async def prepare(scene: Scene) -> Scene:
    """Look at every page of either cache while nothing happens."""
    for which in VERSIONS:
        scene.fingerprints[which], scene.verdicts[which] = expected_verdicts(scene.finished(which))
        for page in scene.pages:
            await scene.contents(which, page)
    for page in scene.pages.keys() & LABS:  # results of one cache under the other's name would look undisturbed
        old, new = [await scene.contents(which, page) for which in VERSIONS]
        assert any(one.startswith("plotly_chart") for one in set(old) - set(new)), f"{page} shows the same of both"
    return scene


def write_caches(folder: Path, n_runs: int) -> None:
    for version, which in enumerate(VERSIONS):
        write_version(folder / which, version, 300, n_runs)
        publish(folder / which, folder / "peace" / f"{which}.duckdb")


def write_caches_with_logits(folder: Path, kind: str, n_runs: int) -> None:
    """What the labs need to have work to do; the runs' names and sizes are the same in both versions."""
    for version, which in enumerate(VERSIONS):
        shards = folder / f"{kind}{which}"
        for seed in range(n_runs):
            rng = np.random.default_rng(1000 + 100 * version + seed)
            logits = 2 * rng.normal(size=(300, 4))
            record = RunRecord(
                run_id=f"run-s{seed}", suite="load", backbone="toy", dataset="dice", variant="full_ar", seed=seed,
                logits=logits, labels=(logits + rng.gumbel(size=logits.shape)).argmax(axis=1),
                entropies=rng.random((300, 8)),
            )  # fmt: skip
            write_shard(record, shards)
        publish(shards, folder / "peace" / f"{kind}{which}.duckdb")


class Audience:
    """Ten viewers who walk through the pages, each beginning at another."""

    def __init__(self, scene: Scene, served: Served | None = None) -> None:
        self._scene, self._served = scene, served or scene.served
        self._viewers: list[Viewer] = []
        self._pages: list[str] = []
        self._seen: list[Seen] = []
        self._stack = AsyncExitStack()
        self._step = 0

    async def __aenter__(self) -> Self:
        self._viewers = [await self._stack.enter_async_context(Viewer(self._served)) for _ in range(N_VIEWERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def browse(self) -> set[str]:
        """Everybody goes on to the next page; what they are told there in the end."""
        await self.go_on()
        return await self.settle()

    async def go_on(self) -> int:
        """Everybody goes on to the next page; how many of them then wait for work in the background."""
        self._step += 1
        pages = list(self._scene.pages)
        self._pages = [pages[(number + self._step) % len(pages)] for number in range(N_VIEWERS)]
        choices = [self._scene.pages[page] for page in self._pages]
        self._seen = list(await asyncio.gather(*map(Viewer.open, self._viewers, self._pages, choices)))
        return sum(bool(seen.looks_again) for seen in self._seen)

    async def settle(self) -> set[str]:
        """What they are told when the work is done."""
        places = zip(self._viewers, self._pages, self._seen, strict=True)
        return set(await asyncio.gather(*(told_in_the_end(self._scene, *place) for place in places)))


async def told_in_the_end(scene: Scene, viewer: Viewer, page: str, seen: Seen) -> str:
    """What a page tells when its work in the background is done, or that it waits; it mixes nothing meanwhile."""
    deadline = time.monotonic() + PATIENCE
    while seen.looks_again and CALM not in " ".join(seen.alerts):
        assert time.monotonic() < deadline, f"{page} is not done: {seen.text[:500]}"
        seen = await viewer.look_again(seen)
        await scene.told_so_far(seen, page)
    return await scene.told(seen, page)


def progress(seen: Seen) -> int:
    """How far the job is that a page waits for, in percent."""
    return max((element.progress.value for element in seen.of("progress")), default=0)


class LeavingViewer(Viewer):
    """A viewer who notices how the server says goodbye."""

    async def goodbye(self) -> int | None:
        """The code with which the connection is closed."""
        await self._socket.wait_closed()
        return self._socket.close_code
