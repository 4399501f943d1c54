"""The entry that the packages' commands share: only the chosen one is imported, and every ending has its code."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine.commands.command_line import INTERRUPTED, REFUSED, run_command

MODULE = """
from engine.core.errors import InvalidInput

def add_arguments(parser):
    parser.add_argument("--run", default="well")

def run(parsed):
    if parsed.run == "badly":
        raise InvalidInput("run", "well", "badly")
    if parsed.run == "never":
        raise KeyboardInterrupt
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
