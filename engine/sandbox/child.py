"""The other side of `engine.sandbox.run`: limit this process, then run one script on one open file.

Started as `python -I limited_child.py` with the order on standard input. Only the standard library is imported before
the limits hold.
"""

import errno
import json
import os
import resource
import runpy
import signal
import sys
from pathlib import Path
from typing import Any

REFUSED = 3
"""Exit status of a child that finished in order and has a reason instead of a result."""
_OPEN_FILES = 64


def limit(memory_bytes: int, cpu_seconds: int, wall_seconds: float, output_bytes: int) -> None:
    """Hard limits that not even this process can raise again; the alarm is for a parent that died and cannot kill."""
    signal.alarm(int(wall_seconds) + 2)
    for kind, most in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, output_bytes),
        (resource.RLIMIT_NOFILE, _OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))


def describe(error: BaseException) -> dict[str, str] | None:
    """What the parent is told about an error; None for one that nobody foresaw."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryException":
        return {"kind": "memory"}
    if all(hasattr(error, name) for name in ("argument", "expected", "got")):
        return {"kind": "refused", **{name: str(getattr(error, name)) for name in ("argument", "expected", "got")}}
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        return {"kind": "memory"}
    return None


def work(order: dict[str, Any]) -> int:
    limit(**order["limits"])
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    try:
        main = runpy.run_path(order["script"])["main"]
        with open(order["file"], "rb", closefd=False) as file:
            main(order["request"], file, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    except Exception as error:
        told = describe(error)
        if told is None:
            return 1
        os.ftruncate(1, 0)
        os.lseek(1, 0, os.SEEK_SET)
        os.write(1, json.dumps(told).encode())
        return REFUSED
    return 0


if __name__ == "__main__":
    os._exit(work(json.load(sys.stdin)))
