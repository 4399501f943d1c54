"""Long studies of the whole cache, asked for by a part of a page and shared by all parts that need them."""

from __future__ import annotations

from collections.abc import Iterable

from app.compute.paper import source_key, source_work
from app.shell.long_work import long_work
from app.state.view import View
from engine.paper import SOURCES, Evidence


def ask(view: View, known: Evidence, sources: Iterable[str], place: str, *, start: bool) -> Evidence:
    """The evidence with these sources; up to the first that is not there yet, whose progress is then drawn."""
    found = dict(known.found)
    for name in sources:
        if name not in found:
            label = f"Compute: {SOURCES[name].label}"
            work = source_work(view, name, known.runs)
            result = long_work(f"{place}-{name}", source_key(view, name), work, label=label, start=start)
            if result is None:
                break
            found[name] = result
    return Evidence(known.runs, found)
