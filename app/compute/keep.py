"""What is computed once and kept: for all viewers, except what comes from a viewer's own data.

That is kept in the viewer's session and goes with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import streamlit as st

from app.compute.own_data import is_own
from app.state.selection import Selection

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
_OF_ONE_VIEWER = 32


def keep(
    *, max_entries: int, show_spinner: bool | str = False
) -> Callable[[Callable[Arguments, Result]], Callable[Arguments, Result]]:
    """`st.cache_resource` for functions whose first argument is a selection or a cache's fingerprint."""

    def decorate(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
        for_all = st.cache_resource(max_entries=max_entries, show_spinner=show_spinner)(function)
        for_one = st.cache_resource(
            max_entries=min(max_entries, _OF_ONE_VIEWER), show_spinner=show_spinner, scope="session"
        )(function)

        @wraps(function)
        def call(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            first, *others = arguments
            key = first.alone if isinstance(first, Selection) else first
            fingerprint = key.fingerprint if isinstance(key, Selection) else str(key)
            return (for_one if is_own(fingerprint) else for_all)(key, *others, **named)

        return call

    return decorate
