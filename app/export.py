"""A page as one self-contained HTML file: what was shown, working offline. No Streamlit in here."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from app.plots.theme import Theme

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } .verdict { font-size: 1.15rem; border-left: 4px solid #0072B2; padding-left: .8rem; }
.finding { font-weight: 600; margin-bottom: 0; }
.caption { opacity: .7; font-size: .9rem; } table { border-collapse: collapse; font-size: .9rem; }
th, td { padding: .25rem .6rem; border-bottom: 1px solid #e3e3e3; text-align: right; }
th:first-child, td:first-child { text-align: left; }
.wide { overflow-x: auto; } @media print { .wide { overflow: visible; } }
"""


@dataclass(frozen=True, eq=False)
class Item:
    """One thing that was shown: a heading, a paragraph, a figure or a table."""

    kind: str
    content: str | go.Figure | pd.DataFrame


def page_html(title: str, items: Sequence[Item], theme: Theme) -> str:
    """The items in the order in which they were shown; plotly.js is inlined once, and only if there is a figure."""
    body = []
    for index, item in enumerate(items):
        if isinstance(item.content, go.Figure):
            body.append(item.content.to_html(full_html=False, include_plotlyjs=False, div_id=f"figure-{index}"))
        elif isinstance(item.content, pd.DataFrame):
            body.append(f'<div class="wide">{item.content.to_html(index=False, border=0, na_rep="–")}</div>')
        else:
            tag = "h2" if item.kind == "heading" else "p"
            body.append(f'<{tag} class="{item.kind}">{html.escape(item.content)}</{tag}>')
    script = f"<script>{get_plotlyjs()}</script>" if any(isinstance(i.content, go.Figure) for i in items) else ""
    style = f"body {{ color: {theme.text}; background: {theme.paper}; }}{_STYLE}"
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>{script}'
    return (
        f'<!doctype html><html lang="en"><head>{head}</head>'
        f"<body><h1>{html.escape(title)}</h1>{''.join(body)}</body></html>"
    )
