"""A cache without the names of people, machines and places, so that a report can go into a double-blind review.

A report takes every word that comes from a cache from here, and where runs and numbers come from is told from here.
What is removed: absolute paths, addresses, the names of files, whatever stands under a key such as `user` or `host`,
the owners of home folders, and the names of this machine and of whoever uses it; a name found in one place is removed
from all others, from the ids of runs too.
"""

import getpass
import json
import platform
import re
import socket
import subprocess
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from app.registry import ROOT
from engine.core.errors import UnknownName
from engine.core.types import COLUMNS, RunData
from engine.features import FEATURES
from engine.store import Cache

_NAMES = ("suite", "backbone", "dataset", "variant")
_PERSONAL = frozenset({
    "user", "username", "owner", "author", "authors", "login", "email", "mail", "contact", "host", "hostname", "node",
    "nodename", "machine", "server", "cluster", "institution", "institute", "affiliation", "lab", "team", "person",
    "operator", "home", "cwd",
})  # fmt: skip
# Names that every second machine has; they identify nobody, and removing them would garble the rest.
_COMMON = frozenset({
    "root", "user", "users", "admin", "administrator", "ubuntu", "debian", "docker", "runner", "nobody", "guest",
    "default", "home", "data", "app", "model", "models", "test", "train", "localhost", "local", "none", "null", "true",
    "false", "unknown", "cpu", "gpu", "cuda",
})  # fmt: skip
_HOME = re.compile(
    r"[\\/](?:home|users|scratch)[\\/]([^\\/\s\"']+(?: [^\\/\s\"']+)*(?=[\\/])|[^\\/\s\"']+)", re.IGNORECASE
)
_MAIL = re.compile(r"([\w.+-]+)@([\w-]+(?:\.[\w-]+)*)")
_DOMAINS = (
    "edu|com|org|net|gov|mil|int|io|ai|dev|local|lan|internal|intranet|localdomain|uk|de|fr|ch|at|nl|it|es|jp|cn|ca|au"
)
_PRIVATE = re.compile(
    r"\b[a-z][a-z0-9+.-]*://[^\s\"'<>]+"  # any address with a scheme
    r"|[\w.+-]+@[\w.-]+"  # mail, user@host
    r"|(?:\b[a-z]:[\\/]|\\\\|(?<![\w.])~[\w.-]*/|(?<![\w<.)\]/])/(?=[\w.~@-]))"  # where an absolute path begins
    r"(?:[^\n\"'<>|*?;]*[\\/])?[^\s\"'<>|;,)]*"  # and all of it: names of folders may hold spaces
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b"
    rf"|\b(?:[a-z0-9-]+\.)+(?:{_DOMAINS})\b"
    r"|[\w-][\w.-]*\.(?:csv|tsv|npz|npy|parquet|pt|pth|ckpt|safetensors|pkl|json|ya?ml|toml|h5|duckdb|bin|txt|log|py|sh"
    r"|ipynb|zip|tar|gz)\b",
    re.IGNORECASE,
)


def _strings(value: Any, *, personal: bool = False) -> Iterator[tuple[str, bool]]:
    """Every text in a JSON value, and whether it stands under a key that says who or where."""
    if isinstance(value, str):
        yield value, personal
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield str(key), False
            yield from _strings(part, personal=personal or is_personal(str(key)))
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part, personal=personal)


def is_personal(key: str) -> bool:
    """Whether what stands under this key says who or where: `user`, `host_name`, `trainedByUser`, ..."""
    words = re.sub(r"([a-z])([A-Z])", r"\1 \2", key).lower()
    return bool(_PERSONAL & set(re.split(r"[^a-z]+", words)))


def names_of_this_machine() -> tuple[str, ...]:
    """User, home folder and host."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user without an entry, as in some containers
        user = ""
    return user, Path.home().name, socket.gethostname()


class Scrubber:
    """Replaces private words by `removed-1`, `removed-2`, ...: equal ones alike, so that what differs still differs."""

    def __init__(self, texts: Iterable[tuple[str, bool]], names: Iterable[str]) -> None:
        found = set(names)
        for text, personal in texts:
            if personal:
                found.add(text)
            found |= set(_HOME.findall(text))
            for user, host in _MAIL.findall(text):
                found |= {user, host}
        found |= {name.partition(".")[0] for name in found}
        known = sorted(
            {name.strip() for name in found if self._tells(name.strip())}, key=lambda name: (-len(name), name)
        )
        alternatives = "|".join(re.escape(name) for name in known)
        self._known = re.compile(rf"(?<![a-z0-9])(?:{alternatives})(?![a-z0-9])", re.IGNORECASE) if known else None
        self._numbers: dict[str, int] = {}

    @staticmethod
    def _tells(name: str) -> bool:
        return len(name) > 2 and name.lower() not in _COMMON and not name.replace(".", "").isdigit()

    @property
    def n_removed(self) -> int:
        """How many different words were removed so far."""
        return len(self._numbers)

    def __call__(self, text: str) -> str:
        text = _PRIVATE.sub(self._replace, text)
        return text if self._known is None else self._known.sub(self._replace, text)

    def _replace(self, match: re.Match[str]) -> str:
        return f"removed-{self._numbers.setdefault(match[0].lower(), len(self._numbers) + 1)}"

    def json(self, value: Any) -> Any:
        """A JSON value without its personal entries, every text in it cleaned."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(str(key)): self.json(part) for key, part in value.items() if not is_personal(str(key))}
        return [self.json(part) for part in value] if isinstance(value, list) else value


class BlindCache:
    """What the engine and the report need of a cache, every word of it cleaned. Runs go by their cleaned ids."""

    def __init__(self, cache: Cache, names: Iterable[str] | None = None) -> None:
        """names : further names to remove; this machine's and its user's if not given."""
        self._cache = cache
        self.fingerprint = cache.fingerprint
        self._original = cache.runs()
        texts = [
            text
            for column in ("config", "provenance")
            for entry in self._original[column]
            for text in _strings(json.loads(entry))
        ]
        self.scrub = Scrubber(texts, names_of_this_machine() if names is None else names)
        self._ids: dict[str, str] = {}
        for run_id in self._original["run_id"]:
            clean, again = self.scrub(run_id), 1
            while clean in self._ids:
                again += 1
                clean = f"{self.scrub(run_id)}-{again}"
            self._ids[clean] = run_id

    @cached_property
    def _runs(self) -> pd.DataFrame:
        cleaned = {name: [self.scrub(value) for value in self._original[name]] for name in _NAMES}
        for name in ("config", "provenance"):
            cleaned[name] = [json.dumps(self.scrub.json(json.loads(entry))) for entry in self._original[name]]
        extra = [[self.scrub(name) for name in names] for names in self._original["extra_names"]]
        return self._original.assign(
            run_id=list(self._ids), extra_names=pd.Series(extra, index=self._original.index, dtype=object), **cleaned
        )

    def runs(self) -> pd.DataFrame:
        """As `Cache.runs`."""
        return self._runs.copy()

    def clean_rows(self, rows: pd.DataFrame) -> pd.DataFrame:
        """A table with one row per run of the cache, in its order, as if it had been made of the cleaned one."""
        words = [name for name in ("run_id", *_NAMES) if name in rows]
        cleaned = self._runs.set_index(self._original["run_id"]).loc[rows["run_id"], words]
        notes = [note if pd.isna(note) else self.scrub(note) for note in rows["note"]]
        return rows.assign(**{name: cleaned[name].to_numpy() for name in words}, note=notes)

    def load(self, run_id: str, columns: Collection[str] = COLUMNS) -> RunData:
        """As `Cache.load`; the extra columns, whose names are cleaned, are always among those read."""
        run = self._cache.load(self._ids[run_id], {"extra", *columns})
        return run.replace(run_id=run_id, extra={self.scrub(name): column for name, column in run.extra.items()})

    def layers(self, run_id: str) -> pd.DataFrame:
        """As `Cache.layers`."""
        layers = self._cache.layers(self._ids[run_id])
        return layers.assign(name=[self.scrub(name) for name in layers["name"]])

    def clean_ids(self, run_ids: Iterable[str]) -> list[str]:
        """The ids under which runs go here; an unknown one is an error that names those there are."""
        by_original = {original: clean for clean, original in self._ids.items()}
        chosen = list(dict.fromkeys(run_ids))
        for run_id in chosen:
            if run_id not in by_original:
                raise UnknownName("--run", run_id, by_original)
        return [by_original[run_id] for run_id in chosen]

    def clean_feature(self, name: str) -> str:
        """The name under which a feature goes here; one that neither we nor any run knows is an error."""
        own = dict.fromkeys(column for names in self._original["extra_names"] for column in names)
        if name not in FEATURES and name not in own:
            raise UnknownName("--feature", name, [*FEATURES, *own])
        return name if name in FEATURES else self.scrub(name)


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
