"""What runs elsewhere is at least wired up: the workflow, the hooks and the forms are what their readers accept."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.serving import ROOT

FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"))


def read(path: Path) -> dict[Any, Any]:
    return yaml.safe_load(path.read_text())


WORKFLOW = read(ROOT / ".github/workflows/test.yml")
(JOB,) = WORKFLOW["jobs"].values()


def test_the_workflow_covers_every_system_and_python():
    matrix = JOB["strategy"]["matrix"]
    assert matrix == {
        "os": ["ubuntu-latest", "macos-latest", "windows-latest"],
        "python": ["3.11", "3.12", "3.13", "3.14"],
    }
    assert set(WORKFLOW[True]) == {"push", "pull_request"}  # YAML reads `on` as a truth value
    assert WORKFLOW["permissions"] == {"contents": "read"}


def test_the_workflow_runs_the_two_commands_and_they_exist():
    said = "\n".join(step.get("run", "") for step in JOB["steps"])
    for target in ("run", "test"):
        assert f"make {target} PYTHON=python" in said
        subprocess.run(["make", "--dry-run", target, "PYTHON=python"], cwd=ROOT, check=True, capture_output=True)


def test_steps_are_well_formed():
    for step in JOB["steps"]:
        assert ("uses" in step) != ("run" in step)
        assert "@v" in step.get("uses", "@v")
        subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True)


@pytest.mark.parametrize("form", [form for form in FORMS if form.stem != "config"], ids=lambda form: form.stem)
def test_forms_ask_what_github_can_show(form: Path):
    known = read(form)
    assert {"name", "description", "body"} <= set(known)
    assert all(field["type"] in {"textarea", "input"} and field["attributes"]["label"] for field in known["body"])
    assert len({field["id"] for field in known["body"]}) == len(known["body"])


def test_the_hooks_are_those_of_make():
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    assert repository["repo"] == "local"
    entries = [hook["entry"].removeprefix(".venv/bin/python -m ") for hook in repository["hooks"]]
    assert [entry.split()[0] for entry in entries] == ["ruff", "ruff", "mypy"]
    planned = [
        subprocess.run(["make", "--dry-run", target], cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for target in ("lint", "types")
    ]
    assert all(tool in "".join(planned) for tool in ("-m ruff check", "-m ruff format --check", "-m mypy"))
