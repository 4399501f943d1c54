"""Files that appear whole or not at all."""

import fcntl
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

HOST = hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]
_TEMPORARY = re.compile(r"\..+\.(?P<host>[0-9a-f]{8})-(?P<process>\d+)-[0-9a-f]{8}\.tmp(\.wal)?")
_ABANDONED_AFTER_SECONDS = 24 * 3600


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a temporary path beside the target; it takes the target's place on success and is removed on failure.

    The bytes reach the disk before the rename, so that not even a power cut leaves a half-written target.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".{target.name}.{HOST}-{os.getpid()}-{secrets.token_hex(4)}.tmp"
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, target)
        with suppress(OSError):  # it is in place, whatever the directory says to being flushed
            _flush(target.parent)
    finally:
        for leftover in (temporary, log_of(temporary)):
            leftover.unlink(missing_ok=True)


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """Wait until nobody else holds this directory, then hold it; the system lets go for a holder that is killed.

    The lock is on the directory itself: no file stays behind, and who reads or writes in it without asking never waits.
    """
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems have no locks; there nobody waits
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def log_of(database: Path) -> Path:
    """Where DuckDB keeps the write-ahead log of a database."""
    return database.with_name(f"{database.name}.wal")


def remove_leftovers(directory: Path) -> None:
    """Remove temporary files of writers that were killed: of dead processes here, of any elsewhere after a day.

    What may not be removed stays: the writer who tidies up has done its own work already.
    """
    for path in directory.glob(".*.tmp*"):
        parts = _TEMPORARY.fullmatch(path.name)
        if parts and is_abandoned(path, parts["host"], int(parts["process"])):
            with suppress(OSError):
                path.unlink()


def is_abandoned(path: Path, host: str, process: int) -> bool:
    """Whether nobody works on a temporary path any more: its process is dead or, on another host, it is a day old.

    Here a clock that jumps must not take a live process's work away, so its age does not count.
    """
    return _is_dead(process) if host == HOST else _is_old(path)


def _is_dead(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        return False
    return False


def _is_old(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _ABANDONED_AFTER_SECONDS
    except OSError:
        return False


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
