"""Times a case and its peers alternately, so that a noisy machine slows both alike."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from statistics import median

Work = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One piece of work, ours and each peer's way of doing it.

    `prepare` builds the inputs and returns our callable and the peers' by name; a peer whose package is missing
    is left out by whoever prepares (see `installed`). `target` is the least acceptable ratio of the fastest peer's
    time to ours; `limit_seconds` is an absolute ceiling where the promise is one.
    """

    name: str
    prepare: Callable[[], tuple[Work, Mapping[str, Work]]]
    target: float | None = None
    limit_seconds: float | None = None
    repeats: int = 7


@dataclass(frozen=True)
class Timing:
    """Median seconds of a case and of its peers, and whether the promise was kept."""

    name: str
    seconds: float
    peers: Mapping[str, float]
    target: float | None
    limit_seconds: float | None
    ratio: float | None = field(init=False)
    kept: bool | None = field(init=False)

    def __post_init__(self) -> None:
        ratio = min(self.peers.values()) / self.seconds if self.peers else None
        kept: bool | None = None
        if self.target is not None and ratio is not None:
            kept = ratio >= self.target
        if self.limit_seconds is not None:
            kept = (kept is not False) and self.seconds <= self.limit_seconds
        object.__setattr__(self, "ratio", ratio)
        object.__setattr__(self, "kept", kept)


def installed(*modules: str) -> bool:
    """Whether every module can be imported, without importing it."""
    return all(importlib.util.find_spec(module) is not None for module in modules)


def _seconds(work: Work) -> float:
    """Wall time of one call, averaged over enough calls to fill about 20 ms."""
    start = time.perf_counter()
    work()
    once = time.perf_counter() - start
    calls = max(1, min(1000, int(0.02 / max(once, 1e-7))))
    if calls == 1:
        return once
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def measure(case: Case) -> Timing:
    """Warm up once, then time ours and the peers in turn."""
    ours, peers = case.prepare()
    contenders = {"": ours, **peers}
    for work in contenders.values():
        work()
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(case.repeats):
        for name, work in contenders.items():
            # A peer that takes seconds is timed twice at most: its median is far from the threshold anyway.
            if len(times[name]) < 2 or median(times[name]) < 1.0:
                times[name].append(_seconds(work))
    medians = {name: median(values) for name, values in times.items()}
    return Timing(case.name, medians.pop(""), medians, case.target, case.limit_seconds)
