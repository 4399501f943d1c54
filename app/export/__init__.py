"""Pages and reports as one self-contained HTML file for screen and paper, light and dark. No Streamlit in here."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import plotly.graph_objects as go
from pandas.api.types import is_bool_dtype, is_numeric_dtype
from plotly.offline import get_plotlyjs

from app.plots.theme import Theme
from engine.core.labels import print_value

_HERE = Path(__file__).parent
# The file may draw with what is in it and nothing else: no request can leave a reader's machine.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
_TAGS = {"section": "h2", "heading": "h2", "subheading": "h3"}
_FORMULA = re.compile(r"[=+@\t\r\n]|-(?![\d.]+(e[+-]?\d+)?$)")
"""How a cell starts that a spreadsheet would compute; a negative number is none."""


@dataclass(frozen=True, eq=False)
class Item:
    """One thing that is shown: text of some kind, facts by name, a figure, a table, or several items side by side.

    finding : what a figure shows, in words above it; alt : what it is a figure of.
    formats : how the numbers of a table's columns are printed, as `st.column_config.NumberColumn` takes it.
    A `section` is a heading that begins a new page on paper. A `markup` item is HTML of our own making; every other
    text is escaped.
    """

    kind: str
    content: str | go.Figure | pd.DataFrame | Mapping[str, str] | Sequence[Item]
    finding: str = ""
    alt: str = ""
    formats: Mapping[str, str] = field(default_factory=dict)


def page_html(title: str, items: Sequence[Item], *, contents: bool = False) -> str:
    """The items in order; plotly.js is inlined once, and only if there is a figure.

    contents : list the headings, with links to them, after what stands before the first one.
    """
    writer = _Writer()
    opening = next((i for i, item in enumerate(items) if _TAGS.get(item.kind) == "h2"), len(items))
    parts = [writer.write(item) for item in items]
    if contents:
        parts.insert(opening, writer.contents())
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{html.escape(title)}</title><style>{_palette_css()}{_read('style.css')}</style>"
    )
    body = f"<main><h1>{html.escape(title)}</h1>{''.join(parts)}</main>{writer.scripts()}"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _read(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _palette_css() -> str:
    """The theme's colours as variables: light, dark where the reader's system is, and light again on paper."""
    names = ("text", "muted", "grid", "paper")
    light, dark = (
        ":root{" + "".join(f"--{name}:{getattr(theme, name)};" for name in names) + "}"
        for theme in (Theme(), Theme(dark=True))
    )
    return f"{light}@media screen and (prefers-color-scheme: dark){{{dark}}}"


class _Writer:
    """Turns items into HTML, collecting headings and figures on the way."""

    def __init__(self) -> None:
        self._headings: list[str] = []
        self._figures: list[dict[str, object]] = []

    def write(self, item: Item) -> str:
        content = item.content
        if isinstance(content, go.Figure):
            return self._figure(content, item)
        if isinstance(content, pd.DataFrame):
            return f'<div class="wide"><table>{"".join(_rows(content, item.formats))}</table></div>'
        if isinstance(content, Mapping):
            pairs = (f"<dt>{html.escape(name)}</dt><dd>{html.escape(value)}</dd>" for name, value in content.items())
            return f'<dl class="{item.kind}">{"".join(pairs)}</dl>'
        if not isinstance(content, str):
            return f'<div class="{item.kind}">{"".join(self.write(part) for part in content)}</div>'
        if item.kind == "markup":
            return content
        if item.kind == "code":
            return f"<pre><code>{html.escape(content)}</code></pre>"
        tag, anchor = _TAGS.get(item.kind, "p"), ""
        if tag == "h2":
            self._headings.append(content)
            anchor = f' id="section-{len(self._headings)}"'
        return f'<{tag} class="{item.kind}"{anchor}>{html.escape(content)}</{tag}>'

    def contents(self) -> str:
        links = (
            f'<li><a href="#section-{number}">{html.escape(text)}</a></li>'
            for number, text in enumerate(self._headings, start=1)
        )
        return f'<nav aria-label="Contents"><ol>{"".join(links)}</ol></nav>'

    def _figure(self, figure: go.Figure, item: Item) -> str:
        spec = json.loads(figure.to_json())
        self._figures.append(spec)
        height = spec["layout"].get("height", 440)
        caption = f"<figcaption>{html.escape(item.finding)}</figcaption>" if item.finding else ""
        return (
            f'<figure>{caption}<div class="plot" role="img" aria-label="{html.escape(item.alt or item.finding)}" '
            f'data-figure="{len(self._figures) - 1}" style="min-height:{height}px"></div></figure>'
        )

    def scripts(self) -> str:
        """The figures as data, plotly.js and the script that draws them; nothing without figures."""
        if not self._figures:
            return ""
        data = {"figures": self._figures, "light": Theme().colours, "dark": Theme(dark=True).colours}
        text = json.dumps(data, separators=(",", ":"))
        for symbol in "<>&":  # nothing in a name can end the script that holds it
            text = text.replace(symbol, f"\\u{ord(symbol):04x}")
        return (
            "<noscript><p>The figures need JavaScript; the text and the tables do not.</p></noscript>"
            f'<script type="application/json" id="figures">{text}</script>'
            f"<script>{get_plotlyjs()}</script><script>{_read('figures.js')}</script>"
        )


def _rows(frame: pd.DataFrame, formats: Mapping[str, str]) -> Iterator[str]:
    """Head and body of a table; columns of numbers are set right."""
    classes = [
        ' class="number"' if is_numeric_dtype(frame[name]) and not is_bool_dtype(frame[name]) else "" for name in frame
    ]
    heads = (f"<th{kind}>{html.escape(str(name))}</th>" for name, kind in zip(frame, classes, strict=True))
    yield f"<thead><tr>{''.join(heads)}</tr></thead><tbody>"
    for row in frame.itertuples(index=False, name=None):
        cells = (
            f"<td{kind}>{html.escape(print_value(value, formats.get(str(name), '')))}</td>"
            for value, name, kind in zip(row, frame, classes, strict=True)
        )
        yield f"<tr>{''.join(cells)}</tr>"
    yield "</tbody>"


def to_csv(frame: pd.DataFrame) -> str:
    """The table as CSV. Text may come from files and queries, so none of it reaches a spreadsheet as a formula."""
    safe = frame.map(_inert).rename(columns=_inert)
    return str(safe.to_csv(index=False))


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
