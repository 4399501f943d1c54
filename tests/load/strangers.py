"""Five viewers browse while strangers bring damaged caches and uploads, and while forty sockets ask for everything.

Not a test: a measurement, part of `make load`. The files are those of `make fuzz ONLY=files`, with right checksums.
Caches take each other's place beside the good one and are chosen; uploads come by the page's own way: a web socket, a
file put to its session, the page drawn with it. It fails if the server ends, if a viewer sees an error or waits longer
than `SLOWEST` for a page, or if the server's memory, a minute after the strangers have left, is not what it was within
a tenth.
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
import urllib.request
from collections import Counter
from pathlib import Path
from uuid import uuid4

import psutil
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Common_pb2 import UploadedFileInfo
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from engine.store import publish
from engine.store.atomic import replacing
from tests.fuzz import files
from tests.serving import Served, serve
from tests.viewers import Viewer, write_version

SLOWEST, MOST_GROWTH = 5.0, 0.10
BEFORE, AFTER = 40.0, 60.0
BROWSED = ("overview", "gap", "reliability", "mechanism", "null")


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


async def upload(served: Served, n_files: int, told: Counter[str]) -> None:
    async with Stranger(served) as stranger:
        for number in range(n_files):
            said = await stranger.bring(*files.upload_file(number))
            told["uploads refused" if "cannot be used" in said else "uploads read"] += 1


async def choose(served: Served, beside: Path, n_files: int, told: Counter[str], faults: list[str]) -> None:
    """A new damaged cache under the name of the one before, looked at by whoever chose it."""
    rng = random.Random(0)
    async with Viewer(served) as stranger:
        for number in range(n_files):
            with replacing(beside) as temporary:
                temporary.write_bytes(files.cache_file(number))
            seen = await stranger.open(rng.choice(BROWSED), {"cache": beside.name})
            faults.extend(f"cache file {number}: {each}" for each in seen.exceptions)
            # Of one that was whole before, the numbers stay.
            shown = not any("cannot be read at" in each or "last readable" in each for each in seen.alerts)
            told["caches shown" if shown else "caches refused"] += 1


async def crowd(served: Served, n_sockets: int) -> None:
    """Everybody asks for other settings at once, and leaves when told to."""

    async def ask(number: int) -> None:
        async with Viewer(served, {"X-Forwarded-For": f"198.51.100.{number % 2}"}) as viewer:
            await viewer.open("overview", {"bins": str(2 + number), "support": str(1 + number)})

    await asyncio.gather(*(ask(number) for number in range(n_sockets)), return_exceptions=True)


async def main(n_files: int, n_sockets: int, n_samples: int) -> int:
    folder = Path(tempfile.mkdtemp(prefix="routecal-strangers-"))
    write_version(folder / "shards", 0, n_samples)
    publish(folder / "shards", folder / "cache.duckdb")
    told: Counter[str] = Counter()
    with serve(folder / "cache.duckdb", folder / "log") as served:
        process, done, faults = psutil.Process(served.process.pid), asyncio.Event(), []
        megabytes, slowest, seconds = [], 0.0, []
        viewers = [asyncio.create_task(browse(number, served, done, seconds, faults)) for number in range(5)]
        for what, work in (
            ("alone", asyncio.sleep(BEFORE)),
            (f"{n_files} damaged uploads", upload(served, n_files, told)),
            (f"{n_files} damaged caches", choose(served, folder / "strange.duckdb", n_files, told, faults)),
            (f"{n_sockets} sockets with other settings", crowd(served, n_sockets)),
            ("alone again", asyncio.sleep(AFTER)),
        ):
            seconds.clear()
            start = time.monotonic()
            await work
            slowest = max(slowest, *seconds)
            megabytes.append(process.memory_info().rss / 2**20)
            print(
                f"{what}: {time.monotonic() - start:.0f} s; {len(seconds)} pages of five viewers, median "
                f"{statistics.median(seconds):.2f} s, slowest {max(seconds):.2f} s; server {megabytes[-1]:.0f} MB",
                flush=True,
            )
        done.set()
        await asyncio.gather(*viewers)
        ended = served.process.poll() is not None
    shutil.rmtree(folder, ignore_errors=True)
    growth = megabytes[-1] / megabytes[0] - 1
    print(", ".join(f"{n:,} {what}" for what, n in sorted(told.items())))
    print(f"memory {growth:+.1%} (at most {MOST_GROWTH:+.0%}), slowest page {slowest:.2f} s (at most {SLOWEST:g} s)")
    for fault in faults[:10]:
        print("  ", fault)
    return int(ended or bool(faults) or slowest > SLOWEST or growth > MOST_GROWTH)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000, help="of either kind")
    parser.add_argument("--sockets", type=int, default=40)
    parser.add_argument("--samples", type=int, default=5000)
    chosen = parser.parse_args()
    sys.exit(asyncio.run(main(chosen.files, chosen.sockets, chosen.samples)))
