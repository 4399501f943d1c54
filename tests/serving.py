"""A dashboard served for real: started, waited for, its log read, ended; for all tests and measurements of one."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Served:
    """A dashboard at work."""

    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def stream(self) -> str:
        return f"ws://127.0.0.1:{self.port}/_stcore/stream"

    def log_lines(self) -> list[dict[str, str]]:
        """What was logged so far; Streamlit's own greeting is not JSON."""
        return [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]

    def faults(self, after: int = 0) -> list[str]:
        """Errors, and all else with a trace, logged since there were `after` lines; by the reference viewers see."""
        logged = [line for line in self.log_lines()[after:] if line["level"] == "error" or "trace" in line]
        return ["\n".join([f"[{line['request']}] {line['message']}", line.get("trace", "")]) for line in logged]

    def assert_no_faults(self, after: int = 0) -> None:
        found = self.faults(after)
        assert not found, "\n".join(found)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def serve(
    cache: Path,
    log: Path = Path(os.devnull),
    *,
    around: tuple[str, ...] = (),
    script: str = "",
    **environment: str,
) -> Iterator[Served]:
    """A dashboard over a cache, ended afterwards; its log goes to a file.

    around : a command that the server's own is handed to, such as one that changes what it may write to.
    script : what is served instead of the dashboard; it may prepare something and then run that.
    """
    port = free_port()
    command = [*around, sys.executable, "-m", "app", "serve", "--port", str(port), "--address", "127.0.0.1"]
    if script:
        start = "import sys; from app.serving.serve import serve; serve(sys.argv[1], int(sys.argv[2]), '127.0.0.1')"
        command = [*around, sys.executable, "-c", start, script, str(port)]
    settings = os.environ | {"ROUTECAL_CACHE": str(cache)} | environment
    with running(command, port, log, folder=ROOT, environment=settings) as served:
        yield served


@contextmanager
def serve_bare(source: str, cache: Path) -> Iterator[Served]:
    """A page of a few lines, beside which a page of the dashboard is timed."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "bare.py"
        script.write_text(source)
        with serve(cache, script=str(script)) as served:
            yield served


@contextmanager
def running(
    command: Sequence[str], port: int, log: Path, *, folder: Path, environment: Mapping[str, str]
) -> Iterator[Served]:
    """What this command serves in a folder, once it is healthy; ended afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT)
    served = Served(port, process, log)
    try:
        _wait_until_healthy(served)
        yield served
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_healthy(served: Served) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        assert served.process.poll() is None, f"the dashboard did not start: {served.log.read_text()[-2000:]}"
        try:
            urllib.request.urlopen(f"{served.address}/_stcore/health", timeout=1)
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the dashboard did not answer in 90 s")
