"""The published cache and its runs."""

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.compute.jobs import forget_jobs
from app.compute.keep import forget, keep
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
_AT_ONCE = 200_000
"""Samples of which a feature's columns are in memory together."""


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
    """The last readable cache of every path: of the default one, and of those of the others that were used last.

    A file that is lost or spoilt does not take it away.

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
            turn, held = self._turns.setdefault(path, threading.Lock()), self._held.get(path)
        if held is None:
            turn.acquire()
        elif not turn.acquire(blocking=False):  # somebody is looking at the file, perhaps at a new one
            return Current(held, self._troubles.get(path, ""))
        try:
            held = self._held.get(path)
            if held is not None and held.is_current():
                self._settle(path, held)
                with self._guard:
                    if path in self._held:  # others may just have pushed it out
                        self._held.move_to_end(path)
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
            with self._guard:
                self._held[path] = opened
                self._held.move_to_end(path)
                others = [each for each in self._held if each != default_cache_path()]
                unused = [self._held.pop(each) for each in others[: -self._capacity]]
                unused += [held] if held is not None else []
            for cache in unused:  # it lives on in the views that use it, and no longer in what is kept for others
                forget(cache.kept_by)
                forget_jobs(cache.kept_by)
            return Current(opened)
        finally:
            turn.release()

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
    rows: IntArray | None = field(default=None, kw_only=True)
    """Which of the run's samples these are, None for all."""

    def __getattribute__(self, name: str) -> Any:
        if name not in _WIDE or vars(self)[name] is not NotRead:
            return super().__getattribute__(name)
        whole, rows = _wide(self.cache, self.run_id, name), vars(self)["rows"]
        if rows is None:
            return whole
        return whole[rows] if name == "entropies" else {each: column[rows] for each, column in whole.items()}

    def subset(self, rows: IntArray | BoolArray) -> RunData:
        chosen = np.arange(self.n_samples) if self.rows is None else self.rows
        return super().subset(rows).replace(rows=chosen[rows])


@keep(max_entries=12)
def _wide(cache: Cache, run_id: str, name: str) -> Any:
    return getattr(cache.load(run_id, {name}), name)


@keep(max_entries=24)
def _load(cache: Cache, run_id: str) -> RunData:
    run = cache.load(run_id, WITHOUT_LOGITS - _WIDE)
    return _Run(**vars(run), cache=cache)


@keep(max_entries=3)
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
    """(n,) a feature of all samples of a run; raises what the engine raises for one that the run lacks.

    Read piece by piece: the profile of a large run takes many times the memory of what is made of it.
    """
    n_samples = _load(cache, run_id).n_samples
    pieces = [range(start, start + _AT_ONCE) for start in range(0, max(n_samples, 1), _AT_ONCE)]
    return np.concatenate([feature(cache.load(run_id, columns_of(name), rows=rows), name) for rows in pieces])


@keep(max_entries=64)
def run_table(cache: Cache, run_id: str, name: str) -> pd.DataFrame:
    """`layers`, `epochs` or `epoch_metrics` of a run."""
    return {"layers": cache.layers, "epochs": cache.epochs, "epoch_metrics": cache.epoch_metrics}[name](run_id)
