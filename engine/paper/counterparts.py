"""Every published table, and the same quantities of a cache in the same form, or the reason why a cache has none.

A counterpart is a tidy frame `row, column, value, std, n, printed` with the paper's column names. Where the paper's
rows are methods, probes, features or bandwidths they are the same here; where they are cells or runs, they are the
cache's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from engine.core.errors import UnknownName
from engine.core.labels import MISSING, capital, counted, places
from engine.core.latex import to_latex
from engine.metrics.mechanism import spearman
from engine.paper import published
from engine.paper.sources import Evidence
from engine.paper.tables import MAKERS, ROUTED, NoCounterpart

FRAME = ["row", "column", "value", "std", "n", "printed"]


@dataclass(frozen=True, eq=False)
class Table:
    """A counterpart as it is written: tidy, with its cell where there are several, and as LaTeX."""

    name: str
    frame: pd.DataFrame
    latex: str


@dataclass(frozen=True)
class Counterpart:
    """How a table is made of a cache (`data/paper/words/counterparts.csv`; by what, `engine.paper.tables.MAKERS`).

    Attributes
    ----------
    sources : what must have been computed (`engine.paper.SOURCES`).
    by_cell : whether it is a table of one cell.
    like : backbone family, data set and variant of the paper's table, to find the nearest cell by.
    ranked : whether the best and second-best of a column are marked where the table is written.
    otherwise : what is computed otherwise than in the paper, beside other models and data.
    missing : why a cache has none.
    """

    sources: tuple[str, ...]
    by_cell: bool
    like: tuple[str, ...]
    ranked: bool
    otherwise: str
    missing: str

    def nearest(self, cells: pd.DataFrame) -> str:
        """The cell most like the paper's: same variant, then data set, then backbone. One row per cell in `cells`."""
        backbone, dataset, variant = self.like
        alike = pd.DataFrame({
            "variant": cells["variant"] == variant,
            "dataset": cells["dataset"].str.replace("-", "") == dataset,
            "backbone": cells["backbone"].str.contains(backbone, regex=False),
        })  # fmt: skip
        order = alike.sort_values(["variant", "dataset", "backbone"], ascending=False, kind="stable").index
        return str(cells.loc[order[0], "cell"])


def _described(row: Mapping[str, str]) -> Counterpart:
    like = tuple(row["cell"].split()) if " " in row["cell"] else ("", "", "")
    sources, ranked = tuple(row["sources"].split()), row["ranked"] == "yes"
    return Counterpart(sources, bool(row["cell"]), like, ranked, row["otherwise"], row["missing"])


_DESCRIBED = {row["name"]: _described(row) for row in published.words("counterparts")}
COUNTERPARTS = {name: _DESCRIBED[name] for name in published.TABLES if name in MAKERS}
WITHOUT = {name: _DESCRIBED[name].missing for name in published.TABLES if name not in MAKERS}
"""Published tables that no cache can repeat, and why."""
FURTHER = {name: item for name, item in _DESCRIBED.items() if name not in published.TABLES}
"""Tables that the paper has not, or has as a figure or a sentence; written with the others."""


def build(table: str, evidence: Evidence, cell: str = "") -> pd.DataFrame:
    """The counterpart of a published table; raises `NoCounterpart` with the reason where there is none."""
    if table not in _DESCRIBED:
        raise UnknownName("table", table, published.TABLES)
    counterpart = _DESCRIBED[table]
    given = (evidence, cell) if counterpart.by_cell else (evidence,)
    frame = pd.DataFrame(MAKERS[table](*given) if table in MAKERS else [], columns=FRAME[:-1])
    if frame.empty:
        raise NoCounterpart(counterpart.missing)
    words = pd.Series([value if isinstance(value, str) else "" for value in frame["value"]], dtype=object)
    numbers = frame[["value", "std", "n"]].apply(pd.to_numeric, errors="coerce")
    return frame.assign(printed=words, **numbers.astype({"value": float, "std": float, "n": "Int64"}))


def styles(paper: pd.DataFrame) -> dict[str, str]:
    """How the paper prints the numbers of each column: `.4f`, or `+.4f` where it writes their sign."""
    found = {}
    for column, texts in paper.loc[paper["value"].notna(), ["column", "printed"]].groupby("column")["printed"]:
        places = texts.str.partition(".")[2].str.len().max()
        found[str(column)] = f"{'+' if texts.str.startswith('+').any() else ''}.{places}f"
    return found


def printed(frame: pd.DataFrame, style: Mapping[str, str]) -> pd.DataFrame:
    """The frame with a column `text`: `0.0111 ± 0.0008`, a word, or a dash; words and published numbers as they are."""
    texts = []
    stds = frame["printed_std"] if "printed_std" in frame else [""] * len(frame)
    columns = (frame["column"], frame["value"], frame["std"], frame["printed"], stds)
    for column, value, std, word, std_text in zip(*columns, strict=True):
        pattern = style.get(column, DEFAULT_STYLE)
        text = word or (MISSING if pd.isna(value) else format(value, pattern))
        if pd.notna(std):
            text += f" ± {std_text or format(std, pattern.lstrip('+'))}"
        texts.append(text)
    return frame.assign(text=texts)


def wide(frame: pd.DataFrame, style: Mapping[str, str]) -> pd.DataFrame:
    """Rows and columns as printed in the paper, the first column being the row's name."""
    shown = printed(frame, style)
    rows, columns = list(dict.fromkeys(frame["row"])), list(dict.fromkeys(frame["column"]))
    texts = dict(zip(zip(shown["row"], shown["column"], strict=True), shown["text"], strict=True))
    table = {column: [texts.get((row, column), MISSING) for row in rows] for column in columns}
    return pd.DataFrame({"row": rows} | table)


def cells_with_logits(evidence: Evidence) -> pd.DataFrame:
    """The first run of each cell in which calibrators can be compared, routed ones first."""
    benchmarked = evidence.runs[evidence.runs["has_logits"].astype(bool)]
    order = benchmarked.assign(plain=~benchmarked["variant"].isin(ROUTED)).sort_values("plain", kind="stable")
    return order.drop_duplicates("cell").reset_index(drop=True)


_MAIN = ("swin", "cifar10", "block_ar")
DEFAULT_STYLE = ".4f"
FEWEST_ROWS = 5
_UNCALIBRATED = (published.RAW, "Raw (no calibration)")
_FAMILY = (published.KERNEL_FAMILY, tuple(published.SUPPLEMENT_NAMES.values()))
_PLACES = ("lowest", "middle", "highest")


def _values(frame: pd.DataFrame, column: str) -> pd.Series[float]:
    kept = frame[(frame["column"] == column) & frame["value"].notna() & ~frame["row"].isin(_UNCALIBRATED)]
    return kept.set_index("row")["value"].astype(float)


def _span(values: pd.Series[float]) -> str:
    digits = 0 if (values % 1 == 0).all() else 3 if values.abs().max() >= 0.1 else 4
    rows = counted(len(values), "row")
    if len(values) == 1 or values.min() == values.max():
        return f"{values.iloc[0]:.{digits}f} in {rows}"
    return f"{values.min():.{digits}f} to {values.max():.{digits}f} in {rows}"


def _place(values: pd.Series[float], family: tuple[str, ...]) -> str:
    """Where the last of a family of three stands among them; equal numbers share their place."""
    own, others = values[family[-1]], values[list(family[:-1])]
    lower, tied = int((others < own).sum()), int((others == own).sum())
    if tied == len(others):
        return "level with the rest"
    return f"tied for {'highest' if lower else 'lowest'}" if tied else _PLACES[lower]


def written_tables(evidence: Evidence) -> tuple[list[Table], dict[str, str]]:
    """Every table that a cache has, and the reasons for those it has not; by cell where calibrators are compared.

    Those that show other cells of the paper by the same columns are one here.
    """
    made, left_out = [], {}
    for name, counterpart in {**COUNTERPARTS, **FURTHER}.items():
        if name == "external_scratch" or counterpart.like not in (_MAIN, ("", "", "")):
            continue
        if not evidence.has(counterpart.sources):
            left_out[name] = "not computed"
            continue
        parts, reason = {}, "there is no run"
        for cell in dict.fromkeys(evidence.runs["cell"]) if counterpart.by_cell else [""]:
            try:
                parts[cell] = build(name, evidence, cell)
            except NoCounterpart as error:
                reason = str(error)
        if parts:
            made.append(_written(name, counterpart, parts))
        else:
            left_out[name] = reason
    return made, left_out


def _written(name: str, counterpart: Counterpart, parts: Mapping[str, pd.DataFrame]) -> Table:
    """The parts of a table, by cell, one below the other."""
    style = styles(published.load(name)) if name in published.TABLES else {}
    shown, placed = [], []
    for cell, frame in parts.items():
        table = wide(frame, style)
        if counterpart.ranked:
            placed.append(_places(frame, style).reindex(index=table["row"], columns=table.columns).fillna(0))
        if counterpart.by_cell:
            title = f"{cell}; {counted(int(frame['n'].max()), 'seed')}"
            table = table.assign(cell=[title, *[""] * (len(table) - 1)])
        shown.append(table)
    columns = ["cell", "row"] if counterpart.by_cell else ["row"]
    whole = pd.concat(shown, ignore_index=True).fillna(MISSING)
    whole = whole[[*columns, *(column for column in whole if column not in columns)]]
    marks = pd.concat(placed).fillna(0).astype(int) if placed else pd.DataFrame()
    caption = counterpart.otherwise + ("; bold is the best mean, underlined the second" if counterpart.ranked else "")
    label = published.TABLES[name].label if name in published.TABLES else f"tab:{name}"
    latex = to_latex(
        whole.rename(columns={"cell": "Cell", "row": "Row"}),
        caption=f"{capital(caption)}.",
        label=label,
        places={str(column): marks[column].tolist() for column in marks},
    )
    tidy = pd.concat([frame.assign(cell=cell) for cell, frame in parts.items()], ignore_index=True)
    return Table(name, tidy[["cell", *FRAME]] if counterpart.by_cell else tidy[FRAME], latex)


def _places(frame: pd.DataFrame, style: Mapping[str, str]) -> pd.DataFrame:
    """(rows, columns) 1 for the least value of a column as printed, 2 for the next; the uncalibrated row left out."""
    ranked = frame[~frame["column"].str.contains("Acc|Gain") & ~frame["row"].isin(_UNCALIBRATED)]
    values = ranked.pivot_table(index="row", columns="column", values="value")
    for column in values:
        digits = int(style.get(str(column), DEFAULT_STYLE)[-2])
        values[column] = places(values[column].tolist(), digits)
    return values


def compare(paper: pd.DataFrame, cache: pd.DataFrame, column: str, own_column: str | None = None) -> str:
    """One sentence about a column of both: the order of common rows, AR-CondCal among its controls, or the ranges.

    own_column : the cache's column, where it is called otherwise. The uncalibrated row is left out. An order is
    compared by Spearman's correlation over at least five common rows.
    """
    published, own = _values(paper, column), _values(cache, own_column or column)
    if own.empty:
        return f"{column} is not available from this cache"
    if published.empty:
        return f"{column}: {_span(own)} here"
    common = [row for row in published.index if row in own.index]
    parts = []
    order = spearman(published[common], own[common]) if len(common) >= FEWEST_ROWS else None
    if order is not None:
        interval = f" (95 % interval {order.low:+.2f} to {order.high:+.2f})" if order.low is not None else ""
        parts.append(
            f"order of the {len(common)} common rows by {column}: rank correlation {order.value:+.2f}{interval}"
        )
    for family in _FAMILY:
        if set(family) <= set(common):
            parts.append(
                f"AR-CondCal is {_place(published, family)} of its kernel family in the paper and "
                f"{_place(own, family)} here"
            )
    if not parts:
        return f"{column}: {_span(published)} in the paper, {_span(own)} here"
    return capital("; ".join(parts))
