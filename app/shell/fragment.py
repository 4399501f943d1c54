"""Parts of a page that are drawn again by themselves. Streamlit then runs neither the page nor app/main.py."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx

from app.serving.log import begin_request, referring_to_log
from app.workarounds.finishing import tell_every_end
from engine.core.errors import CacheError

tell_every_end()

Arguments = ParamSpec("Arguments")
_FAILED = "routecal-unreadable"


def fragment(function: Callable[Arguments, None], *, run_every: float | None = None) -> Callable[Arguments, None]:
    """`st.fragment` for this dashboard: an error leads to the log, an unreadable cache is the whole page's affair.

    run_every : seconds after which the fragment is drawn again by itself, as in `@partial(fragment, run_every=2.0)`.
    """

    @wraps(function)
    def guarded(*arguments: Arguments.args, **named: Arguments.kwargs) -> None:
        context = get_script_run_ctx()
        alone = context is not None and bool(context.fragment_ids_this_run)
        if alone:
            begin_request()
        with referring_to_log():
            try:
                function(*arguments, **named)
            except CacheError as error:
                if alone:
                    st.rerun()  # the whole page, which says what is wrong
                st.session_state[_FAILED] = error

    return st.fragment(guarded, run_every=run_every)


def raise_failure_of_a_fragment() -> None:
    """At the end of a page: what one of its fragments could not read."""
    error = st.session_state.pop(_FAILED, None)
    if error is not None:
        raise error
