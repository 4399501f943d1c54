"""Work on what strangers send, in a process of its own that is limited in memory and time and killed on overrun.

The child (`engine/sandbox/child.py`) limits itself before it touches anything foreign, gets one open file and a request
in JSON, no environment and no path of the server, and hands back bytes. What those bytes mean is for the caller to
check: a child that was taken over may return anything.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from engine.core.errors import InvalidInput, RouteCalError
from engine.sandbox.child import REFUSED

_CHILD = Path(__file__).with_name("child.py")
_AT_ONCE = 2
_NO_ROOM = "the server has no room left for this; try again later"
_slots = threading.BoundedSemaphore(_AT_ONCE)


class LimitExceeded(RouteCalError):
    """The work needed more time or memory than it was given, or broke off."""


@dataclass(frozen=True)
class Allowance:
    """What a child may use. `memory_bytes` counts address space, of which Python and Arrow take half a gigabyte."""

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float
    output_bytes: int


def run_limited(script: Path, request: Mapping[str, Any], file: IO[bytes], allowance: Allowance) -> IO[bytes]:
    """Run `main(request, file, output)` of a script over an open file; returns what it wrote, from the start.

    `file` must be a real file, not a buffer. Reasons that the script gives come back as `InvalidInput`; overruns and
    crashes as `LimitExceeded`. At most two children work at a time; others wait for their turn.
    """
    deadline = time.monotonic() + allowance.wall_seconds
    if not _slots.acquire(timeout=allowance.wall_seconds):
        raise LimitExceeded("other viewers keep the server busy; try again in a moment")
    try:
        # Half the time at least, however long the wait for a turn was.
        seconds = max(deadline - time.monotonic(), allowance.wall_seconds / 2)
        output = _scratch_file()
        try:
            status = _run(script, request, file.fileno(), output, allowance, seconds)
            output.seek(0)
            if status == REFUSED:
                raise _reason(output)
            if status != 0:
                raise LimitExceeded(_how_it_ended(status, allowance))
        except BaseException:
            output.close()
            raise
        return output
    finally:
        _slots.release()


def _run(
    script: Path, request: Mapping[str, Any], file: int, output: IO[bytes], allowance: Allowance, seconds: float
) -> int:
    order = {"script": str(script), "file": file, "limits": asdict(allowance), "request": dict(request)}
    process = subprocess.Popen(
        [sys.executable, "-I", str(_CHILD)],
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=subprocess.DEVNULL,
        pass_fds=[file],
        cwd="/",
        env={"HOME": "/", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"},
        start_new_session=True,
    )
    try:
        process.communicate(json.dumps(order).encode(), timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise LimitExceeded(f"stopped after {allowance.wall_seconds:g} seconds") from error
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)  # with whatever it started: the child leads a session of its own
            process.wait()
    return process.returncode


def _reason(output: IO[bytes]) -> RouteCalError:
    """The error that a child described; it is shown as text, never believed further than that."""
    try:
        told = json.loads(output.read(65_536))
        if told["kind"] == "memory":
            return LimitExceeded("needed more memory than is allowed here")
        return InvalidInput(*(str(told[name])[:2000] for name in ("argument", "expected", "got")))
    except (ValueError, KeyError, TypeError):
        return LimitExceeded("broke off without a reason")


def _how_it_ended(status: int, allowance: Allowance) -> str:
    if -status in (signal.SIGXCPU, signal.SIGKILL):
        return f"stopped after {allowance.cpu_seconds} seconds of computing"
    return (
        "broke off: it needed more memory than is allowed here or more room than the server has left, or the file is "
        "damaged in a way that stops the reader"
    )


def as_file(content: bytes) -> IO[bytes]:
    """Bytes as a nameless file on disk, for `run_limited`."""
    file = _scratch_file()
    try:
        file.write(content)
        file.flush()
    except OSError as error:
        with suppress(OSError):  # closing tries to write the rest once more
            file.close()
        raise LimitExceeded(_NO_ROOM) from error
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    file.seek(0)
    return file


def _scratch_file() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise LimitExceeded(_NO_ROOM) from error
