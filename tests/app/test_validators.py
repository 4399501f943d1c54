"""Two viewers who draw their first figures at the same moment."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import app.plots
from plotly.validator_cache import ValidatorCache
made = {name: each.plotly_name for (_, name), each in ValidatorCache._cache.items() if name[1:].startswith("axis")}
assert {"xaxis", "xaxis2", "xaxis3", "xaxis4", "yaxis", "yaxis4"} <= made.keys(), made
assert all(name == known for name, known in made.items()), made
"""


def test_axes_are_known_under_their_names_before_anybody_draws_one():
    ended = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
