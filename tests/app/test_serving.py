"""The gate and the log: open by default, a password, a proxy's header; JSON lines that lead from viewer to trace."""

from __future__ import annotations

import io
import json
import logging
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from app.serving import gate
from app.serving.log import JsonLines, begin_request

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def door(cache_of_kinds: Path, monkeypatch) -> AppTest:
    monkeypatch.setenv("ROUTECAL_CACHE", str(cache_of_kinds))
    monkeypatch.setattr(gate, "_PAUSE", 0.0)
    return AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=120)


def test_the_password_lets_in_and_nothing_else_does(door: AppTest, monkeypatch):
    monkeypatch.setenv(gate.PASSWORD, "open sesame")
    door.run()
    assert [title.value for title in door.title] == ["RouteCal"]
    assert len(door.sidebar.selectbox) == 0
    door.text_input[0].input("open barley")
    door.button[0].click().run()
    assert "not the password" in door.error[0].value
    door.text_input[0].input("open sesame")
    door.button[0].click().run()
    assert not door.exception
    assert "What is in this cache" in door.title[0].value
    door.run()
    assert "What is in this cache" in door.title[0].value  # asked once per session


def test_a_request_that_did_not_pass_the_proxy_is_turned_away(door: AppTest, monkeypatch):
    monkeypatch.setenv(gate.USER_HEADER, "X-Forwarded-User")
    door.run()
    assert "sign-in page" in door.error[0].value
    assert len(door.title) == 0


def test_a_log_line_is_json_with_its_request_and_trace():
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("routecal-test")
    logger.addHandler(handler)
    logger.propagate = False
    reference = begin_request()
    try:
        raise ValueError('a "quoted"\nreason')
    except ValueError:
        logger.exception("it failed for %s", "reasons")
    line = json.loads(stream.getvalue())
    assert stream.getvalue().count("\n") == 1
    assert (line["request"], line["level"], line["message"]) == (reference, "error", "it failed for reasons")
    assert 'ValueError: a "quoted"\nreason' in line["trace"]


def test_a_viewer_sees_a_reference_and_not_the_reason(door: AppTest, monkeypatch):
    def fail() -> None:
        raise RuntimeError("secret path")

    monkeypatch.setattr("app.components.page.draw_sidebar", fail)
    door.run()
    assert "The server's log has it under" in door.error[0].value
    assert "secret" not in door.error[0].value
    assert door.exception  # Streamlit's own box: with showErrorDetails = "type" it names the type only
