"""A viewer's own data: caches of one run that only this browser session can see, gone a moment after it ends."""

from __future__ import annotations

import re
import threading
from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from threading import Timer

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.compute.jobs import forget_jobs, in_process, viewer
from app.compute.keep import forget
from app.serving.gate import BROWSER
from engine.core.errors import CacheError
from engine.importing import ColumnMapping, RunIdentity
from engine.importing.readers import Table
from engine.sandbox.run import publish_isolated, read_isolated
from engine.store import Cache, open_cache
from engine.store.publish import remove_abandoned_own, remove_own

OWN = ("your data", "your earlier data")
"""How they are called among the caches, the last one first. In another session such a name opens nothing."""


AWAY = 60.0
"""Seconds for which data wait for a viewer who comes back, as after a reload."""


class Own:
    """At most two caches, to compare; `leave` is called from the server's own thread when the session ends.

    browser : what its cookie says; a session of the same browser that begins in time, as after a reload, finds all.
    """

    def __init__(self, viewer: str = "", browser: str = "") -> None:
        self.browser = browser
        self.content: tuple[bytes | Path, str] = b"", ""
        """The file that was read last, and its name."""
        self.viewer = viewer
        self.source: Hashable = None
        self._caches: tuple[Cache, ...] = ()
        self._released = False
        self._guard = threading.Lock()

    @property
    def caches(self) -> dict[str, Cache]:
        """By name, the last one first."""
        return dict(zip(OWN, self._caches, strict=False))

    def take(self, path: Path, source: Hashable = None) -> None:
        """Make this cache the viewer's data, beside the one before; `source` says what it was made of."""
        cache = open_cache(path)
        with self._guard:
            given = (cache, *self._caches)
            keep = 0 if self._released else len(OWN)
            self._caches, self.source = given[:keep], source
        for unwanted in given[keep:]:
            _remove(unwanted)

    def let_go(self) -> None:
        """Remove the viewer's data."""
        with self._guard:
            previous, self._caches, self.source = self._caches, (), None
        for cache in previous:
            _remove(cache)

    def leave(self) -> None:
        """The session has ended: keep the data for a moment, for whoever comes back, or remove it now."""
        forget_jobs(self.viewer)
        if not self.browser or not self._caches:
            self.release()
            return
        kept = Own(self.viewer)
        kept._receive(self)
        self.release()
        away = Away(kept, Timer(AWAY, kept.release))
        away.timer.daemon = True
        before, LEFT[self.browser] = LEFT.pop(self.browser, None), away
        away.timer.start()
        if before is not None:
            before.timer.cancel()
            before.data.release()

    def come_back(self) -> None:
        """Take what an earlier session of this browser has left."""
        away = LEFT.pop(self.browser, None)
        if away is not None:
            away.timer.cancel()
            self._receive(away.data)

    def _receive(self, other: Own) -> None:
        with other._guard:
            taken = other._caches, other.source, other.content
            other._caches, other.source, other.content = (), None, (b"", "")
        with self._guard:
            self._caches, self.source, self.content = taken

    def release(self) -> None:
        """Remove it for good: whatever comes later is removed at once."""
        with self._guard:
            self._released, self.content = True, (b"", "")
        forget_jobs(self.viewer)
        self.let_go()


@dataclass(frozen=True, eq=False)
class Away:
    """The data of a session that has ended, and what removes them when nobody has come back."""

    data: Own
    timer: Timer


LEFT: dict[str, Away] = {}
"""By the cookie of the browser."""


def _remove(cache: Cache) -> None:
    cache.close()
    remove_own(cache.path)
    forget(cache.kept_by)
    forget_jobs(cache.kept_by)


@st.cache_resource(show_spinner=False)
def _tidied() -> bool:
    """Once per server: remove what a killed one left behind."""
    remove_abandoned_own()
    return True


@st.cache_resource(scope="session", show_spinner=False, on_release=Own.leave)
def _own() -> Own:
    token = str(st.context.cookies.get(BROWSER, ""))  # whatever a stranger sends
    return Own(viewer(), token if re.fullmatch("[A-Za-z0-9_-]{32}", token) else "")


def own() -> Own:
    """What this session has brought, or the one before a reload; left when the session ends, or its connection does."""
    _tidied()
    mine = _own()
    if not mine.caches:
        mine.come_back()
    return mine


def is_own(fingerprint: str) -> bool:
    """Whether a cache is kept by the fingerprint of this viewer's data; nobody else's can have it."""
    if get_script_run_ctx() is None:
        return False
    return any(cache.kept_by == fingerprint for cache in _own().caches.values())


@st.cache_resource(scope="session", max_entries=1, show_spinner="Reading the file")
def _read(identity: Hashable, _content: bytes | Path, _name: str) -> Table:  # noqa: ARG001  (part of the key)
    source = _content.open("rb") if isinstance(_content, Path) else _content
    return in_process("read", lambda progress: read_isolated(source, _name, progress=progress))


def _state(path: Path) -> tuple[int, ...]:
    """What changes when somebody writes to a file or puts another in its place; clocks may be set back."""
    status = path.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def read_upload(identity: str, content: bytes | Path, name: str) -> Table:
    """The table in a file, read by a limited process; `identity` tells one file from the next."""
    try:
        table = _read((identity, _state(content) if isinstance(content, Path) else 0), content, name)
    except OSError as error:
        raise CacheError(f"{name} cannot be opened any more") from error
    own().content = content, table.name
    return table


def take_upload(mapping: ColumnMapping, source: Hashable) -> None:
    """Make the file that was read last the viewer's cache: written by a limited process, removed with the session."""
    mine = own()
    content, name = mine.content
    identity = RunIdentity(
        "your-data", suite="yours", backbone="your model", dataset=Path(name).stem, variant="uploaded"
    )
    in_process(
        "publish",
        lambda progress: mine.take(publish_isolated(content, name, mapping, identity, progress=progress), source),
    )
