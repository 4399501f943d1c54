"""Every figure and table of the paper, and the view that draws it of a cache: a page with its settings.

What is drawn elsewhere than as a table beside the paper's own stands in `data/paper/words/figures.csv`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl

import pandas as pd

from engine.paper import published
from engine.paper.counterparts import COUNTERPARTS

_KINDS = {"fig": "Figure", "tab": "Table"}
BESIDE = "with"
"""The setting that is a second run: described as `like` is, where others are taken as they stand."""


@dataclass(frozen=True)
class Figure:
    """A figure or table of the paper, or a number of its appendix.

    Attributes
    ----------
    label : the paper's. number : `Figure 2`, as the paper counts, or `Appendix`. title : what it is, in our words.
    page, settings : the page that draws it, and what its address asks for. draws : the key of what is drawn there.
    like : backbone family, data set and variant of the run that the paper shows; empty where it shows many.
    """

    label: str
    number: str
    title: str
    page: str
    draws: str
    like: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def nearest_run(like: Sequence[str], cells: pd.DataFrame) -> str | None:
    """The first run of the cell most like the paper's; `cells` as `cells_with_logits` gives them."""
    if cells.empty or len(like) != 3:
        return None
    backbone, dataset, variant = like
    cell = replace(COUNTERPARTS["calibration"], like=(backbone, dataset, variant)).nearest(cells)
    return str(cells.loc[cells["cell"] == cell, "run_id"].iloc[0])


def table_title(name: str) -> str:
    """How a published table is called where one chooses among them."""
    return f"{published.TABLES[name].title} ({published.TABLES[name].label})"


def _beside(name: str) -> dict[str, str]:
    return {"tab": "Tables beside this cache", "table": table_title(name)}


def _figures() -> Iterator[Figure]:
    beside = {name: {"title": entry.title, "page": "paper", "draws": "figure-published", "like": "", "settings": ""}
              for name, entry in published.TABLES.items()}  # fmt: skip
    tables: dict[str, str] = {}
    for name, entry in published.TABLES.items():
        tables.setdefault(entry.label, name)
    elsewhere = {row["label"]: row for row in published.words("figures")}
    counts: Counter[str] = Counter()
    for label in dict.fromkeys([*(label for label in elsewhere if label not in tables), *tables]):
        row = elsewhere.get(label) or beside[tables[label]]
        settings = dict(parse_qsl(row["settings"])) if label in elsewhere else _beside(tables[label])
        kind = _KINDS.get(label.partition(":")[0])
        counts[kind or ""] += 1
        number = f"{kind} {counts[kind]}" if kind else "Appendix"
        yield Figure(label, number, row["title"], row["page"], row["draws"], tuple(row["like"].split()), settings)


FIGURES = tuple(_figures())
"""Figures in the paper's order, then tables in the paper's order; each label once."""
