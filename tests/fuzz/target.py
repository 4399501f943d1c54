"""One thing to fuzz: a few fixed examples of it in `make test`, as many as time allows in `make fuzz`."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import seed as with_seed
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.strategies import SearchStrategy

KEPT = Path(__file__).resolve().parents[2] / ".hypothesis" / "fuzz"
"""Failing examples, one folder per target, for the next run to start with."""
counted: Counter[str] = Counter()
"""Examples run in this process, by target."""


def scratch() -> Path:
    """A folder that goes with this process."""
    folder = Path(tempfile.mkdtemp(prefix="routecal-fuzz-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@dataclass(frozen=True)
class Target:
    """`body` is given one example and raises if it does not end as it should."""

    name: str
    strategy: SearchStrategy[Any]
    body: Callable[[Any], None]
    quick: int = 12
    """Examples in `make test`."""
    round: int = 100
    """Examples in one turn of `make fuzz`, which goes round all targets until its time is up."""

    def run(self, max_examples: int, *, seed: int | None = None) -> None:
        """Without a seed: the same examples every time, and nothing is kept."""
        fixed = seed is None

        @settings(
            max_examples=max_examples,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=fixed,
            database=None if fixed else DirectoryBasedExampleDatabase(KEPT / self.name.replace(" ", "_")),
            print_blob=not fixed,
            phases=set(Phase) - {Phase.explain},
        )
        @given(example=self.strategy)
        def test(example: Any) -> None:
            counted[self.name] += 1
            note(f"{self.name}: {example!r}")
            self.body(example)

        if seed is not None:
            test = with_seed(seed)(test)
        test()
