"""A viewer's own data: a cache of one run that only this browser session can see, gone when the session ends."""

import threading
from collections.abc import Hashable
from pathlib import Path

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.compute.jobs import forget_jobs, in_process, viewer
from app.compute.keep import forget
from engine.core.errors import CacheError
from engine.importing import ColumnMapping, RunIdentity
from engine.importing.readers import Table
from engine.sandbox.run import publish_isolated, read_isolated
from engine.store import Cache, open_cache
from engine.store.publish import remove_abandoned_own, remove_own

OWN = "your data"
"""How it is called among the caches. In another session the name means nothing, so a link to it opens nothing."""


class Own:
    """At most one cache; `release` is called from the server's own thread when the session ends."""

    def __init__(self, viewer: str = "") -> None:
        self.content: tuple[bytes | Path, str] = b"", ""
        """The file that was read last, and its name."""
        self.viewer = viewer
        self.cache: Cache | None = None
        self.source: Hashable = None
        self._released = False
        self._guard = threading.Lock()

    def take(self, path: Path, source: Hashable = None) -> None:
        """Make this cache the viewer's data, in place of any before it; `source` says what it was made of."""
        cache = open_cache(path)
        with self._guard:
            if self._released:
                unwanted = cache
            else:
                unwanted, self.cache, self.source = self.cache, cache, source
        _remove(unwanted)

    def let_go(self) -> None:
        """Remove the viewer's data."""
        with self._guard:
            previous, self.cache, self.source = self.cache, None, None
        _remove(previous)

    def release(self) -> None:
        """Remove it for good: whatever comes later is removed at once."""
        with self._guard:
            self._released, self.content = True, (b"", "")
        forget_jobs(self.viewer)
        self.let_go()


def _remove(cache: Cache | None) -> None:
    if cache is not None:
        cache.close()
        remove_own(cache.path)
        forget(cache.kept_by)
        forget_jobs(cache.kept_by)


@st.cache_resource(show_spinner=False)
def _tidied() -> bool:
    """Once per server: remove what a killed one left behind."""
    remove_abandoned_own()
    return True


@st.cache_resource(scope="session", show_spinner=False, on_release=Own.release)
def _own() -> Own:
    return Own(viewer())


def own() -> Own:
    """What this session has brought; Streamlit empties it when the session ends, or its connection does."""
    _tidied()
    return _own()


def is_own(fingerprint: str) -> bool:
    """Whether a cache is kept by the fingerprint of this viewer's data; nobody else's can have it."""
    if get_script_run_ctx() is None:
        return False
    cache = _own().cache
    return cache is not None and cache.kept_by == fingerprint


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
