"""The script that draws one page for a site; `app.site.record` says which."""

import streamlit as st

from app.shell.page import show_by_itself
from app.site.record import ASKED

show_by_itself(*st.session_state[ASKED])
