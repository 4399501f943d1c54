"""Where runs say they come from, and what a log shows of them."""

import io
import subprocess

import pytest
import torch

from cache_builder import provenance
from cache_builder.progress import UNDER_WAY, console


@pytest.fixture(autouse=True)
def _forget_the_version():
    provenance.code_version.cache_clear()
    yield
    provenance.code_version.cache_clear()


@pytest.mark.parametrize(("status", "expected"), [("", "abc123"), (" M train.py", "abc123+changes")])
def test_changed_code_is_marked(monkeypatch, status, expected):
    answers = {"rev-parse": "abc123\n", "status": status}
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **_: subprocess.CompletedProcess(command, 0, stdout=answers[command[1]]),
    )
    assert provenance.code_version() == expected


def test_outside_git_the_version_is_unknown(monkeypatch):
    def absent(*_arguments, **_options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", absent)
    assert provenance.code_version() == "unknown"


def test_description_has_versions_device_and_data():
    described = provenance.describe("a test", torch.device("cpu"), 1.234, "f00d")
    assert described["versions"]["torch"] == torch.__version__
    assert described["device"].startswith("cpu: ")
    assert (described["seconds"], described["data_fingerprint"], described["source"]) == (1.2, "f00d", "a test")


def test_a_log_gets_epoch_lines_and_not_every_step():
    stream = io.StringIO()
    progress = console(stream, every_seconds=1000)
    progress(0.1, f"epoch 1/2{UNDER_WAY}")
    progress(0.2, f"epoch 1/2{UNDER_WAY}")
    progress(0.5, "epoch 1/2, loss 1.000")
    progress(0.6, "[1/2 runs] one: trained")
    progress(1.0, "epoch 2/2, loss 0.500")
    assert stream.getvalue().splitlines() == [
        " 10.0 %  epoch 1/2 ...",
        " 50.0 %  epoch 1/2, loss 1.000",
        " 60.0 %  [1/2 runs] one: trained",
        "100.0 %  epoch 2/2, loss 0.500",
    ]


def test_a_terminal_gets_one_line_that_changes():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    progress = console(stream)
    progress(0.5, "half")
    progress(1.0, "whole")
    assert stream.getvalue() == "\r\x1b[K 50.0 %  half\r\x1b[K100.0 %  whole\n"
