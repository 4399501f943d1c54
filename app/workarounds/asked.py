"""Streamlit drops what an address asks of a bound widget that the widget does not offer, and tells nobody.

What the widget offers, or for numbers what it shows, tells whether anything was dropped: a default is dropped too.
"""

from collections.abc import Sequence

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx


def is_refused(key: str, asked: Sequence[str]) -> bool:
    """Whether a widget that is drawn does not show what the address asked it to."""
    context = get_script_run_ctx()
    if context is None:
        return False
    state = context.session_state._state
    metadata = state._new_widget_state.widget_metadata.get(state._key_id_mapper.get_id_from_key(key))
    options = getattr(metadata, "formatted_options", None)
    if options is not None:
        return not set(asked) <= set(options)
    shown = st.session_state[key]
    if isinstance(shown, bool):
        return asked[-1].lower() != str(shown).lower()
    numbers = shown if isinstance(shown, tuple) else (shown,)
    if metadata is None or "string" in str(metadata.value_type):  # a slider of words keeps its list to itself
        return False
    try:
        return [float(each) for each in asked] != list(numbers)
    except ValueError:
        return True
