"""The only place that caches: the open cache file, and what is read from it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from engine.errors import NotACache
from engine.store import Cache, default_cache_path, open_cache


def _identity(path: Path) -> tuple[str, int, int]:
    """What changes when a new cache is published over the old one."""
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise NotACache(f"{path.name} does not exist; `make publish` assembles it from data/shards") from error
    return str(path), status.st_mtime_ns, status.st_ino


@st.cache_resource(max_entries=2, show_spinner=False)
def _open(path: str, modified: int, inode: int) -> Cache:  # noqa: ARG001  (part of the key)
    return open_cache(path)


def current_cache() -> Cache:
    """The published cache; a newly published one is picked up by itself."""
    return _open(*_identity(default_cache_path()))


@st.cache_data(max_entries=8, show_spinner=False)
def _runs(fingerprint: str, _cache: Cache) -> pd.DataFrame:  # noqa: ARG001  (part of the key)
    return _cache.runs()


def runs(cache: Cache) -> pd.DataFrame:
    """The cache's runs, one row each."""
    return _runs(cache.fingerprint, cache)
