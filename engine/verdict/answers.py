"""What everybody asks first, computed once: the answers at default settings that `publish` stores with a cache.

Raise `engine.store.schema.ENGINE_VERSION` with every change of what is computed here.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import pandas as pd

from engine.controls import RealControl, real_control
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import RunData
from engine.features import FEATURES, feature
from engine.store import Cache
from engine.store.cache import Diagnosis
from engine.store.codec import Unreadable, decode, encode
from engine.store.diagnoses import OF_THE_CACHE, Diagnoses, read_diagnoses, write_diagnoses
from engine.sweep import DEFAULT_FEATURE, diagnose, diagnose_run
from engine.sweep.others import MOST, other_entropies, others_of
from engine.verdict.run import Verdict, judge, with_real_control

Result = TypeVar("Result")
LABEL = FEATURES[DEFAULT_FEATURE].label


@dataclass(frozen=True, eq=False)
class Question(Generic[Result]):
    """A question by its name, with the type of its answer. A run that lacks what it takes has none."""

    name: str
    kind: Any
    answer: Callable[[RunData], Result]

    def read(self, cache: Cache, run_id: str = "") -> Result | None:
        """The stored answer, None where there is none that can be read: it is then computed."""
        text = cache.diagnosis(run_id, DEFAULT_FEATURE, self.name)
        try:
            return None if text is None else cast(Result, decode(text, self.kind))
        except Unreadable:
            return None


def _judged(run: RunData) -> Verdict:
    """Without what other runs know: a verdict on a shard must not change when another one comes."""
    rho = feature(run, DEFAULT_FEATURE)
    return judge(run.confidence, run.correct, rho, feature=LABEL, outputs=run.logits, clusters=run.clusters)


def _row(run: RunData) -> pd.DataFrame:
    return pd.DataFrame([diagnose_run(run)])


VERDICT = Question("verdict", Verdict, _judged)
ROW = Question("row", pd.DataFrame, _row)
OF_RUNS: tuple[Question[Any], ...] = (VERDICT, ROW)
SWEEP: Question[pd.DataFrame] = Question("sweep", pd.DataFrame, _row)
"""Of the whole cache: the rows of `diagnose`."""


def answers_of(run: RunData, known: Diagnoses) -> dict[str, str]:
    """The answers to all questions about a run, encoded; "null" where it lacks what one takes."""
    found = dict(known)
    for question in OF_RUNS:
        if question.name not in known:
            try:
                found[question.name] = encode(question.answer(run))
            except (MissingData, InvalidInput):
                found[question.name] = "null"
    return found


def is_complete(answers: Diagnoses) -> bool:
    """Whether no question about a run is open."""
    return answers.keys() == {question.name for question in OF_RUNS}


def diagnoses_of(cache: Cache, directory: Path) -> Iterator[Diagnosis]:
    """All that is stored with a cache: what is kept beside its shards, and what they say together.

    The latter is kept beside them too, under names with the checksums that it depends on.
    """
    runs, digests = cache.runs(), cache.digests
    kept = {run_id: read_diagnoses(directory, run_id, digest) for run_id, digest in digests.items()}
    before, now = read_diagnoses(directory, OF_THE_CACHE, ""), dict[str, str]()
    tested = {run_id: decode(held[ROW.name], pd.DataFrame) for run_id, held in kept.items() if ROW.name in held}
    rows = {run_id: row.to_dict("records")[0] for run_id, row in tested.items()}
    name = f"{SWEEP.name} {_key(digests.values())}"
    now[name] = before.get(name) or encode(diagnose(cache, known=rows))
    yield Diagnosis("", DEFAULT_FEATURE, SWEEP.name, now[name])
    for run_id, held in kept.items():
        for question, text in held.items():
            if question == VERDICT.name and text != "null":
                name, real = _real(cache, run_id, others_of(runs, run_id), before)
                now[name] = encode(real)
                text = encode(with_real_control(decode(text, Verdict), real, LABEL))
            if question != ROW.name and text != "null":
                yield Diagnosis(run_id, DEFAULT_FEATURE, question, text)
    if now != before:
        write_diagnoses(directory, OF_THE_CACHE, "", now)


def _real(cache: Cache, run_id: str, candidates: Sequence[str], before: Diagnoses) -> tuple[str, RealControl | None]:
    """What other runs know of these samples, and the name that tells when it must be computed anew.

    With the first candidates it does not depend on further ones; where one of those has other samples, on any.
    """
    first = candidates[:MOST]
    names = [
        f"real {run_id} {_key(cache.digests[each] for each in (run_id, *looked_at))}"
        for looked_at in (first, candidates)
    ]
    for name in names:
        if name in before:
            return name, decode(before[name], cast(Any, RealControl | None))
    others = other_entropies(cache, run_id)
    run = cache.load(run_id, set())
    real = real_control(run.confidence, run.correct, others) if others else None
    return names[0 if list(others) == first else 1], real


def _key(checksums: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(checksums).encode()).hexdigest()[:16]
