"""Opens pages without a browser and reads what is on them, for every test of a page.

from tests.app.driver import figures, numbers, open_app, published, shown, verdict

def test_x(cache_of_kinds, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", variant="Full-AR")  # ?variant=Full-AR
    assert "mean routing entropy" in shown(app)
    assert numbers(figures(app)[0]["data"][0]["x"]) == pytest.approx(...)
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest
from streamlit.testing.v1.element_tree import Block

from app.registry import page_for
from engine.core.types import RunData
from engine.store import RunRecord, open_cache, publish, write_shard

ROOT = Path(__file__).resolve().parents[2]


def open_app(cache: Path, monkeypatch: pytest.MonkeyPatch, page: str, /, **query: str | list[str]) -> AppTest:
    """The page over a cache, with `query` in its address; an exception on the page fails the test."""
    monkeypatch.setenv("ROUTECAL_CACHE", str(cache))
    app = AppTest.from_file(str(ROOT / "app/main.py"), default_timeout=600)
    for name, value in query.items():
        app.query_params[name] = value
    app.switch_page(str(page_for(page).script))
    app.run()
    assert not app.exception, app.exception
    return app


def shown(app: AppTest) -> str:
    """All text on the page as a reader sees it: verdict, headings, sentences, captions and notices."""
    kinds = ("title", "markdown", "caption", "info", "warning", "error")
    written = [element.value.replace("\\", "") for kind in kinds for element in app.get(kind)]
    return _breakable(" ".join([*written, *(html.unescape(body) for body in bodies(app))]))


def _breakable(text: str) -> str:
    """With plain spaces, where a page keeps `p = 0.15` on one line."""
    return text.replace("\u00a0", " ")


def bodies(app: AppTest) -> list[str]:
    """Every piece of HTML on the page."""
    return [element.proto.body for element in app.get("html")]


def verdict(app: AppTest) -> str:
    """The computed sentence under the title."""
    (place,) = keyed(app, "verdict")
    return _breakable(html.unescape(re.sub("<[^>]*>", "", place.get("html")[0].proto.body)))


def headline(app: AppTest) -> tuple[str, str]:
    """The state on the chip, and the answer beside it without its full stop."""
    (place,) = keyed(app, "verdict")
    found = re.search(r"<span[^>]*>\S (.*?)</span> <strong>(.*?)\.</strong>", place.get("html")[0].proto.body)
    assert found is not None
    return found[1], _breakable(html.unescape(found[2]))


def keyed(app: AppTest, key: str) -> list[Block]:
    """The containers of this key on the page, of which there is one or none; `app.shell.page` lists the keys."""
    found, left = [], [app.main]
    while left:
        block = left.pop()
        left += [child for child in block.children.values() if isinstance(child, Block)]
        if getattr(block.proto, "id", "").split("-", 2)[2:] == [key]:  # Streamlit writes `$$ID-<hash>-<key>`
            found.append(block)
    return found


def figures(app: AppTest) -> list[dict[str, Any]]:
    """What every figure on the page draws, in order."""
    return [json.loads(chart.proto.spec) for chart in app.get("plotly_chart")]


def traces(app: AppTest, position: int) -> dict[str, dict[str, Any]]:
    """The traces of one figure by name."""
    return {trace["name"]: trace for trace in figures(app)[position]["data"]}


def numbers(values: Any) -> np.ndarray:
    """An array of a figure, which Plotly sends as a list or as base64; breaks between lines are NaN."""
    if isinstance(values, dict):
        return np.frombuffer(base64.b64decode(values["bdata"]), dtype=values["dtype"])
    return np.asarray(values, dtype=float)


def load(cache: Path, run_id: str) -> RunData:
    """A run of the cache, to compute with."""
    with open_cache(cache) as opened:
        return opened.load(run_id)


def published(records: Iterable[RunRecord], folder: Path) -> Path:
    """A cache of these runs in an empty folder."""
    for record in records:
        write_shard(record, folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


def uncounted(make_run: Callable[..., RunRecord]) -> list[RunRecord]:
    """What stands beside the seeds of a sweep: an ensemble of seed 0, a run without routing, an imported run."""
    imported = make_run("imported", seed=4, logits=False, backbone="other", variant="theirs", suite="mine")
    return [
        make_run("seed0-last5", seed=0, suite="test-last5"),
        make_run("baseline-s0", seed=3, profile=False, variant="baseline"),
        replace(imported, seed=None),
    ]
