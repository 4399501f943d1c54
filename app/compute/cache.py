"""The published cache and its runs."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from app.compute.keep import keep
from app.serving.log import LOG
from app.state.selection import telling_first
from engine.core.errors import CacheError, NotACache, RouteCalError
from engine.core.labels import RunName, run_names
from engine.core.types import WITHOUT_LOGITS, BoolArray, FloatArray, IntArray, NotRead, RunData
from engine.features import columns_of, feature
from engine.sandbox.run import LimitExceeded
from engine.sandbox.unfamiliar import try_out
from engine.store import Cache, default_cache_path, open_cache
from engine.store.connection import is_text
from engine.store.identity import Identity, open_regular

_TRIED = 256
"""Files of which is remembered what came of trying them out."""

_WIDE = frozenset({"entropies", "extra"})


def available_caches() -> list[Path]:
    """The published cache, then the other caches beside it."""
    default = default_cache_path()
    try:
        beside = sorted(path for path in default.parent.glob("*.duckdb") if path != default)
        return [default, *(path for path in beside if is_text(path) and path.is_file())]
    except OSError:  # the folder goes away at this moment
        return [default]


@dataclass(frozen=True)
class Current:
    """An open cache, and why it is not the one that is at its path now; no trouble if it is."""

    cache: Cache
    trouble: str = ""


class Holder:
    """The last readable cache of every path. A file that is lost or spoilt does not take it away.

    A file that nobody has opened yet is tried out by a limited process before this one opens it. Who waits for that
    waits for this file alone: viewers of others go on.
    """

    def __init__(self, capacity: int = 4) -> None:
        self._capacity = capacity
        self._held: OrderedDict[Path, Cache] = OrderedDict()
        self._tried: OrderedDict[str, str] = OrderedDict()
        self._troubles: dict[Path, str] = {}
        self._turns: dict[Path, threading.Lock] = {}
        self._guard = threading.Lock()

    def current(self, path: Path) -> Current:
        """The cache at this path, or the one before it if that cannot be read; raises `CacheError` without either."""
        with self._guard:
            turn = self._turns.setdefault(path, threading.Lock())
        with turn:
            held = self._held.get(path)
            if held is not None and held.is_current():
                self._settle(path, held)
                return Current(held)
            try:
                opened = self._open(path)
            except (CacheError, LimitExceeded) as error:
                trouble = reason(error, path)
                if self._troubles.get(path) != trouble:
                    LOG.warning("cannot read %s; %s", trouble, f"showing {held.fingerprint}" if held else "no other")
                self._troubles[path] = trouble
                if held is None:
                    raise NotACache(trouble) from error
                return Current(held, trouble)
            self._settle(path, opened)
            with self._guard:  # a cache before it lives on in the views that use it
                self._held[path] = opened
                self._held.move_to_end(path)
                while len(self._held) > self._capacity:
                    self._held.popitem(last=False)
            return Current(opened)

    def _open(self, path: Path) -> Cache:
        """What came of trying a file out is known for as long as it is the same file."""
        with open_regular(path) as file:
            identity = Identity.of(file)
        if identity.key not in self._tried:
            trouble = try_out(path, identity)
            with self._guard:
                self._tried[identity.key] = trouble
                while len(self._tried) > _TRIED:
                    self._tried.popitem(last=False)
        if self._tried[identity.key]:
            raise NotACache(self._tried[identity.key])
        opened = open_cache(path)
        if opened.identity != identity:
            opened.close()
            raise CacheError(f"{path}: is being replaced; try again in a moment")
        return opened

    def _settle(self, path: Path, cache: Cache) -> None:
        if self._troubles.pop(path, ""):
            LOG.info("%s can be read again: cache %s", path.name, cache.fingerprint)


def reason(error: RouteCalError, path: Path) -> str:
    """What is wrong with a cache, for viewers: with its name, without the folders of the server."""
    text = str(error)
    for folder in (path.resolve().parent, path.absolute().parent, path.parent):
        text = text.replace(f"{folder}/", "")
    return text


@st.cache_resource(show_spinner=False)
def _holder() -> Holder:
    return Holder()


def current_cache(path: Path) -> Current:
    """An open cache; a newly published one is picked up by itself, an unreadable one is not."""
    return _holder().current(path)


@keep(max_entries=4)
def runs(cache: Cache) -> pd.DataFrame:
    """One row per run, indexed by run id. Shared between viewers: do not change it."""
    return cache.runs().set_index("run_id", drop=False)


@keep(max_entries=4, by=lambda _cache, _table: "names")
def names_of(cache: Cache, table: pd.DataFrame) -> dict[str, RunName]:  # noqa: ARG001  (its results are kept by it)
    """How the runs of a cache are called, those to look at first coming first; `table` is what `runs` says."""
    return run_names(telling_first(table))


@dataclass(frozen=True, eq=False, repr=False)
class _Run(RunData):
    """A run whose profile and extra columns are read when somebody asks for them: of many samples they are most."""

    cache: Cache = field(kw_only=True)

    def __getattribute__(self, name: str) -> Any:
        if name in _WIDE and vars(self)[name] is NotRead:
            return _wide(self.cache, self.run_id, name)
        return super().__getattribute__(name)

    def subset(self, rows: IntArray | BoolArray) -> RunData:
        columns = {entry.name: vars(self)[entry.name] for entry in fields(RunData)}
        return RunData(**columns | {name: getattr(self, name) for name in _WIDE}).subset(rows)


@keep(max_entries=12)
def _wide(cache: Cache, run_id: str, name: str) -> Any:
    return getattr(cache.load(run_id, {name}), name)


@keep(max_entries=24, spinner="Reading the run")
def _load(cache: Cache, run_id: str) -> RunData:
    run = cache.load(run_id, WITHOUT_LOGITS - _WIDE)
    return _Run(**vars(run), cache=cache)


@keep(max_entries=3, spinner="Reading the logits")
def _logits(cache: Cache, run_id: str) -> FloatArray | None:
    return cache.load(run_id, {"logits"}).logits


def load_run(cache: Cache, run_id: str, *, with_logits: bool = False) -> RunData:
    """The samples of a run. Logits only where a page needs them: a thousand classes are a thousand times the bytes.

    A run with logits is a new object every time, so that the probabilities made of them go with it.
    """
    run = _load(cache, run_id)
    return run.replace(logits=_logits(cache, run_id)) if with_logits else run


@keep(max_entries=64)
def feature_of(cache: Cache, run_id: str, name: str) -> FloatArray:
    """(n,) a feature of all samples of a run; raises what the engine raises for one that the run lacks."""
    return feature(load_run(cache, run_id, with_logits="logits" in columns_of(name)), name)


@keep(max_entries=64)
def run_table(cache: Cache, run_id: str, name: str) -> pd.DataFrame:
    """`layers` or `epochs` of a run."""
    return {"layers": cache.layers, "epochs": cache.epochs}[name](run_id)
