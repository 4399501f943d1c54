"""Makes a site: every view is drawn by a few processes and written into a folder that takes its place whole."""

import multiprocessing
import os
import shutil
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from app.compute.cache import names_of, runs
from app.export import FORMULA, Item
from app.plots.theme import Theme
from app.registry import PAGES, ROOT, page_for
from app.report.blind import BlindCache, versions
from app.shell.glossary import GLOSSARY
from app.site.data import Shelf, script
from app.site.record import shown_on, wait_for_long_work
from app.state.selection import feature_label, known_features
from engine.core.errors import CacheError, RouteCalError, UnknownName
from engine.core.notebook import STATES
from engine.core.types import CELL, Progress, silent
from engine.features import FEATURES
from engine.store import Cache, open_cache
from engine.store.atomic import replacing_folder
from engine.sweep import DEFAULT_FEATURE

WHOLE = ("overview", "sweep", "paper", "yourdata")
"""Pages about the whole cache, or about no run: there is one view of each."""
BY_FEATURE = ("gap", "null", "controls")
"""Pages that test the chosen feature; every other page is drawn for the default one."""
PROCESSES = 2
NEEDS_PROGRAM = (
    "This page needs the program that made this site: install RouteCal, run `python -m app serve CACHE` and open Your "
    "data there. Your file is then read on your own machine, and every page works on it."
)
_MARK = '<meta name="generator" content="RouteCal site">'
_STATIC = [Path(__file__).with_name(name) for name in ("index.html", "site.css", "site.js")]
_SHARED = [ROOT / "app" / "export" / "recolour.js"]
_METHODS = ROOT / "app" / "report" / "methods.html"
_GLANCE = 0.5  # seconds


class NotASite(RouteCalError):
    """The folder to write holds something else, which a site would replace."""


@dataclass(frozen=True)
class View:
    """A page to be drawn: its name in the file, the page, and the run and feature that it is drawn for."""

    name: str
    page: str
    run_id: str
    feature: str


@dataclass(frozen=True)
class Plan:
    """What a site is to hold: its views by the file that they go to, and for each run its file and its features."""

    views: Mapping[str, Sequence[View]]
    features: Mapping[str, Sequence[str]]
    pages: Sequence[str]


def plan(cache: Cache, run_ids: Sequence[str] = (), pages: Sequence[str] = (), features: Sequence[str] = ()) -> Plan:
    """All runs, pages and features, or those that are named; unknown names are errors."""
    table = runs(cache)
    if table.empty:
        raise CacheError("this cache holds no runs; build some with `python -m cache_builder sweep` and publish them")
    everything = [*FEATURES, *dict.fromkeys(name for names in table["extra_names"] for name in names)]
    every_page = [page.name for page in PAGES]
    for argument, named, known in (
        ("--runs", run_ids, list(table.index)), ("--pages", pages, every_page), ("--features", features, everything),
    ):  # fmt: skip
        for name in named:
            if name not in known:
                raise UnknownName(argument, name, known)
    drawn = [page for page in every_page if not pages or page in pages]
    chosen = [run_id for run_id in names_of(cache, table) if not run_ids or run_id in run_ids]
    of_run = {
        run_id: list(dict.fromkeys([
            DEFAULT_FEATURE,
            *(name for name in known_features(table.loc[run_id]) if not features or name in features),
        ]))
        for run_id in chosen
    }  # fmt: skip
    views = {"cache": [View(page, page, chosen[0], DEFAULT_FEATURE) for page in drawn if page in WHOLE]}
    for number, run_id in enumerate(chosen, 1):
        views[f"run-{number}"] = [
            View(f"{page}/{feature}" if page in BY_FEATURE else page, page, run_id, feature)
            for page in drawn
            if page not in WHOLE
            for feature in (of_run[run_id] if page in BY_FEATURE else [DEFAULT_FEATURE])
        ]
    return Plan(views, of_run, drawn)


def check_place(out: Path) -> None:
    """A site replaces a site or nothing."""
    index = out / "index.html"
    if out.is_dir() and not any(out.iterdir()):
        return
    if out.exists() and not (index.is_file() and _MARK in index.read_text(encoding="utf-8", errors="replace")):
        raise NotASite(f"{out}: is there and is no site of RouteCal's; name another folder with --out")


def build(
    path: Path, planned: Plan, out: Path, *, names: Sequence[str] | None = None, progress: Progress | None = None
) -> dict[str, str]:
    """Draw what is planned of the cache at `path`, put the folder in its place, and return which words became what.

    names : words to remove besides those that the cache tells; this machine's and its user's if not given.
    """
    check_place(out)
    with replacing_folder(out) as folder:
        (folder / "data").mkdir()
        removed = dict(_drawn(path, planned, folder / "data", names, progress or silent))
        with open_cache(path) as cache:
            hand = _Hand(cache, folder / "data", names)
            index = script("index", hand.index(planned))
        (folder / "data" / "index.js").write_text(index, encoding="utf-8")
        for file in (*_STATIC, *_SHARED):
            shutil.copy(file, folder / file.name)
        (folder / "plotly.min.js").write_text(get_plotlyjs(), encoding="utf-8")
    return removed | hand.blind.scrub.removed


def _drawn(
    path: Path, planned: Plan, folder: Path, names: Sequence[str] | None, progress: Progress
) -> Iterator[tuple[str, str]]:
    """Every word that was removed while all views were drawn: the seeds of a cell by one process, which share much."""
    with open_cache(path) as cache:
        cells = runs(cache).groupby(list(CELL), dropna=False, sort=False).ngroup()
    tasks: dict[Any, list[str]] = {}
    for file, views in planned.views.items():
        if views:
            tasks.setdefault(cells[views[0].run_id] if file != "cache" else file, []).append(file)
    context = multiprocessing.get_context("spawn")
    drawn, began = context.SimpleQueue(), time.monotonic()
    pool = ProcessPoolExecutor(PROCESSES, context, _begin, (path, folder, names, drawn))
    try:
        pending: set[Future[dict[str, str]]] = {
            pool.submit(_draw, [(file, planned.views[file]) for file in files]) for files in tasks.values()
        }
        n_done, n_views = 0, sum(map(len, planned.views.values()))
        while pending:
            done, pending = wait(pending, timeout=_GLANCE)
            while not drawn.empty():
                drawn.get()
                n_done += 1
            share = n_done / n_views
            left = f", {(time.monotonic() - began) * (1 - share) / share / 60:.1f} min left" if n_done else ""
            progress(min(share, 0.999), f"{n_done} of {n_views} views{left}")
            for task in done:
                yield from task.result().items()
    except BaseException:
        for child in multiprocessing.active_children():  # what they are drawing is not wanted any more
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)
    progress(1.0, "written")


class _Hand:
    """Who draws views, every word of them cleaned; the words that a cache is known by get the same numbers in each."""

    def __init__(self, cache: Cache, folder: Path, names: Sequence[str] | None) -> None:
        self._cache, self._folder = cache, folder
        self.blind = BlindCache(cache, names)
        self._table = runs(cache)
        self._ids = dict(zip(self._table.index, self.blind.runs()["run_id"], strict=True))
        for run_id in self._ids.values():
            self.blind.layers(run_id)

    def draw(self, file: str, views: Sequence[View], drawn: Any) -> None:
        """The views of one file."""
        shelf = Shelf(self.blind.scrub)
        for view in views:
            shown = shown_on(view.page, self._cache, view.run_id, view.feature)
            if view.page == "yourdata":
                shown = {**dict(list(shown.items())[:1]), "program": Item("text", NEEDS_PROGRAM)}
            shelf.put(self.blind.scrub(view.name), {key: self._linked(item) for key, item in shown.items()})
            drawn.put(None)
        (self._folder / f"{file}.js").write_text(shelf.script(file), encoding="utf-8")

    def _linked(self, item: Item) -> Item:
        """With the id that a run has in the site."""
        page, _, run_id = item.of.partition("/")
        return replace(item, of=f"{page}/{self._ids[run_id]}") if item.kind == "link" else item

    def index(self, planned: Plan) -> dict[str, Any]:
        """What the browser has to know before it loads anything else."""
        scrub, names = self.blind.scrub, names_of(self._cache, self._table)
        light, dark = Theme(), Theme(dark=True)
        return {
            "version": versions()["RouteCal"],
            "fingerprint": self._cache.fingerprint,
            "palette": {"names": ["text", "muted", "grid", "paper", "band", "neutral"]}
            | {"light": light.colours, "dark": dark.colours},
            "formula": FORMULA.pattern,
            "glossary": GLOSSARY,
            "chips": {state: words for state, (words, _) in STATES.items()},
            "methods": _METHODS.read_text(encoding="utf-8"),
            "pages": [
                {
                    "name": page.name, "section": page.section, "title": page.title, "question": page.question,
                    "scope": "cache" if page.name in WHOLE else "feature" if page.name in BY_FEATURE else "run",
                }
                for page in map(page_for, planned.pages)
            ],
            "features": {
                scrub(name): scrub(feature_label(name))
                for name in dict.fromkeys(name for names in planned.features.values() for name in names)
            },
            "runs": [
                {
                    "id": self._ids[run_id], "file": f"run-{number}", "full": scrub(names[run_id].full),
                    "parts": [scrub(part) for part in (
                        names[run_id].backbone, names[run_id].dataset, names[run_id].variant, names[run_id].run
                    )],
                    "features": [scrub(name) for name in of_run],
                }
                for number, (run_id, of_run) in enumerate(planned.features.items(), 1)
            ],
        }  # fmt: skip


_hand: _Hand
_drawn_views: Any


def _begin(path: Path, folder: Path, names: Sequence[str] | None, drawn: Any) -> None:
    """Of a process that draws; it ends with the one that asked for it, however that ends."""
    global _hand, _drawn_views
    parent = multiprocessing.parent_process()
    assert parent is not None
    Finalize(None, os._exit, args=[0], exitpriority=-1)  # or DuckDB lists on the terminal what was not taken down
    threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
    wait_for_long_work()
    _hand, _drawn_views = _Hand(open_cache(path), folder, names), drawn


def _draw(files: Collection[tuple[str, Sequence[View]]]) -> dict[str, str]:
    for file, views in files:
        _hand.draw(file, views, _drawn_views)
    return _hand.blind.scrub.removed
