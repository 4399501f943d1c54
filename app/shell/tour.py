"""For whoever has not read the paper: a card with the question, and a tour of five stops through real pages.

`?tour=N` in an address is the stop, so that a reload stays there. Imports nothing heavy.
"""

import base64
from dataclasses import dataclass

import streamlit as st

from app.registry import PageEntry, page_for

_CLOSED = "welcome"


@dataclass(frozen=True)
class Stop:
    """A page, what is to be seen there, and the one thing to do."""

    page: str
    see: str
    do: str


STOPS = (
    Stop(
        "overview",
        "Each tile is a trained model. Its p-value answers one question: among samples with the same confidence, does "
        "accuracy depend on routing? A small p-value in one tile of many is expected by chance.",
        "Choose “accuracy” above the tiles, then “p-values” again.",
    ),
    Stop(
        "gap",
        "One model in detail: accuracy minus what confidence predicts, from samples with low to high routing entropy. "
        "The grey band is where points lie if routing says nothing more.",
        "Choose “given the whole output” at the left, if it is offered, and see whether the band is left.",
    ),
    Stop(
        "controls",
        "“No evidence” means little if the test could not have found anything. Here effects of known size are planted.",
        "Move “Planted gap” below the figures and watch the p-values beside it.",
    ),
    Stop(
        "probes",
        "A network that sees routing predicts errors better than a line on confidence. Part of that may come from its "
        "size alone.",
        "Switch on “Show step by step” and add the controls one by one.",
    ),
    Stop(
        "yourdata",
        "The same tests take any score: a file with confidence, correctness and your score for each sample.",
        "Upload such a file, or close the tour and choose another run in the sidebar.",
    ),
)
_CLAIM = (
    "<strong>New here?</strong> An Attention-Residual transformer chooses for every sample how much to read from which "
    "earlier layer: its <em>routing</em>.<br>Does routing tell when the model's confidence can be trusted? The paper "
    "finds no evidence that it does beyond confidence itself.<br>RouteCal repeats the comparison on trained models, on "
    "every choice you make, and on your own data."
)
_DRAWING = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 420 92" font-family="sans-serif" font-size="17">
<g stroke="#8C8C8C" stroke-width="14" stroke-linecap="round">
<path d="M30 30v0m22 0v0m22 0v0m22 0v0M41 50v0m22 0v0m22 0v0"/>
<path d="M118 40h22m-6-5l6 5-6 5M266 40h22m-6-5l6 5-6 5" stroke-width="2" fill="none"/></g>
<g stroke="#0072B2" stroke-width="14" stroke-linecap="round"><path d="M168 30v0m0 20v0m20-10v0"/></g>
<path d="M318 20h24v44h-24z" fill="#0072B2"/><path d="M358 26h24v38h-24z" fill="#D55E00"/>
<path d="M226 22l8 8-8 8-8-8zm0 20l8 8-8 8-8-8zm20-10l8 8-8 8-8-8z" fill="#D55E00"/>
<g fill="#8C8C8C" text-anchor="middle"><text x="63" y="86">same confidence</text>
<text x="203" y="86">split by routing</text><text x="350" y="86">compare accuracy</text></g></svg>"""
_IMAGE = f"data:image/svg+xml;base64,{base64.b64encode(_DRAWING.encode()).decode()}"


def welcome() -> None:
    """The card; once closed it stays closed, after a reload too."""
    if st.query_params.get(_CLOSED) == "0" or st.session_state.get(_CLOSED) or stop_of_address() is not None:
        return
    with st.container(border=True, key="welcome"):
        left, right = st.columns([6, 1], vertical_alignment="center")
        left.html(
            '<div style="display:flex;flex-wrap:wrap;gap:0.5rem 1rem;align-items:center">'
            f'<img src="{_IMAGE}" width="330" alt="Samples of one confidence, split by routing, compared in accuracy">'
            f'<p style="margin:0;flex:1 1 20rem;font-size:0.9rem;line-height:1.4">{_CLAIM}</p></div>'
        )
        with right.container(gap="xsmall"):
            if st.button("Take the tour", key="tour-start", type="primary", width="stretch"):
                _go(1)
            st.button("Close", key="welcome-close", on_click=_close, width="stretch")


def _close() -> None:
    st.session_state[_CLOSED] = True
    st.query_params[_CLOSED] = "0"


def stop_of_address() -> int | None:
    """The number of the stop, from 1, that the address asks for."""
    asked = st.query_params.get("tour", "")
    return int(asked) if asked in [str(number) for number in range(1, len(STOPS) + 1)] else None


def _go(number: int) -> None:
    st.switch_page(page_for(STOPS[number - 1].page).script, query_params={"tour": str(number)})


def guide(entry: PageEntry) -> None:
    """The bar of the tour above the page; ctrl + arrow keys move on and back."""
    number = stop_of_address()
    if number is None:
        return
    stop = STOPS[number - 1]
    here = stop.page == entry.name
    said = f"{stop.see} **Do:** {stop.do}" if here else "You have left its page; nothing is lost."
    with st.container(border=True, key="tour", horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**Tour, {number} of {len(STOPS)}.** {said}")
        with st.container(horizontal=True, width="content", gap="xsmall"):
            if not here and st.button("Return", key="tour-return"):
                _go(number)
            if st.button("Back", key="tour-back", shortcut="ctrl+left", disabled=number == 1):
                _go(number - 1)
            if number < len(STOPS) and st.button("Next", key="tour-next", shortcut="ctrl+right", type="primary"):
                _go(number + 1)
            if st.button("End", key="tour-end"):
                del st.query_params["tour"]
                st.rerun()
