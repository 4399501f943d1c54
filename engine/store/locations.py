"""Where the cache and its shards are, unless somebody says otherwise."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "ROUTECAL_CACHE"
PROJECT_ROOT = Path(__file__).resolve().parents[2]


def default_cache_path() -> Path:
    """`data/routing.duckdb` of the project, or what the environment variable ROUTECAL_CACHE names."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else PROJECT_ROOT / "data" / "routing.duckdb"


def default_shards_directory() -> Path:
    """`data/shards` of the project."""
    return PROJECT_ROOT / "data" / "shards"
