"""The entry that the packages' commands share: only the chosen one is imported, every ending has its code, progress is
for whoever watches."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engine.commands.command_line import CLOSED, INTERRUPTED, REFUSED, run_command, terminal_progress

MODULE = """
from engine.core.errors import InvalidInput

def add_arguments(parser):
    parser.add_argument("--run", default="well")
    parser.add_argument("--lines", type=int, default=0)

def run(parsed):
    if parsed.run == "badly":
        raise InvalidInput("run", "well", "badly")
    if parsed.run == "never":
        raise KeyboardInterrupt
    for _ in range(parsed.lines):
        print("a line")
    return 7
"""
COMMANDS = {"good": ("a_command_of_this_test", "does it"), "absent": ("no_such_module_anywhere", "is not imported")}


@pytest.fixture(autouse=True)
def _command(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "a_command_of_this_test.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "a_command_of_this_test", raising=False)


def call(*arguments: str) -> int:
    return run_command("package", "About it.", COMMANDS, list(arguments))


def test_the_commands_own_code_is_returned():
    assert call("good") == 7


def test_bad_input_is_one_line_without_a_trace(capsys):
    assert call("good", "--run", "badly") == REFUSED
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "Traceback" not in said


def test_an_interrupt_is_no_trace_either(capsys):
    assert call("good", "--run", "never") == INTERRUPTED
    assert capsys.readouterr().err == "stopped\n"


@pytest.mark.parametrize("lines", [1, 10_000])  # noticed when the rest is written at the end, or on the way
def test_a_reader_that_leaves_early_is_no_error(lines: int, tmp_path: Path):
    read, write = os.pipe()
    os.close(read)
    script = (
        "import sys; from engine.commands.command_line import run_command as run; sys.exit(run(*eval(sys.argv[1])))"
    )
    call = ("package", "", COMMANDS, ["good", "--lines", str(lines)])
    ended = subprocess.run(
        [sys.executable, "-c", script, repr(call)],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"},
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (CLOSED, "")


@pytest.mark.parametrize(("arguments", "told"), [((), "required: command"), (("best",), "invalid choice: 'best'")])
def test_no_command_or_a_wrong_one_says_what_there_is(arguments: tuple[str, ...], told: str, capsys):
    with pytest.raises(SystemExit) as stopped:
        call(*arguments)
    assert stopped.value.code == 2
    assert told in capsys.readouterr().err


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stopped:
        call("--help")
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "does it" in printed
    assert "is not imported" in printed


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
