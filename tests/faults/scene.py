"""Two caches of the same runs with different numbers, a dashboard over one path, and viewers who tell them apart."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from app.registry import PAGES
from engine.store import publish
from tests.viewers import Seen, Served, Viewer, expected_verdicts, write_version

N_VIEWERS = 10
WAITING = "waiting"
CALM = "cannot be read at the moment"
# Those left out work for long in the background, or show the paper more than the cache.
BROWSED = [page.name for page in PAGES if page.name not in ("bandwidth", "features", "calibrators", "probes", "paper")]


@dataclass
class Scene:
    """Shards and finished caches `old` and `new`; what every page shows of either, from a dashboard left in peace."""

    folder: Path
    served: Served
    peace: Served
    fingerprints: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, dict[str, str]] = field(default_factory=dict)
    _contents: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)

    @property
    def cache(self) -> Path:
        """The path that the dashboard serves and everybody tampers with."""
        return self.folder / "live" / "cache.duckdb"

    def finished(self, which: str) -> Path:
        return self.folder / "peace" / f"{which}.duckdb"

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
                seen = await viewer.wait_for(await viewer.open(page, {"cache": f"{which}.duckdb"}))
            assert not seen.exceptions
            assert not seen.alerts
            assert self.fingerprints[which] in seen.text
            assert self.verdicts[which].get(page, "") in seen.text
            self._contents[key] = seen.contents()
        return self._contents[key]

    async def told(self, seen: Seen, page: str) -> str:
        """`old`, `new` or `waiting`; anything else on the page, or a mixture, fails."""
        assert not seen.exceptions, seen.exceptions
        found = seen.contents()
        for which in ("old", "new"):
            expected = await self.contents(which, page)
            if found == expected:
                return which
            calm = [alert for alert in seen.alerts if CALM in alert]
            if calm and set(found[:-1]) <= set(expected):  # what was drawn before it, then the line that says it waits
                assert str(self.folder) not in calm[0]
                assert seen.looks_again, "it does not come back by itself"
                return WAITING
        raise AssertionError(f"{page} shows neither cache wholly: {seen.alerts} {seen.text[:500]}")


async def make_scene(folder: Path, served: Served, peace: Served) -> Scene:
    scene = Scene(folder, served, peace)
    for which in ("old", "new"):
        scene.fingerprints[which], scene.verdicts[which] = expected_verdicts(scene.finished(which))
        for page in BROWSED:
            await scene.contents(which, page)
    return scene


def write_caches(folder: Path, n_runs: int) -> None:
    for version, which in enumerate(("old", "new")):
        write_version(folder / which, version, 300, n_runs)
        publish(folder / which, folder / "peace" / f"{which}.duckdb")


class Audience:
    """Ten viewers who walk through the pages, each beginning at another."""

    def __init__(self, scene: Scene, served: Served | None = None) -> None:
        self._scene, self._served = scene, served or scene.served
        self._viewers: list[Viewer] = []
        self._stack = AsyncExitStack()
        self._step = 0

    async def __aenter__(self) -> Self:
        self._viewers = [await self._stack.enter_async_context(Viewer(self._served)) for _ in range(N_VIEWERS)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def browse(self) -> set[str]:
        """Everybody goes on to the next page; what they are told there."""
        self._step += 1
        pages = [BROWSED[(number + self._step) % len(BROWSED)] for number in range(N_VIEWERS)]
        found = await asyncio.gather(*map(_settled, self._viewers, pages))
        return {await self._scene.told(seen, page) for seen, page in zip(found, pages, strict=True)}


async def _settled(viewer: Viewer, page: str) -> Seen:
    """A page when its work in the background is done; one that has nothing to show stays as it is."""
    seen = await viewer.open(page)
    return seen if CALM in " ".join(seen.alerts) else await viewer.wait_for(seen)
