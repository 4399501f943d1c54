"""What everybody asks first, computed once: the answers at default settings that `publish` stores with a cache.

Raise `engine.store.schema.ENGINE_VERSION` with every change of what is computed here.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import numpy as np
import pandas as pd

from engine.benchmark import BenchmarkResult, run_benchmark
from engine.controls import RealControl, real_control
from engine.controls.table import Controls, simulate_controls
from engine.core.binning import histogram_edges
from engine.core.errors import InvalidInput, MissingData
from engine.core.labels import label_rows
from engine.core.types import BoolArray, FloatArray, IntArray, RunData
from engine.features import FEATURES, feature
from engine.gaps import DecileEffect, effect_by_decile
from engine.probes import ProbeResult, audit, descriptor
from engine.store import Cache
from engine.store.cache import Diagnosis
from engine.store.codec import Unreadable, decode, encode
from engine.store.diagnoses import OF_THE_CACHE, Diagnoses, read_diagnoses, write_diagnoses
from engine.sweep import single_models
from engine.sweep.diagnosing import DEFAULT_FEATURE, diagnose, diagnose_run
from engine.sweep.others import MOST, other_entropies, others_of
from engine.verdict.cache import CacheVerdict, judge_cache
from engine.verdict.run import Verdict, judge, with_real_control

Result = TypeVar("Result")
LABEL = FEATURES[DEFAULT_FEATURE].label
_BARS = 60


@dataclass(frozen=True, eq=False)
class Question(Generic[Result]):
    """A question by its name, with the type of its answer, given a run and the names of its layers;
    one about the whole cache is answered elsewhere.

    of_feature : whether the answer is about the default feature. A run that lacks what it takes has no answer.
    """

    name: str
    kind: Any
    answer: Callable[[RunData, Sequence[str]], Result] | None = None
    of_feature: bool = True

    @property
    def feature(self) -> str:
        """What it is about, empty where that is no feature."""
        return DEFAULT_FEATURE if self.of_feature else ""

    def read(self, cache: Cache, run_id: str = "") -> Result | None:
        """The stored answer, None where there is none that can be read: it is then computed."""
        text = cache.diagnosis(run_id, self.feature, self.name)
        try:
            return None if text is None else cast(Result, decode(text, self.kind))
        except Unreadable:
            return None


def _given(run: RunData) -> tuple[FloatArray, BoolArray, FloatArray]:
    return run.confidence, run.correct, feature(run, DEFAULT_FEATURE)


def _judged(run: RunData, _names: Sequence[str]) -> Verdict:
    """Without what other runs know: a verdict on a shard must not change when another one comes."""
    return judge(*_given(run), feature=LABEL, outputs=run.logits, clusters=run.clusters)


def _audited(run: RunData, names: Sequence[str]) -> ProbeResult:
    given = descriptor(run, names or None)
    return audit(run.confidence, given.values, run.correct, names=given.names)


def histogram(rho: FloatArray) -> tuple[IntArray, FloatArray]:
    """Counts and edges of a feature's distribution."""
    edges = histogram_edges(rho, _BARS)
    return np.histogram(rho, edges)[0], edges


def _row(run: RunData, _names: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame([diagnose_run(run)])


VERDICT = Question("verdict", Verdict, _judged)
CONTROLS = Question("controls", Controls, lambda run, _names: simulate_controls(*_given(run)))
BENCHMARK = Question("benchmark", BenchmarkResult, lambda run, _names: run_benchmark(run), of_feature=False)
PROBES = Question("probes", ProbeResult, _audited, of_feature=False)
EFFECT = Question("effect", DecileEffect, lambda run, _names: effect_by_decile(*_given(run), clusters=run.clusters))
HISTOGRAM = Question("histogram", tuple[IntArray, FloatArray], lambda run, _names: histogram(_given(run)[2]))
ROW = Question("row", pd.DataFrame, _row)
OF_RUNS: tuple[Question[Any], ...] = (ROW, VERDICT, CONTROLS, BENCHMARK, PROBES, EFFECT, HISTOGRAM)
"""The first is not stored for itself: `SWEEP` has it."""
SWEEP: Question[pd.DataFrame] = Question("sweep", pd.DataFrame)
"""Of the whole cache: the rows of `diagnose`."""
TOGETHER: Question[CacheVerdict] = Question("together", CacheVerdict)
"""Of the whole cache: what these rows say together, without ensembles."""


def answers_of(run: RunData, names: Sequence[str], known: Diagnoses) -> dict[str, str]:
    """The answers to all questions about a run, encoded; "null" where it lacks what one takes."""
    found = dict(known)
    for question in OF_RUNS:
        if question.name not in known and question.answer is not None:
            try:
                found[question.name] = encode(question.answer(run, names))
            except (MissingData, InvalidInput):
                found[question.name] = "null"
    return found


def is_complete(answers: Diagnoses) -> bool:
    """Whether no question about a run is open."""
    return answers.keys() == {question.name for question in OF_RUNS}


def differing(run: RunData, names: Sequence[str], answers: Diagnoses) -> list[str]:
    """The questions to which other answers are stored than come out now, but for what processors differ by."""
    now = answers_of(run, names, {}) if answers else {}
    return [name for name, text in answers.items() if not _alike(json.loads(text), json.loads(now.get(name, "null")))]


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-5)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[name], other[name]) for name in one)
    return bool(one == other)


def diagnoses_of(cache: Cache, directory: Path) -> Iterator[Diagnosis]:
    """All that is stored with a cache: what is kept beside its shards, and what they say together.

    The latter is kept beside them too, under names with the checksums that it depends on.
    """
    runs, digests = cache.runs(), cache.digests
    kept = {run_id: read_diagnoses(directory, run_id, digest) for run_id, digest in digests.items()}
    before, now = read_diagnoses(directory, OF_THE_CACHE, ""), dict[str, str]()
    tested = {run_id: decode(held[ROW.name], pd.DataFrame) for run_id, held in kept.items() if ROW.name in held}
    rows = {run_id: row.to_dict("records")[0] for run_id, row in tested.items()}
    sweep, together = (f"{question.name} {_key(digests.values())}" for question in (SWEEP, TOGETHER))
    now[sweep] = before.get(sweep) or encode(diagnose(cache, known=rows))
    yield Diagnosis("", DEFAULT_FEATURE, SWEEP.name, now[sweep])
    if together in before:
        now[together] = before[together]
    else:
        labelled = label_rows(decode(now[sweep], pd.DataFrame), runs.set_index("run_id", drop=False))
        now[together] = encode(judge_cache(single_models(labelled), feature=LABEL))
    yield Diagnosis("", DEFAULT_FEATURE, TOGETHER.name, now[together])
    for run_id, held in kept.items():
        for question in OF_RUNS[1:]:
            text = held.get(question.name, "null")
            if question is VERDICT and text != "null":
                name, real = _real(cache, run_id, others_of(runs, run_id), before)
                now[name] = encode(real)
                text = encode(with_real_control(decode(text, Verdict), real, LABEL))
            if text != "null":
                yield Diagnosis(run_id, question.feature, question.name, text)
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
    real = real_control(run.confidence, run.correct, others, clusters=run.clusters) if others else None
    return names[0 if list(others) == first else 1], real


def _key(checksums: Iterable[str]) -> str:
    return hashlib.sha256(" ".join(checksums).encode()).hexdigest()[:16]
