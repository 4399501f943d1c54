"""A target for every entry of the catalogue."""

from __future__ import annotations

from tests.fuzz.catalogue import ENTRIES
from tests.fuzz.catalogue.entry import Entry, as_run
from tests.fuzz.outcome import sound
from tests.fuzz.strategies import Call, calls
from tests.fuzz.target import Target


def _target(entry: Entry) -> Target:
    def body(call: Call) -> None:
        sound(
            lambda: entry.function(**as_run(call.arguments, entry.arguments)),
            call.arguments,
            named=entry.named,
            missing=entry.missing,
        )

    strategy = calls(dict(entry.arguments), dict(entry.settings), dict(entry.fixed), entry.at_least, entry.at_most)
    return Target(entry.name, strategy, body)


TARGETS = [_target(entry) for entry in ENTRIES.values()]
