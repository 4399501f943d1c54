"""The head of every page and the way things are shown on it, so that all of it can be downloaded.

What a page is made of has stable keys; an element or container with the key K has the CSS class `st-key-K`:

    brand                   the product and the paper
    question                the title
    opening                 the bar of a viewer's first page
    verdict                 the answer under the title, with its state and the sentence
    settings                the settings in force, under the verdict
    chips                   in there: departures from the defaults, chip-KEY each, and chip-reset
    rounding                the warning that confidence was rounded, under the settings
    lost                    what a link asked for that is not there
    figure-NAME             a figure, as `Page.figure` names it
    table-NAME              a table, with its buttons csv-NAME and latex-NAME
    progress-NAME           the place of long work, or of what a page waits for: its bar, or one of its two buttons
    start-NAME, stop-NAME   the buttons of long work
    how                     "How this is computed"
    download-page           the page as a file
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlencode

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.compute.cache import Current, available_caches, current_cache, names_of, runs
from app.compute.own_data import OWN, is_own, own
from app.export import Item, page_html, to_csv
from app.plots.theme import Theme
from app.registry import page_for
from app.shell import sidebar
from app.shell.errors import show_unreadable, warn_of_older
from app.shell.fragment import raise_failure_of_a_fragment
from app.shell.headline import Headline
from app.shell.opening import end_opening, link_place
from app.shell.presenter import presenting
from app.shell.report_button import offer_run_report
from app.shell.wording import plain, typeset
from app.state.links import run_anchor, run_query
from app.state.selection import Selection
from app.state.view import BenchmarkView, CacheView, View
from engine.core.errors import CacheError
from engine.core.labels import MISSING, print_value
from engine.core.latex import to_latex
from engine.core.rounding import find_rounding
from engine.store import Cache

_CHOSEN = "routecal-chosen"
_WRAPPED = 68  # pixels of a row of three lines
_ROWS_SHOWN_WHOLE = 16  # of a table; a longer one scrolls


def current_theme() -> Theme:
    """Light or dark as the viewer has it, large in presenter mode."""
    return Theme(dark=st.context.theme.type == "dark", large=presenting())


@dataclass(eq=False)
class Page:
    """A page being drawn. It remembers what it shows, in order."""

    name: str
    view: View
    theme: Theme
    shown: dict[str, Item] = field(default_factory=dict)

    def _show(self, kind: str, content: str | go.Figure | pd.DataFrame, key: str | None = None, **more: Any) -> None:
        """Remember what is shown; a fragment that draws a figure again replaces the old one."""
        self.shown[key or f"{kind}-{len(self.shown)}"] = Item(kind, content, **more)

    def note(self, text: str) -> None:
        """Something shown by other means than this class, for the exported page."""
        self._show("text", text)

    def verdict(self, headline: Headline, sentence: str, *, tested: bool = True) -> None:
        """The answer and the sentence under it, the settings, and what spoils the tests that it rests on."""
        self._show("verdict", f"{headline.text}. {sentence}")
        with st.container(key="verdict"):
            st.html(headline.drawn(sentence))
        with st.container(key="settings"):
            self.caption(self.view.caption())
            sidebar.show_chips(self.view.selection, self.view.heeds)
        if tested and type(self.view) is View:
            self._warn_of_rounding()

    def _warn_of_rounding(self) -> None:
        """A bar where the run's confidence has too few digits for its tests."""
        rounding = find_rounding(self.view.run.confidence)
        if rounding is not None:
            self._show("text", rounding.sentence, "rounding")
            with st.container(key="rounding"):
                st.warning(plain(rounding.sentence), icon=":material/warning:")

    def end(self, sentence: str) -> NoReturn:
        """Say in the verdict's place why there is nothing to show, and end the page here."""
        self.verdict(
            Headline("cannot_tell", "Cannot tell: this run lacks what this page needs"), sentence, tested=False
        )
        self.finish()
        st.stop()

    def require_feature(self) -> None:
        """End the page if the run lacks the feature that it asks about."""
        if not self.view.has_feature:
            self.end(f"This question cannot be answered for this run: {self.view.missing}.")

    def refuse_slice(self) -> None:
        """Say in the verdict's place why nothing is tested on a slice by outcome, and offer the nearest that can be."""
        headline = Headline("cannot_tell", "Cannot tell: this slice was chosen by its outcome")
        self.verdict(headline, self.view.refusal, tested=False)
        instead = self.view.testable_slice
        label = f"Use {instead.describe() or 'all samples'}"
        st.button(label, key="testable-slice", on_click=sidebar.set_slice, args=(instead,))

    def heading(self, text: str) -> None:
        self._show("heading", text)
        st.markdown(f"### {plain(text)}")

    def tabs(self, *labels: str) -> Iterator[DeltaGenerator]:
        """A tab for each part of the page, drawn in order: `with next(tabs):`. In files its label is a heading."""
        for label, tab in zip(labels, st.tabs(labels), strict=True):
            self._show("heading", label)
            yield tab

    def text(self, text: str, key: str | None = None) -> None:
        """A paragraph; a fragment gives it a key, so that drawing it again replaces it."""
        self._show("text", text, key and f"text-{key}")
        st.markdown(plain(text))

    def caption(self, text: str, key: str | None = None) -> None:
        """A remark; with a key as `text` takes it."""
        self._show("caption", text, key and f"caption-{key}")
        st.caption(plain(text))

    def figure(self, fig: go.Figure, key: str, *, alt: str) -> None:
        """A figure at full width, its finding as text above it (text wraps); its camera button saves it as SVG."""
        title = fig.layout.title.text
        if title:
            st.markdown(f"**{plain(title)}**")
            fig.update_layout(title=None, margin={"t": 16})
        self._show("figure", fig, f"figure-{key}", finding=title or "", alt=alt)
        config = {
            "displaylogo": False,
            "toImageButtonOptions": {"format": "svg", "filename": f"routecal-{self.name}-{key}"},
            "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"],
        }
        st.plotly_chart(fig, width="stretch", theme=None, key=f"figure-{key}", config=config, alt=alt)

    def table(
        self,
        frame: pd.DataFrame,
        key: str,
        *,
        names: Mapping[str, str],
        formats: Mapping[str, str] | None = None,
        widths: Mapping[str, int] | None = None,
        places: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        """A table with the columns in `names`, in that order and under those names, to read, as CSV and as LaTeX.

        widths : of columns of long text, in pixels; rows are then high enough for such text to wrap.
        places : of some columns, which rows come first (1) and second (2); their cells are shaded.
        """
        shown = frame[list(names)].rename(columns=dict(names))
        patterns = {names[name]: pattern for name, pattern in (formats or {}).items()}
        self._show("table", shown, f"table-{key}", formats=patterns)
        columns = {names[name]: st.column_config.TextColumn(width=width) for name, width in (widths or {}).items()}
        marks = {names[name]: [self.theme.place(place) for place in placed] for name, placed in (places or {}).items()}
        # Formatted here: numbers sort as numbers, and a table prints them as sentences do.
        styled = shown.style.format({name: partial(_cell, patterns.get(name, "")) for name in shown})
        if marks:
            styled = styled.apply(lambda column: marks.get(column.name, [""] * len(column)))
        with st.container(key=f"table-{key}"):  # a table itself gets no class from its key
            st.dataframe(
                styled,
                hide_index=True,
                width="stretch",
                height="content" if len(shown) <= _ROWS_SHOWN_WHOLE else "auto",
                column_config=columns,
                row_height=_WRAPPED if widths else None,
                key=f"rows-{key}",
                placeholder=MISSING,
            )
            left, right, _ = st.columns([1, 1, 6])
            stem = f"routecal-{self.name}-{key}"
            left.download_button(
                "CSV", lambda: to_csv(shown), f"{stem}.csv", "text/csv", key=f"csv-{key}", on_click="ignore"
            )
            right.download_button(
                "LaTeX",
                lambda: to_latex(
                    shown,
                    caption=f"{page_for(self.name).title}: {self.view.caption()}.",
                    label=f"tab:{stem}",
                    formats=patterns,
                    places={names[name]: placed for name, placed in (places or {}).items()},
                ),
                f"{stem}.tex",
                "text/x-tex",
                key=f"latex-{key}",
                on_click="ignore",
            )

    def sentences(self, frame: pd.DataFrame, *, names: Mapping[str, str]) -> None:
        """A short table of words, which wrap here where `table` would cut them."""
        shown = frame[list(names)].rename(columns=dict(names))
        self._show("table", shown)
        st.table(shown.map(plain).set_index(shown.columns[0]))

    def run_link(self, name: str, run_id: str) -> None:
        """A link that opens a page on a run. One's own data would not survive the loading anew that others need."""
        label = self.view.names[run_id].full
        self.note(label)
        if is_own(self.view.kept_by):
            st.page_link(page_for(name).script, label=plain(label))
        else:
            st.html(run_anchor(name, self.view, run_id, presenting=presenting()))

    def how(self, explanation: str) -> None:
        """ "How this is computed", folded away; Markdown with formulas."""
        with st.container(key="how"), st.expander("How this is computed"):
            st.markdown(explanation)

    def finish(self) -> None:
        """The link to this view, the page as a file, and a report on the run to send."""
        # What draws code is a third as large as what draws figures, and holds those up; the browser gets it when asked.
        with link_place(), st.popover("Link to this view"):
            if is_own(self.view.kept_by):
                st.caption("Your own data cannot be linked: nobody else can open it.")
            else:
                st.code(_link(self.view), language=None, wrap_lines=True)
        st.divider()
        title = page_for(self.name).question
        with st.container(horizontal=True):
            st.download_button(
                "Download page",
                lambda: page_html(title, list(self.shown.values())),
                f"routecal-{self.name}.html",
                "text/html",
                on_click="ignore",
                key="download-page",
            )
            if not isinstance(self.view, CacheView):
                offer_run_report(self.view)


def _cell(pattern: str, value: object) -> str:
    return typeset(print_value(value, pattern))


def _link(view: View) -> str:
    """The address of this view: everything chosen on it, the run, feature and cache even where they are the default."""
    whole = {name: [value] for name, value in run_query(view, view.selection.run_id).items()}
    chosen = {name: st.query_params.get_all(name) for name in st.query_params}
    address = (st.context.url or "").partition("?")[0]
    return f"{address}?{urlencode({**whole, **chosen, 'of': whole['of']}, doseq=True)}"


@dataclass(frozen=True, eq=False)
class _Chosen:
    """What the sidebar says, or why there is nothing to choose from."""

    path: Path
    cache: Cache | None = None
    runs: pd.DataFrame | None = None
    selection: Selection | None = None
    error: CacheError | None = None


def draw_sidebar() -> None:
    """Open the cache and draw the sidebar, before the page itself runs.

    Not inside the page: widgets bound to the address lose their values on a page switch unless every page shares them.
    """
    paths, mine = {path.name: path for path in available_caches()}, own().cache
    if mine is None and st.query_params.get("cache") == OWN:
        st.sidebar.info(
            "Your data was removed: this happens when its window is closed, reloaded or offline. Upload it again."
        )
    sidebar.begin_to_look()
    chosen = sidebar.choose_cache([*paths, OWN] if mine is not None else list(paths))
    path = mine.path if mine is not None and chosen == OWN else paths[chosen]
    try:
        current = Current(mine) if mine is not None and chosen == OWN else current_cache(path)
        cache, table = current.cache, runs(current.cache)
    except CacheError as error:
        st.session_state[_CHOSEN] = _Chosen(path, error=error)
        return
    if current.trouble:
        warn_of_older(current)
    selection = None if table.empty else sidebar.choose(table, names_of(cache, table), cache.kept_by)
    sidebar.end_looking(cache.fingerprint)
    st.session_state[_CHOSEN] = _Chosen(path, cache, table, selection)


def run_page(script: Callable[[], None]) -> None:
    """Draw the sidebar and the page; what cannot be read of the cache is said in its place."""
    try:
        draw_sidebar()
        script()
        raise_failure_of_a_fragment()
    except CacheError as error:
        chosen: _Chosen = st.session_state[_CHOSEN]
        show_unreadable(error, chosen.path, chosen.cache)
    finally:
        end_opening()  # of a page that never had its data


def open_page(name: str, *, whole_cache: bool = False, benchmark: bool = False, tests: bool = True) -> Page:
    """The data of a page, under its title; an unreadable or empty cache ends the script with what to do about it.

    whole_cache : the page is about all runs, so the chosen run and slice do not apply to it.
    benchmark : the page fits on one half of the run and judges on the other, so the slice does not apply to it.
    tests : the page tests the chosen samples, so it ends here if they were chosen by the outcome.
    """
    chosen: _Chosen = st.session_state[_CHOSEN]
    if chosen.error is not None:
        raise chosen.error
    if chosen.selection is None:
        st.info("This cache is empty. Build runs with `python -m cache_builder sweep`, then `make publish`.")
        st.stop()
    kind = CacheView if whole_cache else BenchmarkView if benchmark else View
    view = kind(chosen.cache, chosen.runs, chosen.selection)
    page = Page(name, view, current_theme())
    empty = kind is View and view.run.n_samples == 0
    end_opening()
    sidebar.say_what_a_link_lost()
    if kind is View and tests and view.refusal:
        page.refuse_slice()
        page.finish()
        st.stop()
    if empty:
        page.caption(view.caption())
        st.info("No sample is in this slice. Widen it in the sidebar.")
        st.stop()
    return page
