"""What everybody asks first, computed once: the answers at default settings that `publish` stores with a cache.

Raise `engine.store.schema.ENGINE_VERSION` with every change of what is computed here.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import pandas as pd

from engine.benchmark import BenchmarkResult, run_benchmark
from engine.controls import RealControl, planted_outcome, real_control
from engine.controls.simulation import Scale, Shape
from engine.controls.table import Controls, simulate_controls
from engine.core.binning import MATCHINGS, N_BINS, histogram_edges
from engine.core.errors import InvalidInput, MissingData
from engine.core.rounding import Rounding, find_rounding
from engine.core.types import BoolArray, FloatArray, IntArray, RunData
from engine.features import FEATURES, available_features, feature
from engine.gaps import (
    CombinedResult,
    DecileEffect,
    PermutationResult,
    combined_test,
    effect_by_decile,
    match_diagnostic,
    permutation_test,
)
from engine.gaps.settings import TestSettings
from engine.metrics.mechanism import DepthProfile, ErrorRelation, depth_profile, relate_to_error
from engine.metrics.reliability import Diagram, diagram_of
from engine.probes import ProbeResult, audit, descriptor
from engine.store import Cache
from engine.store.cache import Diagnosis
from engine.store.codec import Unreadable, decode, encode
from engine.store.diagnoses import OF_THE_CACHE, Diagnoses, read_diagnoses, write_diagnoses
from engine.store.record import Layer
from engine.sweep.diagnosing import DEFAULT_FEATURE, diagnose, diagnose_run
from engine.sweep.others import MOST, other_entropies, others_of
from engine.verdict.cache import Together, judge_together
from engine.verdict.run import Verdict, judge, with_real_control

Result = TypeVar("Result")
Layers = Sequence[Layer]
LABEL = FEATURES[DEFAULT_FEATURE].label
PLANTED_GAP = 0.1
_BARS = 60


@dataclass(frozen=True, eq=False)
class Question(Generic[Result]):
    """A question by its name, with the type of its answer, given a run, its layers and a feature; one about the whole
    cache is answered elsewhere.

    of : the features that it is asked of, or the run alone. A run that lacks what it takes has no answer.
    """

    name: str
    kind: Any
    answer: Callable[[RunData, Layers, str], Result] | None = None
    of: Literal["default", "others", "run"] = "default"

    def keys(self, run: RunData) -> dict[str, str]:
        """The features that a run is asked about, empty for none, by the names of the answers beside its shard."""
        if self.of == "others":
            return {f"{self.name} {name}": name for name in available_features(run) if name != DEFAULT_FEATURE}
        return {self.name: DEFAULT_FEATURE if self.of == "default" else ""}

    def read(self, cache: Cache, run_id: str = "", feature: str = DEFAULT_FEATURE) -> Result | None:
        """The stored answer, None where there is none that can be read: it is then computed."""
        text = cache.diagnosis(run_id, "" if self.of == "run" else feature, self.name)
        try:
            return None if text is None else cast(Result, decode(text, self.kind))
        except Unreadable:
            return None


def _given(run: RunData, name: str) -> tuple[FloatArray, BoolArray, FloatArray]:
    return run.confidence, run.correct, feature(run, name)


def _judged(run: RunData, name: str, *, controls: bool) -> Verdict:
    """Without what other runs know: a verdict on a shard must not change when another one comes."""
    label = FEATURES[name].label if name in FEATURES else name
    return judge(*_given(run, name), feature=label, outputs=run.logits, clusters=run.clusters, controls=controls)


def _audited(run: RunData, layers: Layers, _feature: str) -> ProbeResult:
    given = descriptor(run, [layer.name for layer in layers] or None)
    return audit(run.confidence, given.values, run.correct, names=given.names)


def depth_of(run: RunData, layers: Layers) -> DepthProfile:
    """The routing profile by layer; of a run without one, its extra columns, of which there must be one."""
    if run.n_layers == 0:
        if not run.extra:
            raise MissingData("routing profile", "a profile over depth", "tap the model's routing")
        return depth_profile(np.column_stack(list(run.extra.values())), run.correct, names=list(run.extra))
    names, sources = [layer.name for layer in layers], [layer.n_sources for layer in layers]
    return depth_profile(run.entropies, run.correct, names=names, n_sources=sources)


def correlations(features: Sequence[str], relation: Callable[[str], ErrorRelation]) -> pd.DataFrame:
    """Each feature against the error: rank correlation with interval and p, and separation of wrong predictions."""
    rows = []
    for name in features:
        found = relation(name)
        rank = {} if found.spearman is None else asdict(found.spearman)
        kept = {part: getattr(found.outcomes, part) for part in ("separation", "mean_correct", "mean_wrong")}
        rows.append({"feature": name} | {part: rank.get(part) for part in ("value", "low", "high", "p_value")} | kept)
    table = pd.DataFrame(rows)
    return table.astype(dict.fromkeys(table.columns[1:], "float64"))


def layers_of(table: pd.DataFrame) -> Layers:
    """The layers of a run as a cache has them."""
    pairs = zip(table["name"], table["n_sources"], strict=True)
    return [Layer(name, None if pd.isna(number) else int(number)) for name, number in pairs]


def match_quality(confidence: FloatArray, rho: FloatArray, n_bins: int = N_BINS) -> dict[str, float | None]:
    """Within-bin rank correlation of rho with confidence, in the paper's bins and in those of the primary test."""
    bins = {"equal_width": n_bins, "equal_mass": None}
    return {each: match_diagnostic(confidence, rho, n_bins=bins[each], matching=each) for each in MATCHINGS}


def try_planted(
    samples: tuple[FloatArray, BoolArray, FloatArray],
    delta: float = PLANTED_GAP,
    *,
    seed: int = 0,
    shape: Shape = "monotone",
    scale: Scale = "accuracy",
    settings: TestSettings = TestSettings(),
) -> tuple[PermutationResult, CombinedResult]:
    """The paper's test and the verdict's on one simulated data set with a gap of delta."""
    confidence, correct, rho = samples
    drawn = planted_outcome(
        confidence, correct, rho, delta, shape=shape, scale=scale, seed=seed, quantiles=settings.quantiles
    )
    return permutation_test(confidence, drawn, rho, **settings.keywords), combined_test(confidence, drawn, rho)


def histogram(rho: FloatArray) -> tuple[IntArray, FloatArray]:
    """Counts and edges of a feature's distribution."""
    edges = histogram_edges(rho, _BARS)
    return np.histogram(rho, edges)[0], edges


VERDICT = Question("verdict", Verdict, lambda run, _layers, name: _judged(run, name, controls=True))
JUDGED = Question("judged", Verdict, lambda run, _layers, name: _judged(run, name, controls=False), of="others")
"""Without controls, of the features that are not the default one."""
CONTROLS = Question(
    "controls", Controls, lambda run, _layers, name: simulate_controls(*_given(run, name), clusters=run.clusters)
)
PLANTED = Question(
    "planted", tuple[PermutationResult, CombinedResult], lambda run, _layers, name: try_planted(_given(run, name))
)
BENCHMARK = Question("benchmark", BenchmarkResult, lambda run, _layers, _name: run_benchmark(run), of="run")
PROBES = Question("probes", ProbeResult, _audited, of="run")
EFFECT = Question(
    "effect", DecileEffect,
    lambda run, _layers, name: effect_by_decile(*_given(run, name), clusters=run.clusters),
)  # fmt: skip
HISTOGRAM = Question("histogram", tuple[IntArray, FloatArray], lambda run, _layers, name: histogram(feature(run, name)))
MATCH = Question(
    "match", dict[str, float | None], lambda run, _layers, name: match_quality(run.confidence, feature(run, name))
)
RELATION = Question("relation", ErrorRelation, lambda run, _layers, name: relate_to_error(*_given(run, name)))
CORRELATIONS = Question(
    "correlations", pd.DataFrame,
    lambda run, _layers, _name: correlations(available_features(run), lambda name: relate_to_error(*_given(run, name))),
    of="run",
)  # fmt: skip
DEPTH = Question("depth", DepthProfile, lambda run, layers, _name: depth_of(run, layers), of="run")
RELIABILITY = Question(
    "reliability", dict[str, Diagram],
    lambda run, _layers, _name: {each: diagram_of(run.confidence, run.correct, N_BINS, each) for each in MATCHINGS},
    of="run",
)  # fmt: skip
ROUNDING = Question(
    "rounding", tuple[Rounding | None], lambda run, _layers, _name: (find_rounding(run.confidence),), of="run"
)
ROW = Question("row", pd.DataFrame, lambda run, _layers, name: pd.DataFrame([diagnose_run(run, name)]))
OF_RUNS: tuple[Question[Any], ...] = (
    ROW, VERDICT, JUDGED, CONTROLS, PLANTED, BENCHMARK, PROBES, EFFECT, HISTOGRAM, MATCH, RELATION, CORRELATIONS, DEPTH,
    RELIABILITY, ROUNDING,
)  # fmt: skip
"""The first is not stored for itself: `SWEEP` has it."""
_BY_NAME = {question.name: question for question in OF_RUNS}
SWEEP: Question[pd.DataFrame] = Question("sweep", pd.DataFrame)
"""Of the whole cache: the rows of `diagnose`."""
TOGETHER: Question[Together] = Question("all together", Together)
"""Of the whole cache: what these rows say together, without ensembles."""


def answers_of(run: RunData, layers: Layers, known: Diagnoses) -> dict[str, str]:
    """The answers to all questions about a run, encoded; "null" where it lacks what one takes."""
    found = dict(known)
    for question in OF_RUNS:
        for key, name in question.keys(run).items():
            if key not in known and question.answer is not None:
                try:
                    found[key] = encode(question.answer(run, layers, name))
                except (MissingData, InvalidInput):
                    found[key] = "null"
    return found


def is_complete(answers: Diagnoses) -> bool:
    """Whether no question about a run is open."""
    return {key.partition(" ")[0] for key in answers} == {question.name for question in OF_RUNS}


def differing(run: RunData, layers: Layers, answers: Diagnoses) -> list[str]:
    """The questions to which other answers are stored than come out now, but for what processors differ by."""
    now = answers_of(run, layers, {}) if answers else {}
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
        by_id = runs.set_index("run_id", drop=False)
        now[together] = encode(judge_together(decode(now[sweep], pd.DataFrame), by_id, feature=LABEL))
    yield Diagnosis("", DEFAULT_FEATURE, TOGETHER.name, now[together])
    for run_id, held in kept.items():
        for key, text in held.items():
            name, _, of = key.partition(" ")
            question = _BY_NAME.get(name, ROW)
            if question is ROW or text == "null":
                continue
            if question is VERDICT:
                place, real = _real(cache, run_id, others_of(runs, run_id), before)
                now[place] = encode(real)
                text = encode(with_real_control(decode(text, Verdict), real, LABEL))
            yield Diagnosis(run_id, of or ("" if question.of == "run" else DEFAULT_FEATURE), question.name, text)
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
