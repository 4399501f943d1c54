"""Who may come in. Open by default; a shared password or the word of a reverse proxy close it.

ROUTECAL_PASSWORD : viewers type this password once per session.
ROUTECAL_USER_HEADER : the name of a header, such as X-Forwarded-User, that a reverse proxy sets for those it has let
    in. Requests without it are turned away. Only sound when nothing but the proxy can reach the server.
"""

import hmac
import os
import time

import streamlit as st

from app.serving.log import LOG

PASSWORD, USER_HEADER = "ROUTECAL_PASSWORD", "ROUTECAL_USER_HEADER"
_ENTERED = "routecal-entered"
_PAUSE = 1.0
"""Seconds that a wrong password costs."""


def require_entry() -> None:
    """Return for a viewer who may come in; for anybody else show the door and end the script."""
    header = os.environ.get(USER_HEADER)
    if header and not st.context.headers.get(header):
        LOG.warning("turned away: no %s header", header)
        st.error("This server is reached through its sign-in page. Ask whoever runs it for the address.")
        st.stop()
    password = os.environ.get(PASSWORD)
    if password and not st.session_state.get(_ENTERED):
        _ask(password)


def _ask(password: str) -> None:
    st.title("RouteCal")
    with st.form("entry"):
        typed = st.text_input("Password", type="password")
        sent = st.form_submit_button("Enter")
    if sent and hmac.compare_digest(typed.encode(), password.encode()):
        st.session_state[_ENTERED] = True
        st.rerun()
    if sent:
        LOG.warning("wrong password")
        time.sleep(_PAUSE)
        st.error("That is not the password.")
    st.stop()
