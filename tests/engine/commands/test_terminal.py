"""Progress is for whoever watches, and leaves no trace."""

from __future__ import annotations

import io
import sys

import pytest

from engine.commands.terminal import terminal_progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_nobody_watches_a_file(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert terminal_progress() is None


def test_a_line_is_rewritten_and_wiped_at_the_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", _Terminal())
    progress = terminal_progress()
    progress(0.5, "a run with a name that is longer than the sixty characters of the line")
    progress(1.0, "done")
    first, second, wiped, end = sys.stderr.getvalue().lstrip("\r").split("\r")
    assert first.startswith(" 50% a run with a name")
    assert len(first) == len(second) == len(wiped) == 65
    assert wiped.strip() == end == ""
