"""The head of every page and the way things are shown on it, so that all of it can be downloaded.

What a page is made of has stable keys; an element or container with the key K has the CSS class `st-key-K`:

    brand                   the product and the paper
    question                the title
    verdict                 the answer under the title, with its state and the sentence
    settings                the settings in force, under the verdict
    chips                   in there: departures from the defaults, chip-KEY each, and chip-reset
    rounding                the warning that confidence was rounded, under the settings
    lost                    what a link asked for that is not there
    figure-NAME             a figure, as `Page.figure` names it
    drawer-KEY              under a figure, the samples of what was chosen in it; samples-KEY, samples-csv-KEY and
                            samples-slice-KEY in there
    table-NAME              a table, with its buttons csv-NAME and latex-NAME
    progress-NAME           the place of long work, or of what a page waits for: its bar, or one of its two buttons
    start-NAME, stop-NAME   the buttons of long work
    how                     "How this is computed"
    foot, download-page     the files of the page, and the page as one
    save-figure             a figure as SVG, PNG or PDF

Of two runs side by side the second's keys end in -other.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from urllib.parse import urlencode

import pandas as pd
import plotly.graph_objects as go
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from app.compute.cache import Current, available_caches, current_cache, names_of, runs
from app.compute.jobs import Work
from app.compute.own_data import OWN, is_own, own
from app.export import Item, Steps, page_html, take_title, to_csv
from app.plots.beside import legend, match
from app.plots.theme import Theme
from app.registry import PageEntry, page_for
from app.shell import sidebar
from app.shell.drawer import behind, leads_to, show_samples
from app.shell.errors import show_unreadable, warn_of_older
from app.shell.fragment import fragment, raise_failure_of_a_fragment
from app.shell.headline import Headline
from app.shell.long_work import WAITING, long_work
from app.shell.opening import draw_head, link_place, on_a_phone
from app.shell.presenter import presenting, screens
from app.shell.report_button import offer_run_report
from app.shell.save_figure import offer_figures
from app.shell.settings import bring_back, remember
from app.shell.wording import plain, typeset
from app.state.links import run_anchor, run_query
from app.state.selection import Selection
from app.state.view import CacheView, View
from engine.core.errors import CacheError, InvalidInput, MissingData
from engine.core.labels import MISSING, print_value
from engine.core.latex import to_latex
from engine.core.rounding import find_rounding
from engine.store import Cache
from engine.verdict.answers import ROUNDING

Result = TypeVar("Result")
Held = tuple[DeltaGenerator, go.Figure, str, Steps | None]
"""A figure, its place, its alternative text and its steps, until it is drawn."""
_CHOSEN, PAGE = "routecal-chosen", "routecal-page"
"""Of the session: what the sidebar says, and the page being drawn."""
_TALLEST = 440  # pixels of a figure in a room
_WRAPPED = 68  # pixels of a row of three lines
_CELLS_FORMATTED = 20_000  # of a table; of a larger one, which only a query gives, the browser makes what it can
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
    held: dict[str, Held] | None = None
    """While two runs are drawn side by side: the figures, until the axes of both are known."""

    def _show(self, kind: str, content: str | go.Figure | pd.DataFrame, key: str | None = None, **more: Any) -> None:
        """Remember what is shown; a fragment that draws a figure again replaces the old one."""
        self.shown[f"{key}{self.view.of}" if key else f"{kind}-{len(self.shown)}"] = Item(kind, content, **more)

    def forget(self, *keys: str) -> None:
        """That is no longer shown."""
        for key in keys:
            self.shown.pop(f"{key}{self.view.of}", None)

    def long_work(self, name: str, work: Work[Result], *, label: str, start: bool = True) -> Result | None:
        """Long work of the run, or of the one to compare with, each in its place."""
        return long_work(f"{name}{self.view.of}", work, label=label, start=start)

    def beside(self, draw: Callable[[Page], None], answer: Callable[[View], Headline] | None = None) -> None:
        """Draw a part of the page, and beside it, on the same axes, the same part for the run to compare with.

        answer : the headline of a run; it is then said over both.
        """
        if self.view.other is None or self.view.of:
            draw(self)
            return
        other = Page(self.name, self.view.other, self.theme, self.shown)
        held = []
        # Told first: what waits for it stands above both, and the figures stay level.
        told = [answer(side.view).line if answer and side.view.run.n_samples else "" for side in (self, other)]
        for side, line, column in zip((self, other), told, st.columns(2, gap="medium"), strict=True):
            with column:
                held.append(self._draw_in_column(side, draw, line))
        names: dict[tuple[str, str, str], None] = {}
        for key in held[0].keys() & held[1].keys():
            first, second = held[0][key][1], held[1][key][1]
            names |= dict.fromkeys([*legend(first), *legend(second)])
            match(first, second)
        for side, figures in zip((self, other), held, strict=True):
            for key, (place, fig, alt, steps) in figures.items():
                with place:
                    side.figure(fig, key, alt=alt, steps=steps)
        if names:
            signs = [f'<span style="color:{colour}">{sign}</span> {html.escape(name)}' for sign, colour, name in names]
            st.html(f'<div class="legend">{" &emsp; ".join(signs)}</div>')

    def _draw_in_column(self, side: Page, draw: Callable[[Page], None], answer: str) -> dict[str, Held]:
        """The name, answer and part of one of two runs, or why that cannot be shown; its figures, not yet drawn."""
        view, figures = side.view, {}
        side.note(view.label)
        st.html(f"<strong>{html.escape(view.label)}</strong><br>{answer}")
        if type(view) is View and not view.run.n_samples:
            side.text("No sample of this run is in the slice.", "lacks")
            return figures
        if view.selection.feature != self.view.selection.feature:
            side.caption(f"Feature: {view.feature_label}; this run lacks the chosen one.", "feature")
        side.held = figures
        try:
            draw(side)
        except (MissingData, InvalidInput) as error:
            if side is self:
                raise
            side.text(f"This cannot be shown for this run: {error}.", "lacks")
        finally:
            side.held = None
        return figures

    def note(self, text: str) -> None:
        """Something shown by other means than this class, for the exported page."""
        self._show("text", text)

    def verdict(self, headline: Headline, sentence: str, *, tested: bool = True) -> None:
        """The answer and the sentence under it, the settings, and what spoils the tests that it rests on."""
        self._show("verdict", f"{headline.text}. {sentence}", finding=headline.text, of=headline.state)
        with st.container(key="verdict"):
            st.html(headline.drawn(sentence))
        with st.container(key="settings"):
            self.caption(self.view.caption())
            sidebar.show_chips(self.view.selection, self.view.heeds)
        if tested and type(self.view) is View:
            self._warn_of_rounding()

    def _warn_of_rounding(self) -> None:
        """A bar where the run's confidence has too few digits for its tests."""
        stored = self.view.stored(ROUNDING)()
        rounding = stored[0] if stored else find_rounding(self.view.run.confidence)
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
        """A tab for each part of the page, drawn in order: `with next(tabs):`. In files its label is a heading.

        The open one is in the address. What is long in coming is drawn only if its tab `is_open`.
        """
        places = screens(labels) if presenting() else st.tabs(labels, key="tab", bind="query-params")
        for label, tab in zip(labels, places, strict=True):
            self._show("tab", label)
            yield tab

    def is_open(self, tab: DeltaGenerator) -> bool:
        """Whether a part that is long in coming is drawn now: in its open tab, or on a presenter's screens."""
        drawn = getattr(tab, "open", True) is not False
        if not drawn:
            self.note("This part is computed when it is opened in the dashboard.")
        return drawn

    def text(self, text: str, key: str | None = None) -> None:
        """A paragraph; a fragment gives it a key, so that drawing it again replaces it."""
        self._show("text", text, key and f"text-{key}")
        st.markdown(plain(text))

    def caption(self, text: str, key: str | None = None) -> None:
        """A remark; with a key as `text` takes it."""
        self._show("caption", text, key and f"caption-{key}")
        st.caption(plain(text))

    def figure(self, fig: go.Figure, key: str, *, alt: str, steps: Steps | None = None) -> None:
        """A figure at full width, its finding as text above it; its camera button saves it as it stands.

        alt : what it is a figure of; what it shows, its title, is put before that.
        steps : what a slider beside it makes of it, for a site that has no server.
        """
        if self.held is not None:
            self.held[key] = st.container(), fig, alt, steps
            return
        title = take_title(fig)
        if title:
            st.markdown(f"**{plain(title)}**")
            alt = f"{title}. {alt}"
        if self.theme.large and fig.layout.height > _TALLEST:  # with its controls it must fit a projector's screen
            fig.layout.height = _TALLEST
        self._show("figure", fig, f"figure-{key}", finding=title, alt=alt, steps=steps)
        config = {
            "displaylogo": False,
            "toImageButtonOptions": {"format": "svg", "filename": f"routecal-{self.name}-{key}"},
            "modeBarButtonsToRemove": ["lasso2d", "autoScale2d", "sendChartToCloud"],
        }
        element = f"figure-{key}{self.view.of}"
        draw = partial(st.plotly_chart, width="stretch", theme=None, key=element, config=config, alt=alt)
        if on_a_phone() or not (leads_to(fig, "cells") or leads_to(fig, "runs")):
            draw(fig)
        else:
            self._choosable(fig, draw, element)

    @fragment
    def _choosable(self, fig: go.Figure, draw: Callable[..., Any], key: str) -> None:
        """A figure whose points open their run, or a drawer with their samples."""
        points = draw(fig, on_select="rerun", selection_mode=("points", "box")).selection.points
        if runs := behind(fig, points, "runs"):
            sidebar.turn_to(self.view, runs[0], "gap")
        if cells := behind(fig, points, "cells"):
            show_samples(self.view, cells, key)

    def table(
        self,
        frame: pd.DataFrame,
        key: str,
        *,
        names: Mapping[str, str],
        formats: Mapping[str, str] | None = None,
        widths: Mapping[str, int] | None = None,
        places: Mapping[str, Sequence[int]] | None = None,
        opens: Sequence[str] = (),
    ) -> None:
        """A table with the columns in `names`, in that order and under those names, to read, as CSV and as LaTeX.

        widths : of columns of long text, in pixels; rows are then high enough for such text to wrap.
        opens : the run behind each row, which opens it when chosen.
        places : of some columns, which rows come first (1) and second (2); their cells are shaded.
        """
        shown = frame[list(names)].rename(columns=dict(names))
        patterns = {names[name]: pattern for name, pattern in (formats or {}).items()}
        self._show("table", shown, f"table-{key}", formats=patterns)
        columns = {names[name]: st.column_config.TextColumn(width=width) for name, width in (widths or {}).items()}
        marks = {names[name]: [self.theme.place(place) for place in placed] for name, placed in (places or {}).items()}
        # Formatted here: numbers sort as numbers, and a table prints them as sentences do. It takes seconds for many.
        styled: Any = shown
        if shown.size <= _CELLS_FORMATTED:
            styled = shown.style.format({name: partial(_cell, patterns.get(name, "")) for name in shown})
        if marks:
            styled = styled.apply(lambda column: marks.get(column.name, [""] * len(column)))
        with st.container(key=f"table-{key}{self.view.of}"):  # a table itself gets no class from its key
            event = st.dataframe(
                styled,
                hide_index=True,
                width="stretch",
                height="content" if len(shown) <= _ROWS_SHOWN_WHOLE else "auto",
                column_config=columns,
                row_height=_WRAPPED if widths else None,
                key=f"rows-{key}{self.view.of}",
                placeholder=MISSING,
                on_select="rerun" if opens else "ignore",
                selection_mode="single-row",
            )
            if opens and event.selection.rows:
                sidebar.turn_to(self.view, opens[event.selection.rows[0]], "gap")
            left, right, _ = st.columns([1, 1, 6])
            stem = f"routecal-{self.name}-{key}"
            left.download_button(
                "CSV",
                lambda: to_csv(shown),
                f"{stem}.csv",
                "text/csv",
                key=f"csv-{key}{self.view.of}",
                on_click="ignore",
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
                key=f"latex-{key}{self.view.of}",
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
        self._show("link", label, of=f"{name}/{run_id}")
        if is_own(self.view.kept_by):
            st.page_link(page_for(name).script, label=plain(label))
        else:
            st.html(run_anchor(name, self.view, run_id, presenting=presenting()))

    def how(self, explanation: str) -> None:
        """ "How this is computed", folded away; Markdown with formulas."""
        with st.container(key="how"), st.expander("How this is computed"):
            st.markdown(explanation)

    def _figures(self) -> dict[str, go.Figure]:
        """Everything drawn, by what it shows."""
        figures = [item for item in self.shown.values() if isinstance(item.content, go.Figure)]
        return {item.finding or item.alt: item.content for item in figures}

    def finish(self) -> None:
        """The link to this view, the page as a file, and a report on the run to send."""
        # What draws code is a third as large as what draws figures, and holds those up; the browser gets it when asked.
        with link_place(), st.popover("Link to this view"):
            if is_own(self.view.kept_by):
                st.caption("Your own data cannot be linked: nobody else can open it.")
            else:
                st.code(_link(self.view), language=None, wrap_lines=True)
        title = page_for(self.name).question
        with st.container(horizontal=True, key="foot"):
            st.download_button(
                "Download page",
                lambda: page_html(title, list(self.shown.values())),
                f"routecal-{self.name}.html",
                "text/html",
                on_click="ignore",
                key="download-page",
            )
            offer_figures(self.name, self.view.kept_by, self._figures())
            if not isinstance(self.view, CacheView):
                offer_run_report(self.view)
        if not st.session_state[WAITING]:
            sidebar.look_for_settings()


def _cell(pattern: str, value: object) -> str:
    return typeset(print_value(value, pattern))


def _link(view: View) -> str:
    """The address of this view: everything chosen on it, the run, feature and cache even where they are the default."""
    whole = {name: [value] for name, value in run_query(view, view.selection.run_id).items()}
    chosen = {name: st.query_params.get_all(name) for name in st.query_params}
    address = (st.context.url or "").partition("?")[0]
    return f"{address}?{urlencode({**whole, **chosen, 'of': whole['of']}, doseq=True)}"


@dataclass(frozen=True, eq=False)
class Chosen:
    """What the sidebar says, or why there is nothing to choose from; `other` is the run to compare with."""

    path: Path
    cache: Cache | None = None
    runs: pd.DataFrame | None = None
    selection: Selection | None = None
    other: tuple[Cache, pd.DataFrame, str] | None = None
    error: CacheError | None = None

    def view(self, kind: type[View]) -> View:
        """What a page of this kind works on."""
        other = self.other and kind.beside(*self.other[:2], self.selection, self.other[2])
        return kind(self.cache, self.runs, self.selection, other if kind.has_other else None)


def draw_sidebar() -> None:
    """Open the cache and draw the sidebar, before the page itself runs.

    Not inside the page: widgets bound to the address lose their values on a page switch unless every page shares them.
    """
    paths, mine = {path.name: path for path in available_caches()}, own().caches
    if not mine and st.query_params.get("cache") in OWN:
        st.sidebar.info("Your data is not here: it is removed a minute after its window was closed. Upload it again.")
    sidebar.begin_to_look()
    chosen = sidebar.choose_cache([*paths, *mine])
    path = mine[chosen].path if chosen in mine else paths[chosen]
    try:
        current = Current(mine[chosen]) if chosen in mine else current_cache(path)
        cache, table = current.cache, runs(current.cache)
        elsewhere = {
            f"{name.full} ({called})": (found, runs(found), run_id)
            for called, found in _caches_beside(chosen, paths, mine).items()
            for run_id, name in names_of(found, runs(found)).items()
        }
    except CacheError as error:
        st.session_state[_CHOSEN] = Chosen(path, error=error)
        return
    if current.trouble:
        warn_of_older(current)
    selection = other = None
    if not table.empty:
        names = names_of(cache, table)
        selection, called = sidebar.choose(table, names, cache.kept_by, list(elsewhere))
        here = {names[run_id].full: (cache, table, run_id) for run_id in table["run_id"]}
        other = (elsewhere | here).get(called)
    sidebar.end_looking(cache.fingerprint)
    st.session_state[_CHOSEN] = Chosen(path, cache, table, selection, other)


def _caches_beside(chosen: str, paths: Mapping[str, Path], mine: Mapping[str, Cache]) -> dict[str, Cache]:
    """Other caches with runs to compare with: the viewer's own files, and beside one of those the first cache."""
    found = {name: cache for name, cache in mine.items() if name != chosen}
    if chosen in mine:
        first = next(iter(paths))
        found[first] = current_cache(paths[first]).cache
    return found


def run_page(name: str, script: Callable[[], None]) -> None:
    """Draw the sidebar and the page; what cannot be read of the cache is said in its place."""
    try:
        draw_sidebar()
        chosen: Chosen = st.session_state[_CHOSEN]
        if chosen.selection is not None:
            bring_back(name, chosen.selection.run_id)
        script()
        raise_failure_of_a_fragment()
    except CacheError as error:
        chosen = st.session_state[_CHOSEN]
        show_unreadable(error, chosen.path, chosen.cache)
    finally:
        remember()


def show_by_itself(chosen: Chosen, entry: PageEntry) -> None:
    """Draw a page without the sidebar, on what would be chosen there: for whoever keeps what pages show."""
    st.session_state[_CHOSEN] = chosen
    draw_head(entry)
    sidebar.begin_to_look()
    sidebar.end_looking(chosen.selection.fingerprint)
    exec(compile(entry.script.read_text(encoding="utf-8"), entry.script, "exec"), {"__name__": entry.name})


def open_page(name: str, kind: type[View] = View, *, tests: bool = True) -> Page:
    """The data of a page, under its title; an unreadable or empty cache ends the script with what to do about it.

    kind : of what the page is about: the chosen samples, the halves of the run, or all runs.
    tests : the page tests the chosen samples, so it ends here if they were chosen by the outcome.
    """
    chosen: Chosen = st.session_state[_CHOSEN]
    if chosen.error is not None:
        raise chosen.error
    if chosen.selection is None:
        st.info("This cache is empty. Build runs with `python -m cache_builder sweep`, then `make publish`.")
        st.stop()
    st.session_state[WAITING] = False
    view = chosen.view(kind)
    page = st.session_state[PAGE] = Page(name, view, current_theme())
    empty = kind is View and view.n_samples == 0
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
