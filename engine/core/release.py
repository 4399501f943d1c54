"""Which code runs: a checkout with its commit, or a release that was installed."""

import subprocess
from pathlib import Path

__version__ = "0.2.0"
ROOT = Path(__file__).resolve().parents[2]
"""What the packages lie in."""
IS_CHECKOUT = (ROOT / "pyproject.toml").is_file()
DATA = (ROOT if IS_CHECKOUT else Path.cwd()) / "data"
"""Where caches and shards are looked for: in the checkout, or where an installed release was started."""


def commit(*, mark: str = "") -> str:
    """The commit of this checkout, with a mark when cache_builder was changed after it; empty outside git.

    An installed release may lie in somebody else's repository, whose commit says nothing.
    """

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        if not IS_CHECKOUT:
            return ""
        found = git("rev-parse", "HEAD")
        changed = mark and git("status", "--porcelain", "--untracked-files=no", "--", "cache_builder")
        return found + (mark if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
