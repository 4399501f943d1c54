"""The dashboard's entry: `streamlit run app/main.py`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # Streamlit puts app/ on the path, not the project
    sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402

from app.registry import PAGES  # noqa: E402

st.set_page_config(page_title="RouteCal", layout="wide")
st.navigation([st.Page(ROOT / page.script, title=page.title, url_path=page.url) for page in PAGES]).run()
