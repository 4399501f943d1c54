"""Addresses of views: the query parameters that make the sidebar choose a run."""

import html
from urllib.parse import urlencode

from app.state.view import View


def run_query(view: View, run_id: str, *, presenting: bool = False) -> dict[str, str]:
    """Parameters that open any page on all samples of a run, with the cache, feature and support of the view.

    `of` is the cache's fingerprint: whoever opens the link is told if the cache has changed.

    Select boxes carry what they display, so each value here is spelled as `app.shell.sidebar` shows it.
    """
    name = view.names[run_id]
    query = {
        "of": view.cache.fingerprint,
        "cache": view.cache.path.name,
        "backbone": name.backbone,
        "data": name.dataset,
        "variant": name.variant,
        "run": name.run,
        "feature": view.feature_label,
        "support": str(view.selection.protocol.min_support),
    }
    return query | {"present": "1"} if presenting else query


def run_anchor(page: str, view: View, run_id: str, *, presenting: bool = False) -> str:
    """HTML of a link, named after the run, that opens a page on it.

    It loads the page anew: a widget that is bound to the address reads it only then, and keeps its old value when
    `st.page_link` moves to the address instead. Nothing is lost, since everything chosen lives in the address.
    """
    address = f"{page}?{urlencode(run_query(view, run_id, presenting=presenting))}"
    label = html.escape(view.names[run_id].full)
    return f'<a href="{html.escape(address)}" target="_self" style="color: inherit">{label}</a>'
