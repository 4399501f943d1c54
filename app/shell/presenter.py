"""Presenter mode (?present=1): large type, no sidebar, next and previous page by keyboard."""

from collections.abc import Iterator, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.navigation.page import StreamlitPage

_STYLE = """<style>
[data-testid="stSidebar"], [data-testid="stSidebarCollapsedControl"], [data-testid="stHeader"] { display: none; }
html { font-size: 125%; }
[data-testid="stMainBlockContainer"] { max-width: 100%; padding-top: 0.4rem; padding-bottom: 0; }
[data-testid="stMainBlockContainer"] > div > :has(.st-key-brand, .st-key-how, .st-key-foot) { display: none; }
.st-key-settings { display: none; }
[data-testid="stMain"] [role="radiogroup"] { flex-direction: row; column-gap: 1.5rem; }
[data-testid="stMain"] [data-testid="stVerticalBlock"] { gap: 0.5rem; }
</style>"""


def presenting() -> bool:
    """Whether the page was opened with ?present=1."""
    return st.query_params.get("present") == "1"


_PICKER = "routecal-picker"
_KEYS = (
    "`ctrl` + `←` `→` previous and next page  \n`ctrl` + `↑` `↓` previous and next screen of a page  \n"
    "`tab` to the next control, arrow keys move it  \n"
    "`page up`, `page down` in the Probe audit: a control less or more"
)


_SCREEN, _BAR = "screen", "routecal-screens"
_MAIN = "Main figure"


def screens(labels: Sequence[str]) -> Iterator[DeltaGenerator]:
    """The parts of a page one at a time: the main figure, then each of these, by the keys or by their names.

    All are drawn, so that nothing waits; what is not shown is hidden by style, as what stands above is drawn already.
    """
    names = [_MAIN, *labels]
    places = [st.container(key=f"screen-{number}") for number in range(1, len(names))]
    with st.session_state[_BAR]:
        chosen = st.segmented_control(
            "Screen", names, default=_MAIN, key=_SCREEN, bind="query-params", required=True,
            label_visibility="collapsed",
        )  # fmt: skip
        position = names.index(chosen) if chosen in names else 0
        for label, move, key in (("↑", -1, "ctrl+up"), ("↓", 1, "ctrl+down")):
            st.button(
                label, key=f"screen-{key}", shortcut=key, disabled=not 0 <= position + move < len(names),
                on_click=_turn_to, args=(names[max(0, min(position + move, len(names) - 1))],),
            )  # fmt: skip
    others = ", ".join(f".st-key-screen-{number}" for number in range(1, len(names)) if number != position)
    above = '[data-testid="stMainBlockContainer"] > div > :not(:has([class*="st-key-screen"], .st-key-bar, h1))'
    st.html(f"<style>{others}{f', {above}' if position else ''} {{ display: none; }}</style>")
    yield from places


def _turn_to(name: str) -> None:
    st.session_state[_SCREEN] = name


def controls_and_figure() -> tuple[DeltaGenerator, DeltaGenerator]:
    """The places for a figure's controls and for the figure: at its left, or under it for a room."""
    if not presenting():
        left, right = st.columns([1, 3])
        return left, right
    figure = st.container()
    return st.container(horizontal=True, vertical_alignment="bottom"), figure


def picker() -> DeltaGenerator:
    """Where the run, feature and settings are chosen: the sidebar, or the bar of a presenter."""
    return st.session_state[_PICKER] if presenting() else st.sidebar


def present(current: StreamlitPage, pages: Sequence[StreamlitPage]) -> None:
    """Hide what a room does not need and add the two buttons; ctrl + left / right press them."""
    st.html(_STYLE)
    # The first page has a second address, which is not in the list.
    position = next((index for index, page in enumerate(pages) if page.url_path == current.url_path), 0)
    with st.container(horizontal=True, vertical_alignment="center", key="bar"):
        back = st.button("Previous", shortcut="ctrl+left", disabled=position == 0)
        onward = st.button("Next", shortcut="ctrl+right", disabled=position == len(pages) - 1)
        st.caption(f"{position + 1} of {len(pages)}: {pages[position].title}", width="content")
        st.session_state[_BAR] = st.container(key="screens", horizontal=True, width="content")
        st.session_state[_PICKER] = st.popover("Run and feature")
        with st.popover("?"):
            st.markdown(_KEYS)
    if back or onward:
        st.switch_page(pages[position + (1 if onward else -1)], query_params={"present": "1"})
