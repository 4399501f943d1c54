"""The published cache and its runs."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import streamlit as st

from app.loaders.keeping import keep
from engine.errors import NotACache
from engine.store import Cache, default_cache_path, open_cache
from engine.types import RunData


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


def available_caches() -> list[Path]:
    """The published cache, then the other caches beside it."""
    default = default_cache_path()
    return [default, *sorted(path for path in default.parent.glob("*.duckdb") if path != default)]


def current_cache(path: Path) -> Cache:
    """An open cache; a newly published one is picked up by itself."""
    return _open(*_identity(path))


@keep(max_entries=4)
def _runs(fingerprint: str, _cache: Cache) -> pd.DataFrame:  # noqa: ARG001  (part of the key)
    return _cache.runs().set_index("run_id", drop=False)


def runs(cache: Cache) -> pd.DataFrame:
    """One row per run, indexed by run id. Shared between viewers: do not change it."""
    return _runs(cache.fingerprint, cache)


@keep(max_entries=24, show_spinner="Reading the run")
def _load(fingerprint: str, run_id: str, with_logits: bool, _cache: Cache) -> RunData:  # noqa: ARG001
    return _cache.load(run_id, with_logits=with_logits)


def load_run(cache: Cache, run_id: str, *, with_logits: bool = False) -> RunData:
    """The samples of a run. Logits only where a page needs them: they are most of the bytes."""
    return _load(cache.fingerprint, run_id, with_logits, cache)


@keep(max_entries=64)
def _table(fingerprint: str, run_id: str, name: str, _cache: Cache) -> pd.DataFrame:  # noqa: ARG001
    return {"layers": _cache.layers, "epochs": _cache.epochs, "metrics": _cache.epoch_metrics}[name](run_id)


def run_table(cache: Cache, run_id: str, name: str) -> pd.DataFrame:
    """`layers`, `epochs` or `metrics` of a run."""
    return _table(cache.fingerprint, run_id, name, cache)
