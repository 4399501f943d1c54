"""Addresses of views: the query parameters that make the sidebar choose a run."""

from __future__ import annotations

import html
from urllib.parse import urlencode

import pandas as pd

from app.selection import BACKBONES, DATASETS, Selection, seed_label, variant_label
from engine.features import FEATURES


def run_query(row: pd.Series, selection: Selection, *, presenting: bool = False) -> dict[str, str]:
    """Parameters that open any page on all samples of a run, with the feature and support of the selection.

    Select boxes carry what they display, so each value here is spelled as `app.components.sidebar` shows it.
    """
    feature = selection.feature
    query = {
        "backbone": BACKBONES.get(row["backbone"], row["backbone"]),
        "data": DATASETS.get(row["dataset"], row["dataset"]),
        "variant": variant_label(row["variant"], row["block_size"]),
        "run": seed_label(row),
        "feature": FEATURES[feature].label if feature in FEATURES else feature,
        "support": str(selection.protocol.min_support),
    }
    return query | {"present": "1"} if presenting else query


def run_anchor(page: str, row: pd.Series, selection: Selection, label: str, *, presenting: bool = False) -> str:
    """HTML of a link that opens a page on a run.

    It loads the page anew: a widget that is bound to the address reads it only then, and keeps its old value when
    `st.page_link` moves to the address instead. Nothing is lost, since everything chosen lives in the address.
    """
    address = f"{page}?{urlencode(run_query(row, selection, presenting=presenting))}"
    return f'<a href="{html.escape(address)}" target="_self">{html.escape(label)}</a>'
