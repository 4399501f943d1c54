"""Five viewers browse while a stranger uploads damaged files, and while forty sockets ask for everything at once.

Not a test: a measurement, part of `make load`. Uploads come by the page's own way: a web socket, a file put to its
session, the page drawn with it. It fails if the server ends, if a viewer sees an error or waits longer than `SLOWEST`
for a page, or if the server's memory, a minute after the stranger has left, is not what it was within a tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import random
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from uuid import uuid4

import numpy as np
import pandas as pd
import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import UploadedFileInfo
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.store import publish
from tests.serving import Served, serve
from tests.viewers import Viewer, write_version

SLOWEST, MOST_GROWTH, AFTER = 5.0, 0.10, 60.0
BROWSED = ("overview", "gap", "reliability", "mechanism", "null")
N = 400


def whole_files() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    columns = {"confidence": rng.random(N), "correct": rng.integers(0, 2, N), "score": rng.normal(size=N)}
    parquet, npz = io.BytesIO(), io.BytesIO()
    pd.DataFrame(columns).to_parquet(parquet)
    np.savez_compressed(npz, **columns)
    csv = pd.DataFrame(columns).to_csv(index=False).encode()
    return {"a.csv": csv, "a.parquet": parquet.getvalue(), "a.npz": npz.getvalue()}


def mutated(content: bytes, rng: random.Random) -> bytes:
    """A few bytes changed, most at the ends, or a part cut off."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        place = rng.choice([rng.randrange(len(changed)), rng.randrange(min(64, len(changed)))])
        changed[rng.choice([place, len(changed) - 1 - place])] = rng.randrange(256)
    return bytes(changed[: rng.randrange(1, len(changed))] if rng.random() < 0.1 else changed)


class Stranger(Viewer):
    """A viewer who sends files."""

    session = ""

    async def receive(self) -> bytes:
        message = await super().receive()
        told = ForwardMsg.FromString(message)
        if told.WhichOneof("type") == "new_session":
            self.session = told.new_session.initialize.session_id
        return message

    async def bring(self, name: str, content: bytes) -> str:
        """Upload it and draw the page with it; what the page then says about the file."""
        seen = await self.open("yourdata")
        (uploader,) = (each.file_uploader for each in seen.of("file_uploader"))
        file = str(uuid4())
        await asyncio.to_thread(self._put, file, name, content)
        request = BackMsg()
        request.rerun_script.page_name = "yourdata"
        state = request.rerun_script.widget_states.widgets.add(id=uploader.id)
        state.file_uploader_state_value.uploaded_file_info.append(
            UploadedFileInfo(name=name, size=len(content), file_id=file)
        )
        await self._socket.send(request.SerializeToString())
        seen = await self._read(type(seen)(self._served))
        assert not seen.exceptions, seen.exceptions
        return " ".join([*seen.alerts, seen.text])

    def _put(self, file: str, name: str, content: bytes) -> None:
        address = self._served.address
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=30) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
        edge = b"x" * 30
        head = f'Content-Disposition: form-data; name="{file}"; filename="{name}"\r\n\r\n'.encode()
        body = b"--" + edge + b"\r\n" + head + content + b"\r\n--" + edge + b"--\r\n"
        headers = {"Cookie": cookie, "X-Xsrftoken": cookie.partition("=")[2]}
        headers["Content-Type"] = f"multipart/form-data; boundary={edge.decode()}"
        target = f"{address}/_stcore/upload_file/{self.session}/{file}"
        urllib.request.urlopen(urllib.request.Request(target, body, headers, method="PUT"), timeout=60).close()


async def browse(number: int, served: Served, done: asyncio.Event, seconds: list[float], faults: list[str]) -> None:
    rng = random.Random(number)
    async with Viewer(served) as viewer:
        while not done.is_set():
            page, start = rng.choice(BROWSED), time.monotonic()
            seen = await viewer.open(page)
            seconds.append(time.monotonic() - start)
            faults.extend(f"{page}: {each}" for each in (*seen.exceptions, *seen.alerts))
            await asyncio.sleep(rng.uniform(0.5, 2.0))


async def upload(number: int, served: Served, n_files: int, told: list[str]) -> None:
    rng, whole = random.Random(number), whole_files()
    async with Stranger(served) as stranger:
        for _ in range(n_files):
            name = rng.choice(sorted(whole))
            told.append(await stranger.bring(name, mutated(whole[name], rng)))


async def crowd(served: Served, n_sockets: int) -> None:
    """Everybody asks for other settings at once, and leaves when told to."""

    async def ask(number: int) -> None:
        async with Viewer(served, {"X-Forwarded-For": f"198.51.100.{number % 2}"}) as viewer:
            await viewer.open("overview", {"bins": str(2 + number), "support": str(1 + number)})

    await asyncio.gather(*(ask(number) for number in range(n_sockets)), return_exceptions=True)


async def main(n_uploads: int, n_sockets: int, n_samples: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="routecal-strangers-"))
    write_version(folder / "shards", 0, n_samples)
    publish(folder / "shards", folder / "cache.duckdb")
    with serve(folder / "cache.duckdb", folder / "log") as served:
        process, done, faults = psutil.Process(served.process.pid), asyncio.Event(), []
        quiet: list[float] = []
        async with Viewer(served) as viewer:
            for page in BROWSED * 2:
                start = time.monotonic()
                await viewer.open(page)
                quiet.append(time.monotonic() - start)
        meanwhile: dict[str, list[float]] = {}
        before = process.memory_info().rss / 2**20
        for what, work in (
            (f"{n_uploads} damaged uploads", upload(0, served, n_uploads, told := [])),
            (f"{n_sockets} sockets with other settings", crowd(served, n_sockets)),
        ):
            done.clear()
            seconds = meanwhile.setdefault(what, [])
            viewers = [asyncio.create_task(browse(number, served, done, seconds, faults)) for number in range(5)]
            start = time.monotonic()
            await work
            done.set()
            await asyncio.gather(*viewers)
            slow = sum(each > SLOWEST for each in seconds)
            print(
                f"{what}: {time.monotonic() - start:.0f} s; pages of five viewers: {len(seconds)}, "
                f"median {statistics.median(seconds):.2f} s, slowest {max(seconds):.2f} s, {slow} above {SLOWEST:g} s",
                flush=True,
            )
        refused = sum("cannot be used" in each for each in told)
        await asyncio.sleep(AFTER)
        after = process.memory_info().rss / 2**20
        ended = served.process.poll()
    print(f"alone: median {statistics.median(quiet):.2f} s, slowest {max(quiet):.2f} s; {refused} uploads refused")
    print(f"server: {before:.0f} MB before, {after:.0f} MB {AFTER:g} s after ({after / before - 1:+.1%})")
    for fault in faults[:10]:
        print("  ", fault)
    too_slow = max(max(seconds) for seconds in meanwhile.values()) > SLOWEST
    return int(ended is not None or bool(faults) or too_slow or after > before * (1 + MOST_GROWTH))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uploads", type=int, default=1000)
    parser.add_argument("--sockets", type=int, default=40)
    parser.add_argument("--samples", type=int, default=5000)
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.uploads, chosen.sockets, chosen.samples)))
