"""When a cache cannot be read: what is wrong, said calmly, on a page that comes back by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.loaders.cache import Current, current_cache, reason
from app.serving.log import LOG
from engine.errors import CacheError
from engine.store import Cache

Arguments = ParamSpec("Arguments")
_AGAIN = 2.0
"""Seconds between two looks at a cache that could not be read."""
_FAILED = "routecal-unreadable"


def warn_of_older(current: Current) -> None:
    """In the sidebar: the numbers are those of the cache before, since the one that is there cannot be read."""
    st.sidebar.warning(
        f"You see cache {current.cache.fingerprint}, the last one that could be read. Now: {current.trouble}"
    )


def show_unreadable(error: CacheError, path: Path, cache: Cache | None) -> None:
    """In place of what a page lacks; the page is drawn again as soon as there is another cache to read.

    cache : the one that could not be read any further, or None if it could not even be opened.
    """
    told = reason(error, path)
    if cache is not None:  # a cache that does not open is logged by whoever tried to open it
        LOG.warning("a page could not be drawn from cache %s: %s", cache.fingerprint, told)
    st.warning(f"The cache cannot be read at the moment. {told}")
    st.caption("This page looks for it every few seconds and comes back by itself.")
    st.button("Try again")
    _look_again(path, cache)


@st.fragment(run_every=_AGAIN)
def _look_again(path: Path, failed: Cache | None) -> None:
    try:
        current = current_cache(path)
    except CacheError:
        return
    if not current.trouble and (failed is None or current.cache.identity != failed.identity):
        st.rerun()


def calmly(function: Callable[Arguments, None]) -> Callable[Arguments, None]:
    """For fragments that read the cache: a failure to read is the whole page's affair, not an error box."""

    @wraps(function)
    def guarded(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        try:
            function(*arguments, **named)
        except CacheError as error:
            context = get_script_run_ctx()
            if context is not None and context.fragment_ids_this_run:
                st.rerun()  # the whole page, which says what is wrong
            st.session_state[_FAILED] = error

    return guarded


def raise_failure_of_a_fragment() -> None:
    """At the end of a page: what one of its fragments could not read."""
    error = st.session_state.pop(_FAILED, None)
    if error is not None:
        raise error
