"""No public function of the engine escapes the fuzz unnoticed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import engine
from tests.fuzz import import_targets, store_targets
from tests.fuzz.catalogue import ENTRIES
from tests.fuzz.exempt import REASONS

PROGRAMS = {"engine.__main__", "engine.commands"}
"""Command lines and measurements, not functions to call."""
BY_MODULE = {"engine.core", "engine.features", "engine.metrics", "engine.verdict"}
"""Packages whose modules are called directly, besides what their `__init__` re-exports."""


ALSO = ("engine.paper.claims", "engine.paper.published", "engine.sandbox.run", "engine.sandbox.child")


def modules() -> Iterator[str]:
    yield from ALSO
    for found in pkgutil.iter_modules(engine.__path__, "engine."):
        if found.name not in PROGRAMS:
            yield found.name
        if found.name in BY_MODULE:
            package = importlib.import_module(found.name)
            yield from (inner.name for inner in pkgutil.iter_modules(package.__path__, f"{found.name}."))


def public() -> Iterator[tuple[str, object]]:
    """What `__all__` lists; else what is defined without an underscore, in a package also what it takes from within."""
    for found in modules():
        module = importlib.import_module(found)
        listed = getattr(module, "__all__", None)
        for name in listed or vars(module):
            value = getattr(module, name)
            origin = f"{getattr(value, '__module__', '')}."
            ours = origin.startswith(f"{found}.") if hasattr(module, "__path__") else origin == f"{found}."
            if callable(value) and (listed is not None or (ours and not name.startswith("_"))):
                yield f"{found}.{name}", value


def test_every_public_function_is_fuzzed_or_says_why_not():
    fuzzed = {id(item) for entry in ENTRIES.values() for item in entry.covers or (entry.function,)}
    fuzzed |= {id(item) for item in (*store_targets.COVERED, *import_targets.COVERED)}
    exempt = {id(item) for items in REASONS.values() for item in items}
    names = dict(public())
    neither = sorted(name for name, item in names.items() if id(item) not in fuzzed | exempt)
    both = sorted(name for name, item in names.items() if id(item) in fuzzed & exempt)
    assert not neither, f"give these an entry in tests/fuzz/catalogue, or a reason in exempt.py: {neither}"
    assert not both, f"these are fuzzed, so they need no reason: {both}"


def test_no_reason_outlives_its_function():
    known = {id(item) for _, item in public()}
    stale = [item for items in REASONS.values() for item in items if id(item) not in known]
    assert not stale
