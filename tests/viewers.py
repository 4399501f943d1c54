"""Viewers without a browser: they speak the dashboard's own protocol over a web socket.

The server does all the work that a browser would cause, and what it sends is read element by element.
"""

from __future__ import annotations

import asyncio
import hashlib
import html
import re
import time
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from urllib.parse import urlencode

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.Element_pb2 import Element
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect

from app.parts.headlines import of_null
from app.shell.wording import typeset
from engine.features import FEATURES
from engine.metrics.mechanism import depth_profile, relate_to_error
from engine.metrics.reliability import calibration_summary
from engine.store import RunRecord, open_cache, write_shard
from engine.sweep import diagnose, single_models
from engine.sweep.others import other_entropies
from engine.verdict import judge
from engine.verdict.cache import judge_cache
from engine.verdict.wording import controls_sentence, mechanism_sentence, reliability_sentence
from tests.serving import Served

FEATURE = FEATURES["r_agg"].label
RUN = "run-s0"
REFERENCE = re.compile("log has it under ([0-9a-f]{12})")
Result = TypeVar("Result")


def write_version(shards: Path, version: int, n_samples: int, n_runs: int = 6) -> None:
    """Runs whose numbers depend on the version, under the same names."""
    for seed in range(n_runs):
        rng = np.random.default_rng(100 * version + seed)
        confidence = rng.beta(4, 1.2, n_samples)
        record = RunRecord(
            run_id=f"run-s{seed}", suite="load", backbone="toy", dataset="dice", variant="full_ar", seed=seed,
            confidence=confidence, correct=rng.random(n_samples) < confidence, entropies=rng.random((n_samples, 8)),
        )  # fmt: skip
        write_shard(record, shards)


_EXPLAINED = re.compile("</?abbr[^>]*>")
"""Around a term with a tooltip (`app.shell.glossary`)."""


def expected_verdicts(cache: Path) -> tuple[str, dict[str, str]]:
    """Fingerprint, and the verdict of every page on the first run (or on the whole cache); all carry its numbers."""
    with open_cache(cache) as opened:
        run = opened.load(RUN)
        names = opened.layers(RUN)["name"].tolist()
        counted = single_models(diagnose(opened))
        rho = run.entropies.mean(axis=1)
        others = other_entropies(opened, run.run_id)
        test = judge(run.confidence, run.correct, rho, feature=FEATURE, outputs=run.logits, others=others)
        sentences = {
            "reliability": reliability_sentence(calibration_summary(run.confidence, run.correct)),
            "mechanism": mechanism_sentence(
                depth_profile(run.entropies, run.correct, names=names),
                relate_to_error(run.confidence, run.correct, rho),
                FEATURE,
            ),
        }
        sentences |= dict.fromkeys(("overview", "sweep"), judge_cache(counted, feature=FEATURE).detail)
        sentences |= {"gap": test.detail, "null": of_null(test)[1], "controls": controls_sentence(test)[1]}
        return opened.fingerprint, {page: typeset(sentence) for page, sentence in sentences.items()}


@dataclass
class Seen:
    """What one run of the script has drawn: the last state of every place on the page."""

    served: Served
    elements: dict[tuple[int, ...], Element] = field(default_factory=dict)
    looks_again: dict[str, float] = field(default_factory=dict)
    """Seconds after which a browser would run a fragment again, by fragment."""
    fragments: list[str] = field(default_factory=list)
    """Those that have drawn something, in order."""

    def of(self, *kinds: str) -> list[Element]:
        """The elements of these kinds, from the top."""
        return [self.elements[at] for at in sorted(self.elements) if self.elements[at].WhichOneof("type") in kinds]

    @property
    def text(self) -> str:
        """All prose on the page."""
        bodies = (getattr(element, str(element.WhichOneof("type"))).body for element in self.of("markdown", "html"))
        return html.unescape(_EXPLAINED.sub("", " ".join(bodies)))

    @property
    def titles(self) -> list[str]:
        return [element.heading.body for element in self.of("heading") if element.heading.tag == "h1"]

    @property
    def alerts(self) -> list[str]:
        return [element.alert.body for element in self.of("alert")]

    @property
    def exceptions(self) -> list[str]:
        return [f"{element.exception.type}: {element.exception.message}" for element in self.of("exception")]

    def assert_sound(self) -> None:
        """Fail if something went wrong on the page. It tells no more than a type, so the log's traces are shown too."""
        references = REFERENCE.findall(" ".join(self.alerts))
        if self.exceptions or references:
            faults = self.served.faults()
            named = [fault for fault in faults if any(reference in fault for reference in references)]
            raise AssertionError("\n".join([*self.titles, *self.exceptions, *self.alerts, *(named or faults)]))

    def contents(self) -> tuple[str, ...]:
        """Digests of everything that carries numbers: prose, figures, tables, from the top."""
        return tuple(_digest(element) for element in self.of("markdown", "html", "plotly_chart", "dataframe", "table"))


def _digest(element: Element) -> str:
    kind = str(element.WhichOneof("type"))
    shown = getattr(element, kind)
    match kind:
        case "markdown" | "html":
            content = re.sub(r'href="[^"]*"', "", shown.body).encode()  # where a link leads is not a number
        case "plotly_chart":
            content = shown.spec.encode()
        case _:
            content = shown.arrow_data.data
    return f"{kind} {hashlib.sha256(content).hexdigest()[:16]}"


def run_through(work: Coroutine[Any, Any, Result]) -> Result:
    """`asyncio.run` on a thread of its own: the main one may hold the loop of a browser that other tests use."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()


class Viewer:
    """One browser window. `async with Viewer(served) as viewer: seen = await viewer.open("gap")`."""

    def __init__(self, served: Served, headers: Mapping[str, str] | None = None) -> None:
        self._served = served
        self._headers = headers  # such as a reverse proxy adds
        self._page = ""
        self._query = ""
        self._script = ""
        self._socket: ClientConnection

    async def __aenter__(self) -> Self:
        self._socket = await connect(
            self._served.stream, subprotocols=["streamlit"], max_size=None, additional_headers=self._headers
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    async def open(self, page: str, query: Mapping[str, str] | None = None) -> Seen:
        """Go to a page, or draw it again; `query` holds choices as they are shown, such as {"run": "seed 1"}."""
        self._page, self._query = page, urlencode(query or {})
        await self._send()
        return await self._read(Seen(self._served))

    async def wait_for(self, seen: Seen, patience: float = 20.0) -> Seen:
        """Do what a browser does with a page that looks again by itself, until it has drawn itself anew."""
        deadline = time.monotonic() + patience
        while seen.looks_again:
            assert time.monotonic() < deadline, "the page did not come back by itself"
            seen = await self.look_again(seen)
        return seen

    async def look_again(self, seen: Seen) -> Seen:
        """Do it once."""
        fragment, seconds = next(iter(seen.looks_again.items()))
        await asyncio.sleep(seconds)
        return await self.redraw(seen, fragment)

    async def redraw(self, seen: Seen, fragment: str) -> Seen:
        """Do what a click on a control of a fragment does: draw the fragment only."""
        await self._send(fragment)
        return await self._read(seen)

    async def _send(self, fragment: str = "") -> None:
        request = BackMsg()
        request.rerun_script.query_string = self._query
        if fragment:
            request.rerun_script.fragment_id = fragment
            request.rerun_script.page_script_hash = self._script
        else:
            request.rerun_script.page_name = self._page
        await self._socket.send(request.SerializeToString())

    async def receive(self) -> bytes:
        return cast(bytes, await asyncio.wait_for(self._socket.recv(), timeout=90))

    async def _read(self, seen: Seen) -> Seen:
        """Add what the script draws to what was there, until it is done; one that begins anew starts with nothing."""
        while True:
            message = ForwardMsg.FromString(await self.receive())
            match message.WhichOneof("type"):
                case "script_finished":
                    if message.script_finished != ForwardMsg.FINISHED_EARLY_FOR_RERUN:
                        return seen
                    seen = Seen(self._served)
                case "navigation":
                    self._script = message.navigation.page_script_hash
                case "auto_rerun":
                    seen.looks_again[message.auto_rerun.fragment_id] = message.auto_rerun.interval
                case "delta":
                    if message.delta.fragment_id and message.delta.fragment_id not in seen.fragments:
                        seen.fragments.append(message.delta.fragment_id)
                    place = tuple(message.metadata.delta_path)
                    if message.delta.WhichOneof("type") == "new_element":
                        seen.elements[place] = message.delta.new_element
                    elif message.delta.WhichOneof("type") == "add_block":
                        seen.elements.pop(place, None)
