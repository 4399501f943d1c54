"""Which file it is that one has open, and whether anybody wrote to it since."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import IO, BinaryIO

from engine.core.errors import NotACache

REMEDY = "publish one with `python -m cache_builder publish`"
HEADERS = 3 * 4096
"""Bytes of DuckDB's three headers, with a number that every checkpoint changes."""


@dataclass(frozen=True)
class Identity:
    """Equal for two looks at one unchanged file. Clocks may jump and be set back: time is only one part of it.

    Two caches written alike may have equal headers, and the time of modification is whatever a copying program says.
    That of the last change is the kernel's: it tells which file a name stands for, but an open file gets a new one
    when another takes its name, so it does not count between two looks at that.
    """

    device: int
    inode: int
    size: int
    modified: int
    head: str
    changed: int = field(compare=False)

    @property
    def key(self) -> str:
        """By which what was computed from the file is kept. What a file says of itself may be another's."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]

    @classmethod
    def of(cls, file: IO[bytes]) -> Identity:
        """Of an open file, wherever its name points by now."""
        status = os.fstat(file.fileno())
        head = hashlib.sha256(os.pread(file.fileno(), HEADERS, 0)).hexdigest()[:16]
        return cls(*_told(status), head, status.st_ctime_ns)

    def is_at(self, path: Path) -> bool:
        """Whether the file of this name is this one.

        Nothing is opened: closing a file would take away the lock by which DuckDB keeps writers out of it.
        """
        try:
            status = path.stat()
        except OSError:
            return False
        same = _told(status) == (self.device, self.inode, self.size, self.modified)
        return same and status.st_ctime_ns == self.changed


def _told(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def open_regular(path: Path) -> BinaryIO:
    """The file, open for reading. A FIFO or a device is refused and not waited for; so is what may not be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        raise NotACache(f"{path}: no such cache, or it may not be read; {REMEDY}") from error
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotACache(f"{path}: no such cache, not a regular file; {REMEDY}")
    return os.fdopen(descriptor, "rb")
