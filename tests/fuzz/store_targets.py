"""Records, shards, caches and the paper's tables: what is written is read back, and damage is noticed."""

from __future__ import annotations

import atexit
import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from engine import sweep
from engine.core import labels, pvalues
from engine.core.errors import first_line
from engine.core.types import COLUMNS
from engine.metrics.mechanism import training_entropy
from engine.paper import claims, published
from engine.store import (
    Cache,
    Layer,
    RunRecord,
    open_cache,
    publish,
    read_shard,
    shard_paths,
    verify_shard,
    write_shard,
)
from engine.verdict import cache as verdict_sweep
from tests.conftest import made_up_run
from tests.fuzz.catalogue.entry import UNTESTABLE
from tests.fuzz.damage import damaged
from tests.fuzz.outcome import sound
from tests.fuzz.strategies import (
    ANYTHING,
    CONFIDENCE,
    CORRECT,
    FEATURE,
    LABELS,
    LOGITS,
    PROFILE,
    RHO,
    SCALARS,
    Size,
    sizes,
    spoilt,
)
from tests.fuzz.target import Target, scratch

FIELDS = (
    "run_id",
    "suite",
    "backbone",
    "dataset",
    "variant",
    "block_size",
    "seed",
    "epoch",
    "logits",
    "labels",
    "predictions",
    "confidence",
    "correct",
    "n_classes",
    "entropies",
    "layers",
    "extra",
    "epochs",
    "epoch_metrics",
    "clusters",
    "config",
    "provenance",
    "capture",
    "created_at",
)
NAMES = st.one_of(st.sampled_from(["a", "cifar10", "A b", "x" * 120]), st.text(max_size=10))


@st.composite
def records(draw: DrawFn) -> dict[str, Any]:
    """Fields of a record, now and then with a fault in one of them."""
    size = draw(sizes(1, 60))
    fields: dict[str, Any] = {"run_id": draw(st.sampled_from(["run", "a.b-c_1", "0"]))}
    fields |= {name: draw(NAMES) for name in ("suite", "backbone", "dataset", "variant")}
    if draw(st.booleans()):
        fields |= {"logits": draw(LOGITS.valid(size)), "labels": draw(LABELS.valid(size))}
    else:
        fields |= {"confidence": draw(CONFIDENCE.valid(size)), "correct": draw(CORRECT.valid(size))}
    if draw(st.booleans()):
        fields["entropies"] = draw(PROFILE.valid(size))
        fields["layers"] = [Layer(f"layer {number}", 2) for number in range(size.layers)]
    if draw(st.booleans()):
        fields["extra"] = {draw(NAMES): draw(RHO.valid(size))}
    for name in ("block_size", "seed", "epoch"):
        if draw(st.booleans()):
            fields[name] = draw(st.sampled_from([1, 0, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**70, -1]))
    if draw(st.booleans()):
        name = draw(st.sampled_from(FIELDS))
        fields[name] = spoilt(draw, fields[name]) if isinstance(fields.get(name), np.ndarray) else draw(ANYTHING)
    return fields


def record_and_shard(fields: dict[str, Any]) -> None:
    """A record that is accepted survives the way to disk and back, byte for byte, and can be published."""

    def work() -> None:
        record = RunRecord(**fields)
        with tempfile.TemporaryDirectory() as folder:
            path = write_shard(record, folder)
            assert shard_paths(folder) == [path]
            assert _same(verify_shard(path), record), "read back otherwise than written"
            publish(folder, Path(folder) / "cache.duckdb")
            with open_cache(Path(folder) / "cache.duckdb") as cache:
                assert cache.load(record.run_id).n_samples == record.n_samples

    sound(work, fields, named=FIELDS)


def _same(one: RunRecord, other: RunRecord) -> bool:
    pairs = [(getattr(one, name), getattr(other, name)) for name in FIELDS if name not in ("epochs", "epoch_metrics")]
    return all(_equal(first, second) for first, second in pairs)


def _equal(first: Any, second: Any) -> bool:
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(_equal(first[key], second[key]) for key in first)
    return np.array_equal(first, second) if isinstance(first, np.ndarray) else first == second


@lru_cache
def _written() -> RunRecord:
    return made_up_run("run", n=40)


@lru_cache
def _shard() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_shard(_written(), folder).read_bytes()


def damaged_shard(content: bytes) -> None:
    """Damage is a `CacheError`, unless it hit bytes that nobody reads."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.parquet"
        path.write_bytes(content)

        def work() -> None:
            record = read_shard(path)
            assert _same(record, _written()), "other numbers under the same checksum"
            verify_shard(path)

        sound(work, {})


@lru_cache
def _cache() -> Cache:
    folder = scratch()
    for record in (made_up_run("full", n=60), made_up_run("plain", n=60, profile=False, logits=False)):
        write_shard(record, folder)
    publish(folder, folder / "cache.duckdb")
    cache = open_cache(folder / "cache.duckdb")
    atexit.register(cache.close)
    return cache


@st.composite
def queries(draw: DrawFn) -> dict[str, Any]:
    """Arguments of `Cache.load`, at most one of them wrong."""
    query: dict[str, Any] = {
        "run_id": draw(st.sampled_from(["full", "plain"])),
        "columns": draw(st.sets(st.sampled_from(sorted(COLUMNS)))),
    }
    fault = draw(st.sampled_from([None, None, *query]))
    if fault is not None:
        query[fault] = draw(st.one_of(SCALARS, st.text(), st.sets(st.text(), min_size=1)))
    return query


def cache_calls(query: dict[str, Any]) -> None:
    cache = _cache()
    named = ("run_id", "columns")
    sound(lambda: cache.load(**query), query, named=named)
    run_id = query["run_id"]
    for read in (cache.layers, cache.epochs, cache.epoch_metrics):
        sound(lambda read=read: read(run_id), query, named=named, missing=("n_sources",))
    sound(lambda: training_entropy(cache.epochs(run_id)), query, named=named)


def opened(content: bytes) -> None:
    """A file that is no cache is `NotACache`, one that is damaged some `CacheError`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.duckdb"
        path.write_bytes(content)

        def work() -> None:
            with open_cache(path) as cache:
                for run_id in cache.runs()["run_id"]:
                    cache.load(str(run_id))

        sound(work, {})


SWEPT = dict.fromkeys(
    (
        "seed",
        "block_size",
        "max_gap",
        "max_gap_low",
        "max_gap_high",
        "weighted_gap",
        "weighted_gap_low",
        "weighted_gap_high",
        "null_high",
        *sweep.P_COLUMNS.values(),
        "primary_z",
        "primary_effect",
        "primary_se",
        "shape_p",
        "images",
        "scores",
        "shared_bins",
        "n_bins",
        "support_min",
        "support_q25",
        "support_median",
        "low",
        "high",
        "max_gap_mean",
        "max_gap_std",
        "weighted_gap_mean",
        "weighted_gap_std",
        *(f"{test}_p_min" for test in sweep.P_COLUMNS),
        "max_gap_spread",
        "effect",
        "effect_low",
        "effect_high",
        "effect_p",
        "p_holm",
        "agreement_by_chance",
        "smallest_p",
        "epoch",
        *(f"{column}_{method}" for column in sweep.P_COLUMNS.values() for method in pvalues.ADJUSTMENTS),
    ),
    UNTESTABLE,
)


@st.composite
def sweeps(draw: DrawFn) -> dict[str, Any]:
    """A few small runs, some of them degenerate, and the settings of a diagnosis."""
    runs = []
    for number in range(draw(st.integers(0, 4))):
        # From 100 samples on confidence is matched; runs of one size and labels share their images.
        size = Size(draw(st.one_of(st.integers(1, 60), st.just(120))), 3, draw(st.integers(0, 3)))
        columns = {"confidence": CONFIDENCE, "correct": CORRECT, "entropies": PROFILE}
        labels = draw(st.sampled_from([None, np.zeros(size.n, dtype=np.int64)]))
        suite = draw(st.sampled_from(["a", "a-last5"]))
        runs.append(
            {"run_id": f"run{number}", "suite": suite, "backbone": "b", "dataset": "d", "variant": "v", "seed": number}
            | {name: draw(kind.valid(size)) for name, kind in columns.items()}
            | {"labels": labels}
        )
    settings = {"n_resamples": 5, "feature_name": draw(FEATURE.valid(Size(1, 3, 2)))}
    if draw(st.booleans()):
        settings |= {"alpha": draw(st.one_of(st.floats(0, 1), SCALARS))}
    return {"runs": runs, "settings": settings}


def swept(example: dict[str, Any]) -> None:
    """The diagnosis of a cache and all that is made of it."""

    def work() -> object:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "shards").mkdir()
            for fields in example["runs"]:
                write_shard(RunRecord(**fields), Path(folder, "shards"))
            publish(Path(folder, "shards"), Path(folder, "cache.duckdb"))
            with open_cache(Path(folder, "cache.duckdb")) as cache:
                rows = sweep.diagnose(cache, **example["settings"])
        single = sweep.single_models(rows)
        tables = [rows, single, sweep.by_cell(rows), sweep.multiplicity(rows), sweep.effect_intervals(rows)]
        tables += [sweep.by_cell(single), sweep.sorted_pvalues(rows), sweep.look_first(rows)]
        told = [verdict_sweep.judge_cache(rows), sweep.pool_effects(single), sweep.chance_range(single)]
        reasons = [verdict_sweep.reason(row) for row in rows.to_dict("records")]
        return tables, told, reasons

    named = ("feature", "feature_name", "layers", "summary", "alpha", "entropies")
    sound(work, example, named=named, missing=SWEPT)


@st.composite
def paper_tables(draw: DrawFn) -> dict[str, pd.DataFrame]:
    """The published tables with rows missing or cells changed."""
    tables = {name: frame.copy() for name, frame in _published().items()}
    for _ in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(list(tables)))
        frame, change = tables[name], draw(st.sampled_from(["drop table", "drop rows", "value", "swap"]))
        if change == "drop table":
            del tables[name]
            if not tables:
                break
        elif change == "drop rows":
            tables[name] = frame.iloc[: draw(st.integers(0, len(frame)))]
        elif len(frame):
            row = draw(st.integers(0, len(frame) - 1))
            text = draw(st.sampled_from(["", "--", "nan", "inf", "-1", "1e308", "0", "12.34.5", "word"]))
            column = "value" if change == "value" else "std"
            frame.loc[frame.index[row], f"printed{'' if column == 'value' else '_std'}"] = text
            frame.loc[frame.index[row], column] = pd.to_numeric(text, errors="coerce")
    return tables


@lru_cache
def _published() -> dict[str, pd.DataFrame]:
    return published.load_all()


def audited_claims(tables: dict[str, pd.DataFrame]) -> None:
    """Every claim has an outcome, whatever the tables say."""

    def work() -> object:
        results = claims.audit(tables)
        assert {result.outcome for result in results} <= set(claims.OUTCOMES)
        return claims.as_frame(results), claims.summarise(results)

    sound(work, {})


def _bytes(make: Callable[[], bytes]) -> st.SearchStrategy[bytes]:
    return st.deferred(lambda: damaged(make()) | st.binary(max_size=200))


def _cache_bytes() -> bytes:
    return Path(_cache().path).read_bytes()


TARGETS = [
    Target("record and shard", records(), record_and_shard, quick=25),
    Target("damaged shard", _bytes(_shard), damaged_shard, quick=15),
    Target("cache calls", queries(), cache_calls, quick=15),
    Target("damaged cache", _bytes(_cache_bytes), opened, quick=10, round=40),
    Target("sweep", sweeps(), swept, quick=4, round=10),
    Target("claims", paper_tables(), audited_claims, quick=4, round=10),
]
COVERED = (
    RunRecord,
    Layer,
    write_shard,
    read_shard,
    verify_shard,
    shard_paths,
    publish,
    open_cache,
    Cache,
    first_line,  # of what Arrow and DuckDB say about damage
    training_entropy,
    sweep.diagnose,
    sweep.single_models,
    sweep.by_cell,
    sweep.multiplicity,
    sweep.effect_intervals,
    sweep.pool_effects,
    sweep.score_correlation,
    sweep.chance_range,
    sweep.sorted_pvalues,
    sweep.look_first,
    labels.is_ensemble,
    verdict_sweep.judge_cache,
    verdict_sweep.reason,
    claims.audit,
    claims.as_frame,
    claims.summarise,
    published.load_all,
)
