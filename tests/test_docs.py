"""The documentation keeps its word: links lead somewhere, commands exist, and the code it shows works."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.registry import PAGES
from engine.store import read_shard

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    *(
        ROOT / name
        for name in (
            "README.md",
            "CONTRIBUTING.md",
            "SECURITY.md",
            "CHANGELOG.md",
            "data/README.md",
            "data/paper/README.md",
        )
    ),
    *sorted((ROOT / "docs").glob("*.md")),
]
every_document = pytest.mark.parametrize(
    "document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT).with_suffix(""))
)


@every_document
def test_links_lead_somewhere(document: Path):
    for target in re.findall(r"\]\(([^)#\s]+)", document.read_text()):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target


def test_every_page_is_explained():
    text = (ROOT / "docs/reading-the-pages.md").read_text()
    assert [page.title for page in PAGES if page.title not in text] == []


def readme_examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


def test_any_model_is_a_run_in_ten_lines(tmp_path: Path):
    _, example = readme_examples()
    assert sum(bool(line.strip()) for line in example.splitlines()) <= 10
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", example]
    printed = subprocess.run(command, cwd=tmp_path, env=surroundings, capture_output=True, text=True, check=True)
    assert "--tap softmax:axis=0,rank=2" in printed.stdout
    record = read_shard(tmp_path / "my-shards" / "mine.parquet")
    assert (record.n_samples, record.n_layers, record.backbone) == (200, 12, "VisionTransformer")


def test_the_quick_start_of_the_readme_is_short_and_runs():
    example, _ = readme_examples()
    assert sum(bool(line.strip()) for line in example.splitlines()) <= 8
    printed = subprocess.run([sys.executable, "-c", example], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "confidence" in printed.stdout


def commands(text: str) -> Iterator[tuple[str, str, bool]]:
    """Package, arguments, and whether the command must be complete: in a block, but not in a sentence."""
    for position, part in enumerate(text.split("```")):
        in_block = position % 2 == 1
        lines = part.replace("\\\n", " ").splitlines() if in_block else re.findall(r"`([^`]+)`", part)
        for line in lines:
            found = re.search(r"python -m (engine|cache_builder|app)\b(.*)", line, re.DOTALL)
            if found is not None:
                yield found[1], found[2], in_block


def parser_of(package: str, name: str) -> argparse.ArgumentParser:
    """The parser of one command, as `engine.commands.command_line` makes it, but without abbreviations."""
    known = importlib.import_module(f"{package}.__main__").COMMANDS
    assert name in known, f"python -m {package} knows {', '.join(known)}, not {name}"
    parser = argparse.ArgumentParser(prog=f"python -m {package} {name}", allow_abbrev=False)
    importlib.import_module(known[name][0]).add_arguments(parser)
    return parser


@every_document
def test_commands_exist_with_these_options(document: Path, capsys):
    """Parsed, never run."""
    for package, rest, complete in commands(document.read_text()):
        name, *arguments = shlex.split(rest, comments=True) or ["--help"]
        if name == "--help":
            continue
        parser = parser_of(package, name)
        if not complete:
            for action in parser._actions:
                action.required = False
        try:
            parser.parse_args(arguments)
        except SystemExit:
            pytest.fail(f"python -m {package}{rest}\n{capsys.readouterr().err}")


def test_wrong_commands_are_noticed(tmp_path: Path, capsys):
    for wrong in ("engine audit --papers", "engine tables CACHE", "engine audit a b", "cache_builder info a b"):
        (tmp_path / "a.md").write_text(f"```\npython -m {wrong}  # what it does\n```\n")
        with pytest.raises(pytest.fail.Exception, match="usage"):
            test_commands_exist_with_these_options(tmp_path / "a.md", capsys)
    (tmp_path / "a.md").write_text("In words `python -m engine tables` does, and `python -m engine publish` does not.")
    with pytest.raises(AssertionError, match="not publish"):
        test_commands_exist_with_these_options(tmp_path / "a.md", capsys)


COPIED = ("app", "cache_builder", "data/paper", "docs", "engine", "pages", "tests", "pyproject.toml", ".streamlit")
WALKS = {
    "a calibrator": (
        "expectation or registry",
        ["tests/engine/calibrators/test_every_calibrator.py", "tests/engine/calibrators/test_expectation.py"],
    ),
    "a feature": (
        "by_hand or first",
        ["tests/engine/features/test_features.py"],
    ),
    "a statistic": (
        "high_minus_low or null-full or controls-full",
        ["tests/engine/gaps/test_high_minus_low.py", "tests/app/test_pages.py"],
    ),
    "a page": (
        "mistakes-full or mistakes-imported or counts or explained",
        ["tests/app/test_pages.py", "tests/app/test_mistakes.py", "tests/test_docs.py"],
    ),
}
"""Of each walk of docs/extending.md: what `pytest -k` selects, and where."""


def passes(arguments: list[str], folder: Path, text: str | None = None) -> None:
    # A copy may lie inside a repository; its git must not look at the one around it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment["GIT_CEILING_DIRECTORIES"] = str(folder.parent)
    done = subprocess.run(arguments, cwd=folder, env=environment, input=text, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def walks() -> str:
    """All diffs of docs/extending.md."""
    return "".join(
        re.findall(r"^```diff\n(.*?)^```", (ROOT / "docs/extending.md").read_text(), re.DOTALL | re.MULTILINE)
    )


@pytest.fixture(scope="module")
def extended(walks: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tree with all walks taken."""
    if shutil.which("git") is None:
        pytest.skip("git applies the diffs, and there is none here")
    tree = tmp_path_factory.mktemp("extended") / "tree"
    for name in COPIED:
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, tree / name)
        else:
            skipped = shutil.ignore_patterns("__pycache__", "screenshots", "scaling", ".hypothesis")
            shutil.copytree(ROOT / name, tree / name, ignore=skipped)
    passes(["git", "apply", "-"], tree, walks)
    return tree


@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_leaves_the_tests_green(walk: str, extended: Path):
    selected, files = WALKS[walk]
    passes([sys.executable, "-m", "pytest", "-q", "-k", selected, *files], extended)


def test_the_walks_leave_the_linter_silent(walks: str, extended: Path):
    changed = re.findall(r"^\+\+\+ b/(.*\.py)$", walks, re.MULTILINE)
    for check in (["check"], ["format", "--check"]):
        passes([sys.executable, "-m", "ruff", *check, "--no-cache", *changed], extended)
