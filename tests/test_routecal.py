"""`routecal`: one table over the commands of three packages, light to ask for help, completed by shells."""

from __future__ import annotations

import importlib
import os
import pty
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import routecal
from engine.commands.completion import completion
from tests.serving import ROOT

PACKAGES = ("app", "engine", "cache_builder")
HEAVY = {"pandas", "numpy", "scipy", "duckdb", "torch", "streamlit", "plotly"}


def test_every_command_of_every_package_is_there_once():
    tables = [importlib.import_module(f"{package}.__main__").COMMANDS for package in PACKAGES]
    names = [name for table in tables for name in table]
    assert len(set(names)) == len(names)
    assert set(routecal.COMMANDS) == {*names, "demo"}
    assert {"serve", "audit", "tables", "report", "build", "train", "extract", "sweep", "import", "publish", "verify",
            "info"} <= set(names)  # fmt: skip


def test_help_is_light_and_tells_commands_and_exit_codes():
    code = "import sys, routecal\ntry: routecal.main(['--help'])\nfinally: print(*sys.modules)"
    asked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    helped, _, modules = asked.stdout.rpartition("went away\n")
    assert not HEAVY & set(modules.split())
    assert all(f"\n    {name} " in helped for name in routecal.COMMANDS)
    assert all(f"\n  {status} " in helped for status in (0, 1, 2, 130, 141))


def test_the_demo_publishes_the_shards_it_finds_and_serves_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shards, asked = tmp_path / "shards", []
    shards.mkdir()
    (shards / "one.parquet").touch()
    run_demo = routecal.main
    monkeypatch.setattr(routecal, "main", lambda arguments: asked.append(arguments) or 0)
    assert run_demo(["demo", str(shards), "--port", "9"]) == 0
    cache = str(tmp_path / "routing.duckdb")
    assert asked == [["publish", str(shards), "--cache", cache], ["serve", cache, "--port", "9"]]


def test_the_demo_without_shards_is_wrong_input(tmp_path: Path, capsys):
    assert routecal.main(["demo", str(tmp_path)]) == 2
    assert "data/shards of RouteCal's source code" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [
        (True, {}, b"\x1b[31merror:\x1b[0m "),
        (True, {"NO_COLOR": "1"}, b"error: "),
        (True, {"TERM": "dumb"}, b"error: "),
        (False, {}, b"error: "),
    ],
)
def test_colours_are_for_terminals(terminal: bool, environment: dict[str, str], expected: bytes, tmp_path: Path):
    leader, follower = pty.openpty() if terminal else os.pipe()
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {"TERM": "xterm"} | environment
    command = [sys.executable, "-m", "routecal", "demo", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=known, stderr=follower, check=False, timeout=120)
    os.close(follower)
    said = os.read(leader, 1000)
    os.close(leader)
    assert said.startswith(expected)


@pytest.fixture(scope="module")
def parsers() -> dict[str, object]:
    """Of the commands that are light to import."""
    import argparse

    made = {}
    for name in ("info", "import", "demo"):
        module, summary = routecal.COMMANDS[name]
        made[name] = argparse.ArgumentParser(description=summary)
        importlib.import_module(module).add_arguments(made[name])
    return made


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["i"], "info import"),
        (["demo", "--p"], "--port"),
        (["import", "--prob"], "--probabilities"),
        (["info", ""], ""),
    ],
)
def test_bash_completes(typed: list[str], expected: str, parsers):
    script = completion("routecal", "bash", parsers)
    words = " ".join(f"'{word}'" for word in ["routecal", *typed])
    ask = f'{script}COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _routecal; echo "${{COMPREPLY[@]}}"'
    answered = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True)
    assert (answered.stdout.strip(), answered.stderr) == (expected, "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_accept_their_scripts(shell: str, parsers):
    script = completion("routecal", shell, parsers)
    assert "--port" in script or "-l port" in script
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    subprocess.run([shell, "-c", script], check=True)
