"""The public functions of the engine, each with what its arguments are meant to be.

`ENTRIES` is what the fuzz calls; `missing` says, per field or column of the result, what NaN means there. A public
function that is not called says why in `exempt.py`.
"""

from __future__ import annotations

from engine.core import labels
from engine.paper import published
from tests.fuzz.catalogue.descriptions import FEATURES, MECHANISM
from tests.fuzz.catalogue.entry import Entry
from tests.fuzz.catalogue.fits import FITTED, KERNEL, PROBE_ENTRIES
from tests.fuzz.catalogue.gaps_and_controls import CONTROLS, GAPS, METRICS
from tests.fuzz.catalogue.studies import BENCHMARK
from tests.fuzz.strategies import TEXT, choice

SWEEP = [
    Entry("ensemble_size", labels.ensemble_size, {"suite": TEXT}),
]

WORDS = [
    Entry(
        "published.load",
        published.load,
        {"table": choice(*published.TABLES, published.STATEMENTS)},
        missing=dict.fromkeys(("value", "std", "n"), "the paper leaves the cell empty"),
    ),
]

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        *METRICS,
        *GAPS,
        *CONTROLS,
        *KERNEL,
        *FITTED,
        *PROBE_ENTRIES,
        *FEATURES,
        *MECHANISM,
        *BENCHMARK,
        *SWEEP,
        *WORDS,
    )
}
