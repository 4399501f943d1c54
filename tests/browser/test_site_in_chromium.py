"""A site as its reader sees it: from the disk and from a server without a network, with what the dashboard shows."""

from __future__ import annotations

import csv
import json
import math
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from playwright.sync_api import Browser, Page, expect

from app.export import Item
from app.plots.theme import Theme
from app.registry import PAGES, page_for
from app.site.build import WHOLE, build, plan
from app.site.data import Shelf, read_script
from cache_builder.diagnose import publish_with_answers
from cache_builder.progress import quiet
from engine.store import open_cache
from tests.app.driver import ROOT, numbers, open_app, verdict
from tests.browser.conftest import PATIENCE, assert_no_text_is_cut

FULL, BASELINE, ENSEMBLE = (
    f"digits-micro_vit-digits-{name}" for name in ("full_ar-s0", "baseline-s0", "full_ar-s0-last5")
)
AT_REST = "main:not([aria-busy]) h1"
HOSTILE = "<img src=x onerror=alert(1)></script>"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of three bundled runs, beside the cache that it was made of."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "shards").mkdir()
    for run_id in (FULL, BASELINE, ENSEMBLE):
        for file in (ROOT / "data" / "shards").glob(f"{run_id}.*"):
            shutil.copy(file, folder / "shards")
    publish_with_answers(folder / "shards", folder / "cache.duckdb", quiet)
    with open_cache(folder / "cache.duckdb") as cache:
        planned = plan(cache, features=["r_std"])
    build(folder / "cache.duckdb", planned, folder / "site", names=[])
    return folder / "site"


@pytest.fixture
def served(site: Path) -> Iterator[str]:
    """The address of the site on a server of static files."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture
def read(browser: Browser, site: Path) -> Iterator[Callable[..., Page]]:
    """Open a view; any error, console message or request to elsewhere fails the test when it ends."""
    contexts, faults = [], []

    def open_(view: str, address: str = (site / "index.html").as_uri(), **more: Any) -> Page:
        own = address.rpartition("/")[0]
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **more)
        context.route("**", lambda route: route.continue_() if route.request.url.startswith(own) else route.abort())
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
        page.on(
            "request", lambda request: request.url.startswith((own, "data:", "blob:")) or faults.append(request.url)
        )
        page.goto(f"{address}#{view}")
        page.wait_for_selector(AT_REST)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert faults == []


def turn_to(page: Page, view: str) -> None:
    if not page.url.endswith(f"#{view}"):
        page.evaluate("view => { document.querySelector('main').innerHTML = ''; location.hash = view; }", view)
    page.wait_for_selector(AT_REST)


def all_drawn(page: Page) -> int:
    """Go through every tab and figure of a view until each is drawn; how many there are."""
    found = page.locator(".plot").count()
    for tab in page.get_by_role("tab").all() or [None]:
        if tab is not None:
            tab.click()
        for plot in page.locator(".plot:visible").all():
            plot.scroll_into_view_if_needed()
            expect(plot.locator(".main-svg").first).to_be_attached()
    assert page.locator(".plot:has(.main-svg)").count() == found
    return found


@pytest.mark.parametrize("run_id", [FULL, BASELINE, ENSEMBLE])
def test_every_page_is_drawn_from_the_disk(read, run_id: str):
    page = read(f"page=overview&run={run_id}")
    n_figures = 0
    for entry in PAGES:
        turn_to(page, f"page={entry.name}&run={run_id}")
        expect(page.locator("h1")).to_have_text(entry.question)
        expect(page.locator(".verdict .chip")).to_be_visible()
        n_figures += all_drawn(page)
    assert n_figures > (20 if run_id == BASELINE else 40)
    turn_to(page, "page=methods")
    assert "Mantel" in page.locator("main").inner_text()


def test_it_opens_from_a_static_server_without_a_network(read, served: str):
    page = read("page=gap&feature=r_std", served)
    assert all_drawn(page) > 2
    assert_no_text_is_cut(page)
    assert page.locator(".modebar-btn").count() > 2
    assert page.locator(".modebar-btn[data-title^=Share]").count() == 0  # it would send the figure to a service
    turn_to(page, f"page=bandwidth&run={ENSEMBLE}")
    assert all_drawn(page) > 1


def same(mine: Any, theirs: Any) -> bool:
    """Whether a figure's data are the dashboard's, but for what is rounded away."""
    if isinstance(theirs, dict) and "bdata" in theirs:
        shape = [int(length) for length in str(theirs.get("shape", "-1")).split(",")]
        theirs = numbers(theirs).reshape(shape).tolist()
    if isinstance(theirs, dict):
        return mine.keys() == theirs.keys() and all(same(mine[name], theirs[name]) for name in theirs)
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(theirs, float) and not isinstance(theirs, bool):
        return mine is None if not math.isfinite(theirs) else mine == pytest.approx(theirs, rel=6e-5, abs=1e-12)
    return bool(mine == theirs)


def shows(site: Path, run_id: str, page: str) -> list[dict[str, Any]]:
    """What a view of the site holds."""
    index = read_script(site / "data/index.js")
    file = "cache" if page in WHOLE else next(run["file"] for run in index["runs"] if run["id"] == run_id)
    data = read_script(site / f"data/{file}.js")
    scope = next(entry["scope"] for entry in index["pages"] if entry["name"] == page)
    return [data["items"][place] for place in data["views"][f"{page}/r_agg" if scope == "feature" else page]]


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_verdicts_tables_and_figures_are_those_of_the_dashboard(page: str, site: Path, monkeypatch):
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 500.0)
    monkeypatch.setattr("app.compute.jobs.PATIENCE", 1000.0)
    runs = {run["id"]: run["parts"] for run in read_script(site / "data/index.js")["runs"]}
    for run_id in [next(iter(runs))] if page in WHOLE else runs:
        place = dict(zip(("backbone", "data", "variant", "run"), runs[run_id], strict=True))
        app = open_app(site.parent / "cache.duckdb", monkeypatch, page, **place)
        items = shows(site, run_id, page)
        assert items[0]["kind"] == "verdict"
        assert items[0]["text"].replace("\u00a0", " ") in verdict(app)
        if page == "yourdata":
            continue
        charts = {chart.proto.id.partition("-figure-")[2]: chart for chart in app.get("plotly_chart")}
        mine = {item["key"].removeprefix("figure-"): item for item in items if item["kind"] == "figure"}
        assert mine.keys() == charts.keys()
        for key, chart in charts.items():
            spec = json.loads(chart.proto.spec)
            assert same(mine[key]["data"], spec["data"]), key
            assert same(mine[key]["layout"], spec["layout"]), key
            assert same(mine[key].get("frames", []), spec.get("frames", [])), key
        tables = [item["columns"] for item in items if item["kind"] == "table"]
        for columns, element in zip(tables, app.dataframe, strict=True):
            for column, name in zip(columns, element.value.columns, strict=True):
                assert column["name"] == name
                assert_same_column(column, element.value[name].tolist())


def assert_same_column(column: dict[str, Any], theirs: list[Any]) -> None:
    for mine, value in zip(column.get("values", column["cells"]), theirs, strict=True):
        missing = value is None or (isinstance(value, float) and math.isnan(value))
        if missing or not isinstance(value, int | float) or isinstance(value, bool):
            assert mine == (None if missing else str(value)), column["name"]
        else:
            assert mine == pytest.approx(value, rel=6e-6, abs=1e-300), column["name"]


def test_runs_and_pages_are_chosen_by_keyboard_and_back_leads_back(read):
    page = read(f"page=overview&run={FULL}")
    page.keyboard.press("/")
    page.keyboard.type("last")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(page_for("gap").question)
    assert f"run={ENSEMBLE}" in page.url
    page.get_by_role("link", name="Mechanism").focus()
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text(page_for("mechanism").question)
    page.get_by_label("Variant").focus()
    page.keyboard.press("p")  # plain residual
    expect(page.get_by_label("Variant")).to_have_value("plain residual")
    page.wait_for_function("run => location.hash.includes(`run=${run}&`)", arg=BASELINE)
    page.go_back()
    page.wait_for_function("run => location.hash.includes(`run=${run}&`)", arg=ENSEMBLE)
    page.go_back()
    expect(page.locator("h1")).to_have_text(page_for("gap").question)
    page.locator("main").focus()  # a box that is being chosen from takes letters for itself
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("presenter")
    page.keyboard.press("Escape")
    page.keyboard.press("p")
    expect(page.locator("#side")).to_be_hidden()
    page.keyboard.press("Control+ArrowRight")
    expect(page.locator("h1")).to_have_text(page_for("null").question)
    page.keyboard.press("PageUp")
    expect(page.locator("h1")).to_have_text(page_for("gap").question)
    assert page.evaluate("document.querySelector('.plot').style.minHeight") != ""


def test_a_link_to_what_is_not_there_says_so(read):
    page = read("page=gap&run=nobody&feature=nothing")
    text = page.locator("main").inner_text()
    assert "no run “nobody”" in text
    assert "no feature “nothing”" in text


def test_sliders_move_figures_by_keyboard(read):
    page = read(f"page=bandwidth&run={FULL}")
    plot = page.locator(".plot[data-key=figure-live]")
    expect(plot.locator(".main-svg").first).to_be_attached()
    page.wait_for_selector(".plot[data-key=figure-live][data-drawn]")
    marks = "() => JSON.stringify(document.querySelector('[data-key=figure-live]').data.map(({ x }) => x))"
    before = page.evaluate(marks)
    page.get_by_role("slider").press("ArrowRight")
    page.wait_for_function(f"before => ({marks})() !== before", arg=before)
    turn_to(page, f"page=controls&run={FULL}")
    slider = page.get_by_role("slider", name="Planted gap")
    expect(slider).to_have_attribute("aria-valuetext", "0.10")
    page.wait_for_selector(".plot[data-key=figure-planted][data-drawn]")
    figure = page.locator("figure:has([data-key=figure-planted])")
    first = figure.locator("figcaption").inner_text(), figure.locator("li").all_inner_texts()
    for _ in range(5):
        slider.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", "0.20")
    assert (figure.locator("figcaption").inner_text(), figure.locator("li").all_inner_texts()) != first


def test_tables_sort_filter_and_save(read, site: Path):
    page = read("page=overview&tab=All runs")
    rows = page.locator("table:visible tbody tr")
    expect(rows).to_have_count(3)
    header = page.get_by_role("button", name="Accuracy")
    header.press("Enter")
    accuracies = [float(cell) for cell in page.locator("table:visible tbody td:nth-child(4)").all_inner_texts()]
    assert accuracies == sorted(accuracies)
    header.press("Enter")
    reversed_ = [float(cell) for cell in page.locator("table:visible tbody td:nth-child(4)").all_inner_texts()]
    assert reversed_ == sorted(accuracies, reverse=True)
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").locator("visible=true").press("Enter")
    lines = list(csv.DictReader(Path(download.value.path()).read_text().splitlines()))
    (table,) = (item for item in shows(site, FULL, "overview") if item.get("key") == "table-runs")
    stored = next(column for column in table["columns"] if column["name"] == "Accuracy")["values"]
    assert [float(line["Accuracy"]) for line in lines] == sorted(stored, reverse=True)
    page.locator("table:visible tbody a").first.press("Enter")
    expect(page.locator("h1")).to_have_text(page_for("gap").question)


def test_two_runs_stand_side_by_side_on_the_same_axes(read):
    page = read(f"page=reliability&run={FULL}&with={ENSEMBLE}")
    assert page.locator(".sides > section").count() == 2
    ranges = """() => [...document.querySelectorAll('[data-key=figure-main]')].map(
        ({ _fullLayout: own }) => own && ['xaxis', 'yaxis', 'yaxis2'].map(name => (own[name] || {}).range))"""
    page.wait_for_function(f"() => {{ const [a, b] = ({ranges})(); return a && b && a.join('|') === b.join('|'); }}")
    page.get_by_role("tab", name="The bins").first.click()
    expect(page.locator(".sides table:visible")).to_have_count(2)


def test_dark_and_narrow(read):
    page = read("page=gap&theme=dark", color_scheme="light")
    page.wait_for_selector(".plot[data-drawn]")
    dark = Theme(dark=True)
    assert page.evaluate("document.querySelector('[data-drawn]').layout.font.color") == dark.text
    red, green, blue = (int(dark.paper[i : i + 2], 16) for i in (1, 3, 5))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == f"rgb({red}, {green}, {blue})"
    page.set_viewport_size({"width": 390, "height": 800})
    assert_no_text_is_cut(page, "page is")
    assert (
        read("page=gap", color_scheme="dark").evaluate("getComputedStyle(document.documentElement).colorScheme")
        == "dark"
    )


def test_hostile_names_stay_words(read, site: Path, tmp_path: Path):

    copy = tmp_path / "copy"
    shutil.copytree(site, copy)
    shelf = Shelf(str)
    frame = pd.DataFrame({HOSTILE: [HOSTILE, "=1+1", "-2", 'a "b", c']})
    shelf.put("gap/r_agg", {
        "v": Item("verdict", f"{HOSTILE}. {HOSTILE}", finding=HOSTILE, of="evidence"), "t": Item("table", frame),
        "x": Item("text", HOSTILE), "tab": Item("tab", HOSTILE),
        "l": Item("link", HOSTILE, of="gap/javascript:alert(1)"),
    })  # fmt: skip
    for file in copy.glob("data/run-*.js"):
        file.write_text(shelf.script(file.stem))
    page = read("page=gap", (copy / "index.html").as_uri())
    assert page.locator("main img").count() == page.locator("main script").count() == 0
    assert page.locator("main").inner_text().count(HOSTILE) >= 5
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV").click()
    saved = [row[0] for row in csv.reader(Path(download.value.path()).read_text().splitlines())]
    assert saved == [HOSTILE, HOSTILE, "'=1+1", "-2", 'a "b", c']
