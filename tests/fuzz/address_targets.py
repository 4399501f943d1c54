"""Any address of a page: no exception, and a verdict or a calm message. Keys are those that a page really binds."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from app.registry import PAGES, ROOT, page_for
from tests.app.driver import keyed, open_app, published
from tests.conftest import made_up_run
from tests.fuzz.target import Target, scratch

_BOUND = re.compile(r'key="(\w+)",\s*bind="query-params"')
READ_DIRECTLY = ("present", "embed", "embed_options", "cache")
"""Parameters that Streamlit or a page reads without a widget, or whose widget needs a second cache."""
WIDGETS = (
    "selectbox",
    "radio",
    "select_slider",
    "multiselect",
    "button_group",
    "slider",
    "toggle",
    "checkbox",
    "number_input",
    "text_input",
    "text_area",
)


@lru_cache
def hidden() -> tuple[str, ...]:
    """Parameters of all pages that are written down in their sources; some widgets appear only under conditions."""
    scripts = [script for folder in ("app", "pages") for script in (ROOT / folder).rglob("*.py")]
    return (*READ_DIRECTLY, *sorted({key for script in scripts for key in _BOUND.findall(script.read_text())}))


@lru_cache
def cache() -> Path:
    """A small cache with a run of every kind."""
    return published(
        (
            made_up_run("full-s0", n=150),
            made_up_run("full-s1", n=150, seed=1),
            made_up_run("no-logits", n=150, seed=2, logits=False, variant="block_ar", block_size=2),
            made_up_run("plain", n=150, seed=3, profile=False, variant="baseline"),
            made_up_run(
                "tiny", n=12, seed=4, profile=False, logits=False, backbone="other", variant="theirs", suite="mine"
            ),
        ),
        scratch(),
    )


@lru_cache
def widgets(page: str) -> dict[str, tuple[str, ...]]:
    """Keys of the widgets on the page and what they offer, so that valid settings meet in every combination."""
    with pytest.MonkeyPatch.context() as patch:
        app = _open(page, patch, {})
    found = [widget for kind in WIDGETS for widget in app.get(kind) if getattr(widget, "key", None)]
    return {str(widget.key): tuple(map(str, getattr(widget, "options", ()))) for widget in found}


NUMBERS = st.one_of(
    st.integers(-5, 60).map(str),
    st.floats(0, 1).map(lambda value: f"{value:.2f}"),
    st.sampled_from(
        ["-1", "1e999", "NaN", "inf", "99999999999999999999", "0x10", "1_000", "٣", "true", "1e-320", "0.005"]
    ),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            " ",
            "'; DROP TABLE runs; --",
            "1 OR 1=1",
            "../../../etc/passwd",
            "/etc/passwd",
            "cache.duckdb",
            "%00",
            "\x00",
            "<script>alert(1)</script>",
            "[x](javascript:alert(1))",
            "x" * 10_000,
            "🙂" * 100,
            "\u202etxt",
            "all",
            "none",
            "null",
            "{}",
            "[]",
            "full-s0",
            "Full-AR",
            "SELECT 1",
            "your data",
        ]
    ),
)


@st.composite
def addresses(draw: DrawFn, page: str) -> dict[str, Any]:
    """A few parameters, with offered values, odd ones, several of one name, and names that nobody knows."""
    offered = widgets(page)
    query: dict[str, Any] = {}
    for _ in range(draw(st.integers(1, 6))):
        known = st.sampled_from(sorted(offered))
        key = draw(st.one_of(known, known, st.sampled_from(hidden()), st.text("abc_é ", min_size=1, max_size=6)))
        values = NUMBERS | TEXTS
        if offered.get(key):
            values = st.sampled_from(offered[key]) | values
        query[key] = draw(st.one_of(values, values, st.lists(values, min_size=2, max_size=3)))
    return query


def _open(page: str, patch: pytest.MonkeyPatch, query: dict[str, Any]) -> Any:
    # As tests/app/conftest.py does: long work is waited for, and AppTest does not take the place of `__main__`.
    patch.setattr("app.shell.long_work.FIRST_LOOK", 500.0)
    patch.setattr("app.compute.jobs.PATIENCE", 1000.0)
    patch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    return open_app(cache(), patch, page, **query)


def _target(page: str) -> Target:
    def body(query: dict[str, Any]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            app = _open(page, patch, query)
        assert app.title[0].value == page_for(page).question
        calm = [element.value for kind in ("info", "warning") for element in app.get(kind)]
        errors = [element.value for element in app.get("error")]
        assert keyed(app, "verdict") or calm, f"neither a verdict nor a message: {errors}"
        assert not errors, errors

    return Target(f"page {page}", st.deferred(lambda: addresses(page)), body, quick=2, round=5)


TARGETS = [_target(page.name) for page in PAGES]
