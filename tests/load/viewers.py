"""Twenty viewers click through the pages for two minutes while the cache is published five times.

Not a test: a measurement for `make load`. Viewers speak the dashboard's own protocol over a web socket, so that the
server does all the work that a browser would cause. A page fails if it shows an exception or an error box, or if its
verdict is not, word for word, the one that the engine gives for the cache whose fingerprint the page prints. The memory
of the server is sampled all along.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from app.registry import PAGES
from engine.store import publish
from tests.serving import Served, serve
from tests.viewers import Viewer, expected_verdicts, write_version

MOST_GROWTH = 0.15  # of the server's memory, between the middle and the end of the run


@dataclass
class Tally:
    pages: int = 0
    checked: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


async def watch(number: int, served: Served, until: float, known: dict[str, dict[str, str]], tally: Tally) -> None:
    rng = random.Random(number)
    async with Viewer(served) as viewer:
        while time.monotonic() < until:
            page = rng.choice(PAGES)
            start = time.monotonic()
            try:
                seen = await viewer.open(page.name)
                if seen.exceptions or seen.alerts:
                    raise AssertionError(f"error on the page: {seen.exceptions} {seen.alerts}")
                shown = [fingerprint for fingerprint in known if fingerprint in seen.text]
                if not shown:
                    raise AssertionError("prints no known fingerprint")
                expected = known[shown[0]].get(page.name)
                if expected is not None and expected not in seen.text:
                    raise AssertionError(f"its verdict is not that of cache {shown[0]}")
                tally.checked += expected is not None
            except (AssertionError, TimeoutError) as failure:
                tally.failures.append(f"{page.name}: {failure}")
            tally.pages += 1
            tally.seconds.append(time.monotonic() - start)
            await asyncio.sleep(rng.uniform(0.5, 2.0))


async def publisher(folder: Path, until: float, times: int) -> None:
    """Publish the prepared versions one after the other over the cache in use."""
    pause = (until - time.monotonic()) / (times + 1)
    for version in range(1, times + 1):
        await asyncio.sleep(pause)
        await asyncio.to_thread(publish, folder / f"shards-{version}", folder / "cache.duckdb")


async def watch_memory(process: psutil.Process, until: float) -> list[float]:
    """Megabytes of the server, twice a second."""
    samples = []
    while time.monotonic() < until:
        samples.append(process.memory_info().rss / 2**20)
        await asyncio.sleep(0.5)
    return samples


async def main(n_viewers: int, seconds: float, n_publishes: int, n_samples: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="routecal-load-"))
    known = {}
    for version in range(n_publishes + 1):
        shards = folder / f"shards-{version}"
        write_version(shards, version, n_samples)
        publish(shards, folder / "version.duckdb")
        fingerprint, sentences = expected_verdicts(folder / "version.duckdb")
        known[fingerprint] = sentences
    publish(folder / "shards-0", folder / "cache.duckdb")
    with serve(folder / "cache.duckdb", folder / "log") as served:
        process, tally = psutil.Process(served.process.pid), Tally()
        until = time.monotonic() + seconds
        viewers = [watch(number, served, until, known, tally) for number in range(n_viewers)]
        memory, *_ = await asyncio.gather(watch_memory(process, until), publisher(folder, until, n_publishes), *viewers)
    shutil.rmtree(folder, ignore_errors=True)
    half = len(memory) // 2
    # The first half fills the memories for results; after it the server should stay as large as it is.
    middle, end = (
        statistics.median(memory[at : at + max(half // 6, 1)]) for at in (half, len(memory) - max(half // 6, 1))
    )
    growth = end / middle - 1
    print(f"{n_viewers} viewers, {tally.pages} pages, {n_publishes} publishes, {len(tally.failures)} failures")
    print(f"verdicts compared with the engine's: {tally.checked}")
    print(f"page: median {statistics.median(tally.seconds):.2f} s, slowest {max(tally.seconds):.2f} s")
    print(f"server memory: {memory[0]:.0f} MB at the start, at most {max(memory):.0f} MB, {middle:.0f} MB half-way,")
    print(f"  {end:.0f} MB at the end ({growth:+.1%} in the second half; at most {MOST_GROWTH:+.0%} is allowed)")
    for failure in tally.failures[:10]:
        print("  ", failure)
    return 1 if tally.failures or growth > MOST_GROWTH else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--publishes", type=int, default=5)
    parser.add_argument("--samples", type=int, default=5000)
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.viewers, chosen.seconds, chosen.publishes, chosen.samples)))
