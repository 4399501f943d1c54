"""Libraries are kept from the garbage collector; what pages make is still collected."""

from __future__ import annotations

import gc
import sys
import types
import weakref

from app.workarounds.collector import spare_modules


class Node:
    """Something that refers to itself, so that only the collector can free it."""

    def __init__(self) -> None:
        self.own = self


def test_freezes_after_an_import_and_not_otherwise(monkeypatch):
    spare_modules()
    frozen = gc.get_freeze_count()
    assert frozen > 10_000  # pytest's own modules alone are more
    kept = [[] for _ in range(1000)]
    spare_modules()
    assert gc.get_freeze_count() <= frozen
    monkeypatch.setitem(sys.modules, "just_imported", types.ModuleType("just_imported"))
    spare_modules()
    assert gc.get_freeze_count() > frozen + len(kept) // 2


def test_later_garbage_is_still_collected():
    spare_modules()
    node = Node()
    left = weakref.ref(node)
    del node
    gc.collect()
    assert left() is None
