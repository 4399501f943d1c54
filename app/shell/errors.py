"""When a cache cannot be read: what is wrong, said calmly, on a page that comes back by itself."""

from functools import partial
from pathlib import Path

import streamlit as st

from app.compute.cache import Current, current_cache, reason
from app.serving.log import LOG
from app.shell.fragment import fragment
from app.shell.wording import plain
from engine.core.errors import CacheError
from engine.store import Cache

_AGAIN = 2.0
"""Seconds between two looks at a cache that could not be read."""


def warn_of_older(current: Current) -> None:
    """In the sidebar: the numbers are those of the cache before, since the one that is there cannot be read."""
    shown = f"Showing cache {current.cache.fingerprint}, the last readable version. Current problem: {current.trouble}"
    st.sidebar.warning(plain(shown))


def show_unreadable(error: CacheError, path: Path, cache: Cache | None) -> None:
    """In place of what a page lacks; the page is drawn again as soon as there is another cache to read.

    cache : the one that could not be read any further, or None if it could not even be opened.
    """
    told = reason(error, path)
    if cache is not None:  # a cache that does not open is logged by whoever tried to open it
        LOG.warning("a page could not be drawn from cache %s: %s", cache.fingerprint, told)
    st.warning(plain(f"The cache cannot be read at the moment. {told}"))
    st.caption("This page checks every few seconds and reloads when the cache is readable.")
    st.button("Try again")
    _look_again(path, cache)


@partial(fragment, run_every=_AGAIN)
def _look_again(path: Path, failed: Cache | None) -> None:
    try:
        current = current_cache(path)
    except CacheError:
        return
    if not current.trouble and (failed is None or current.cache.identity != failed.identity):
        st.rerun()
