"""What the tests of pages share."""

from __future__ import annotations

import sys

import pytest


@pytest.fixture(autouse=True)
def _long_work_in_one_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest runs a script once, so long work is waited for instead of looked at again and again.

    Nor is it given up meanwhile: a job that nobody looks at ends after `PATIENCE`, which a busy machine can exceed.
    """
    monkeypatch.setattr("app.shell.long_work.FIRST_LOOK", 500.0)
    monkeypatch.setattr("app.compute.jobs.PATIENCE", 1000.0)


@pytest.fixture(autouse=True)
def _main_module_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """AppTest puts the script it runs in the place of `__main__`, which a process spawned later would import."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
