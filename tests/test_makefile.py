"""The commands of the Makefile, as far as they can be asked without running them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("target", ["run", "publish", "screenshots", "latency"])
def test_the_bundled_runs_are_never_published_over_a_labs_cache(target: str):
    environment = os.environ | {"ROUTECAL_CACHE": "my/routing.duckdb"}
    command = ["make", "--dry-run", "--always-make", target]
    planned = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
    (publishing,) = [line for line in planned.splitlines() if "cache_builder publish" in line]
    assert publishing.endswith("publish data/shards --cache data/routing.duckdb")
