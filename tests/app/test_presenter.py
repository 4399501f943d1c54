"""For a room: a page shows one screen at a time, and the controls of a figure stand under it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.registry import PAGES
from tests.app.driver import bodies, figures, keyed, open_app

FULL = {"variant": "Full-AR", "run": "seed 0", "present": "1"}


def hidden(app) -> str:
    """The style that hides what is not shown."""
    (style,) = [body for body in bodies(app) if ".st-key-screen-" in body and "display: none" in body]
    return style


@pytest.mark.parametrize("page", [entry.name for entry in PAGES])
def test_a_page_opens_for_a_room_and_no_figure_is_taller_than_its_screen(page, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, page, **FULL)
    for figure in figures(app):
        assert figure["layout"]["height"] <= 440


def test_screens_follow_each_other_and_the_last_has_no_next(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "null", **FULL)
    assert ".st-key-screen-1" in hidden(app)
    assert "stMainBlockContainer" not in hidden(app)  # the main figure is shown
    app.button(key="screen-ctrl+down").click().run()
    assert ".st-key-screen-1," not in hidden(app)
    assert ".st-key-screen-2" in hidden(app)
    assert "stMainBlockContainer" in hidden(app)
    assert not app.button(key="screen-ctrl+up").disabled
    app.button(key="screen-ctrl+down").click().run()
    assert app.button(key="screen-ctrl+down").disabled
    assert keyed(app, "screens")
