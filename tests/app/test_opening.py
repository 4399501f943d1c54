"""The first sign of a page comes before anything heavy, and goes when the page has its data."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from app.registry import page_for
from tests.app.driver import ROOT, open_app

HEAVY = {"pandas", "scipy", "duckdb", "app.shell.page"}


def test_the_first_sign_waits_for_no_library():
    """What app/main.py imports at its top comes before the title and the bar."""
    first = [ast.unparse(node) for node in ast.parse((ROOT / "app/main.py").read_text()).body
             if isinstance(node, ast.ImportFrom) and node.module.startswith("app.")]  # fmt: skip
    code = "\n".join([*first, "import sys", f"sys.exit(str({HEAVY!r} & set(sys.modules) or ''))"])
    ended = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert any("begin_opening" in line for line in first)
    assert ended.stderr.strip() == ""


def test_the_bar_goes_when_the_page_is_there(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "mechanism")
    assert app.title[0].value == page_for("mechanism").question
    assert not app.get("progress")


def test_the_bar_goes_when_there_is_no_cache(tmp_path: Path, monkeypatch):
    app = open_app(tmp_path / "none.duckdb", monkeypatch, "gap")
    assert app.title[0].value == page_for("gap").question
    assert "cannot be read" in app.warning[0].value
    assert not app.get("progress")
