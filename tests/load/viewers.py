"""Twenty viewers click through the pages for two minutes while the cache is published five times.

Not a test: a measurement for `make load`. Viewers speak the dashboard's own protocol over a web socket, so that the
server does all the work that a browser would cause. A page fails if it shows an exception or an error box, or if its
verdict is not, word for word, the one that the engine gives for the cache whose fingerprint the page prints. The memory
of the server is sampled all along.
"""

from __future__ import annotations

import argparse
import asyncio
import html
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import connect

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from app.registry import PAGES  # noqa: E402
from engine.features import FEATURES  # noqa: E402
from engine.mechanism import depth_profile, relate_to_error  # noqa: E402
from engine.reliability import calibration_summary  # noqa: E402
from engine.store import RunRecord, open_cache, publish, write_shard  # noqa: E402
from engine.sweep import diagnose, single_models  # noqa: E402
from engine.verdict import judge  # noqa: E402
from engine.verdict_browse import mechanism_sentence, reliability_sentence  # noqa: E402
from engine.verdict_sweep import judge_cache, judge_stability  # noqa: E402

FEATURE = FEATURES["r_agg"].label
MOST_GROWTH = 0.15  # of the server's memory, between the middle and the end of the run


def write_version(shards: Path, version: int, n_samples: int) -> None:
    """Six runs whose numbers depend on the version, under the same names."""
    for seed in range(6):
        rng = np.random.default_rng(100 * version + seed)
        confidence = rng.beta(4, 1.2, n_samples)
        record = RunRecord(
            run_id=f"run-s{seed}", suite="load", backbone="toy", dataset="dice", variant="full_ar", seed=seed,
            confidence=confidence, correct=rng.random(n_samples) < confidence, entropies=rng.random((n_samples, 8)),
        )  # fmt: skip
        write_shard(record, shards)


def expected_verdicts(cache: Path) -> tuple[str, dict[str, str]]:
    """Fingerprint, and the verdict of every page on the first run (or on the whole cache); all carry its numbers."""
    with open_cache(cache) as opened:
        run = opened.load("run-s0")
        names = opened.layers("run-s0")["name"].tolist()
        counted = single_models(diagnose(opened))
        rho = run.entropies.mean(axis=1)
        test = judge(run.confidence, run.correct, rho, feature=FEATURE).sentence
        sentences = {
            "overview": judge_cache(counted, feature=FEATURE).sentence,
            "reliability": reliability_sentence(calibration_summary(run.confidence, run.correct)),
            "mechanism": mechanism_sentence(
                depth_profile(run.entropies, run.correct, names=names),
                relate_to_error(run.confidence, run.correct, rho),
                FEATURE,
            ),
            "sweep": judge_stability(counted, feature=FEATURE).sentence,
        }
        return opened.fingerprint, sentences | dict.fromkeys(("gap", "null", "controls"), test)


@dataclass
class Tally:
    pages: int = 0
    checked: int = 0
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)


async def read_run(socket_: object) -> list[str]:
    """All text of one script run; raises on an exception or an error box."""
    texts: list[str] = []
    while True:
        message = ForwardMsg.FromString(await asyncio.wait_for(socket_.recv(), timeout=90))  # type: ignore[attr-defined]
        kind = message.WhichOneof("type")
        if kind == "script_finished":
            if message.script_finished == ForwardMsg.FINISHED_SUCCESSFULLY:
                return texts
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            element = message.delta.new_element
            shown = element.WhichOneof("type")
            if shown == "exception":
                raise AssertionError(f"exception: {element.exception.message[:200]}")
            if shown == "alert":
                raise AssertionError(f"error box: {element.alert.body[:200]}")
            if shown in ("markdown", "html"):
                texts.append(html.unescape(getattr(element, shown).body))


async def viewer(number: int, address: str, until: float, known: dict[str, dict[str, str]], tally: Tally) -> None:
    rng = random.Random(number)
    async with connect(f"{address}/_stcore/stream", subprotocols=["streamlit"], max_size=None) as socket_:
        while time.monotonic() < until:
            page = rng.choice(PAGES)
            request = BackMsg()
            request.rerun_script.page_name = page.name
            request.rerun_script.query_string = ""
            start = time.monotonic()
            await socket_.send(request.SerializeToString())
            try:
                text = " ".join(await read_run(socket_))
                shown = [fingerprint for fingerprint in known if fingerprint in text]
                if not shown:
                    raise AssertionError("prints no known fingerprint")
                expected = known[shown[0]].get(page.name)
                if expected is not None and expected not in text:
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-m", "streamlit", "run", "app/main.py", "--server.port", str(port)],
        cwd=ROOT,
        env=os.environ | {"ROUTECAL_CACHE": str(folder / "cache.duckdb")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1)
                break
            except OSError:
                await asyncio.sleep(0.2)
        process, tally = psutil.Process(server.pid), Tally()
        until = time.monotonic() + seconds
        jobs = [viewer(i, f"ws://127.0.0.1:{port}", until, known, tally) for i in range(n_viewers)]
        memory, *_ = await asyncio.gather(watch_memory(process, until), publisher(folder, until, n_publishes), *jobs)
    finally:
        server.terminate()
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
