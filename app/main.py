"""The script of the dashboard; `python -m app serve` serves it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:  # Streamlit puts app/ on the path, not the project
    sys.path.insert(0, str(ROOT))

import streamlit as st  # noqa: E402

from app.registry import PAGES  # noqa: E402
from app.serving.gate import require_gate  # noqa: E402
from app.serving.log import begin_request, referring_to_log, set_up_log  # noqa: E402
from app.shell.opening import begin_opening  # noqa: E402
from app.shell.presenter import present, presenting  # noqa: E402
from app.shell.tour import guide  # noqa: E402
from app.workarounds.collector import spare_modules  # noqa: E402

st.set_page_config(page_title="RouteCal", layout="wide", initial_sidebar_state="auto")
set_up_log()
begin_request()
with referring_to_log():
    require_gate()
    sections: dict[str, list] = {}
    for entry in PAGES:
        page = st.Page(entry.script, title=entry.title, url_path=entry.address or "root", default=not entry.address)
        sections.setdefault(entry.section, []).append(page)
    # The first page is served at the root; whoever types its name gets it too, and not a notice that it is missing.
    by_name = st.Page(PAGES[0].script, title=PAGES[0].title, url_path=PAGES[0].name, visibility="hidden")
    current = st.navigation(sections | {"": [by_name]}, position="hidden" if presenting() else "sidebar", expanded=True)
    if presenting():
        present(current, [page for pages in sections.values() for page in pages])
    entry = next(entry for entry in PAGES if entry.title == current.title)
    st.set_page_config(page_title=f"{entry.title} · RouteCal")  # of the browser's tab
    guide(entry)
    begin_opening(entry)
    # Only now: what pages are made of takes seconds to load for the first viewer, who then has something to look at.
    from app.shell.page import run_page

    run_page(current.run)
spare_modules()  # those that the page has just imported too
