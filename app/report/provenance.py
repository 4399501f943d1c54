"""Where runs and numbers come from, as tables without names of people, machines and places."""

import json
import platform
import subprocess
import tomllib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd

from app.registry import ROOT

PACKAGES = ("numpy", "scipy", "pandas", "duckdb", "plotly")
_IN_THE_NAME = frozenset({"suite", "backbone", "dataset", "variant", "block_size", "seed"})
_LONGEST_WORD = 40


def versions() -> dict[str, str]:
    """This program, the language and the packages that computed and drew the report."""
    release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return {
        "RouteCal": f"{release}{_commit()}",
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def _commit() -> str:
    """` (commit 0123456789ab)` of this checkout; nothing outside one."""
    try:
        found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f" (commit {found.stdout.strip()[:12]})"


def origins(runs: pd.DataFrame) -> pd.DataFrame:
    """One row per run: how it was made, by which code, on what, from which data. Only entries that we know."""
    rows = []
    for row in runs.itertuples(index=False):
        found = json.loads(row.provenance)
        rows.append({
            "Run": row.run,
            "Made by": _word(found.get("source"), longest=80),
            "Code": _word(found.get("commit"))[:12],
            "Device": _word(found.get("device"), longest=80),
            "Data fingerprint": _word(found.get("data_fingerprint"))[:12],
            "Date": f"{row.created_at:%d\u00a0%b\u00a0%Y}",
        })  # fmt: skip
    return pd.DataFrame(rows)


def builders(runs: pd.DataFrame) -> pd.DataFrame:
    """The sets of package versions that runs were built with, and how many runs each."""
    counts: dict[str, int] = {}
    for entry in runs["provenance"]:
        found = json.loads(entry).get("versions")
        listed = {} if not isinstance(found, Mapping) else found
        text = ", ".join(f"{name} {_word(number)}" for name, number in sorted(listed.items())) or "not recorded"
        counts[text] = counts.get(text, 0) + 1
    return pd.DataFrame({"Built with": list(counts), "Runs": list(counts.values())})


def notes(provenance: str) -> list[str]:
    """What an import said about its data."""
    found = json.loads(provenance).get("notes")
    return [str(note) for note in found] if isinstance(found, list) else []


def configurations(runs: pd.DataFrame) -> tuple[dict[str, str], pd.DataFrame]:
    """Settings that all these runs share, and those in which they differ, a row per run; names apart."""
    found = [json.loads(config) for config in runs["config"]]
    keys = dict.fromkeys(key for config in found for key in config if key not in _IN_THE_NAME)
    values = {key: [_word(config[key]) if key in config else "" for config in found] for key in keys}
    named = {key.replace("_", " "): column for key, column in values.items()}
    shared = {name: column[0] for name, column in named.items() if len(set(column)) == 1}
    differing = {name: column for name, column in named.items() if name not in shared}
    return shared, pd.DataFrame({"Run": runs["run"].tolist(), **differing}) if differing else pd.DataFrame()


def _word(value: Any, longest: int = _LONGEST_WORD) -> str:
    """A value in print. Long text is left out: nobody can tell what it gives away."""
    if value is None:
        return "–"
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= longest else "(long text left out)"
