"""What a page remembers of itself for the file that it can be downloaded as."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.dataframe_util import convert_arrow_bytes_to_pandas_df

from app.plots.theme import Theme
from app.shell.glossary import explained
from app.shell.page import Page
from app.shell.wording import plain
from engine.core.labels import format_p
from tests.app.driver import ROOT, keyed, open_app, published

SHOWING = {"page.verdict", "page.note", "page.heading", "page.text", "page.caption", "page.figure", "page.table",
           "page.sentences", "page.run_link"}  # fmt: skip


@pytest.mark.parametrize("kind", ["text", "caption"])
def test_a_fragment_that_is_drawn_again_replaces_what_it_said(kind: str):
    page = Page("probes", None, Theme())
    for words in ("before", "after"):
        page.heading("Somewhere above")
        getattr(page, kind)(words, key="own")
    assert [item.content for item in page.shown.values()].count("after") == 1
    assert "before" not in [item.content for item in page.shown.values()]
    page.caption("other")
    page.text("other")
    assert [item.kind for item in page.shown.values()][-2:] == ["caption", "text"]


def fragments() -> Iterator[tuple[str, ast.FunctionDef]]:
    for path in sorted([*ROOT.glob("pages/*.py"), *ROOT.glob("app/parts/*.py"), *ROOT.glob("app/shell/*.py")]):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and "fragment" in map(ast.unparse, node.decorator_list):
                yield f"{Path(path).name}: {node.name}", node


@pytest.mark.parametrize(("place", "function"), [pytest.param(*found, id=found[0]) for found in fragments()])
def test_everything_in_a_fragment_has_a_key(place: str, function: ast.FunctionDef):
    for call in ast.walk(function):
        if isinstance(call, ast.Call) and ast.unparse(call.func) in SHOWING:
            keyed = len(call.args) == 2 or "key" in [named.arg for named in call.keywords]
            assert keyed, f"{place}: {ast.unparse(call)} would be appended to the download at every redraw"


def test_a_p_value_stays_on_one_line_and_a_negative_number_has_a_minus_sign():
    told = plain("p < 0.001 and p = 0.15, change -0.02 on CIFAR-10 (1e-4)")
    assert told == "p\u00a0\\<\u00a00.001 and p\u00a0=\u00a00.15, change −0.02 on CIFAR-10 (1e-4)"


def test_a_term_is_explained_where_it_first_stands():
    text = explained("ECE <b> falls; ECE of the low third, p-values after Holm")
    assert text.count("<abbr") == 3
    assert text.count("ECE</abbr>") == 1
    assert "&lt;b&gt;" in text
    assert re.sub("<[^>]*>", "", text) == "ECE &lt;b&gt; falls; ECE of the low third, p-values after Holm"


def test_a_table_prints_numbers_as_sentences_do(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "sweep")
    table = next(table for table in app.dataframe if "p, corrected" in table.value)
    printed = convert_arrow_bytes_to_pandas_df(table.proto.arrow_data.styler.display_values)
    for column in ("p", "p, corrected"):
        expected = [format_p(p).removeprefix("p ").removeprefix("= ") for p in table.value[column]]
        assert [text.replace("\u00a0", " ") for text in printed[column]] == expected
    assert printed["Effect"].tolist() == [f"{effect:+.3f}".replace("-", "−") for effect in table.value["Effect"]]


def test_rounded_confidence_is_a_warning_where_the_run_is_tested(make_run, tmp_path: Path, monkeypatch):
    fine = make_run("fine", logits=False, n=400, seed=0)
    coarse = replace(make_run("coarse", logits=False, n=400, seed=1), confidence=fine.confidence.round(2))
    cache = published([fine, coarse], tmp_path)
    for page, run, n_bars in (("gap", "seed 1", 1), ("gap", "seed 0", 0), ("reliability", "seed 1", 0)):
        bars = keyed(open_app(cache, monkeypatch, page, run=run), "rounding")
        assert len(bars) == n_bars, (page, run)
        assert all("Confidence is rounded to 2 digits" in bar.get("warning")[0].value for bar in bars)
