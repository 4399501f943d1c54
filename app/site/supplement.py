"""For a paper's supplement: one zip of a site, the shards that it was made of, and how to make the numbers again."""

import hashlib
import json
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from app.report.blind import BlindCache, versions
from engine.core.errors import InvalidInput
from engine.store import Layer, RunRecord, write_shard
from engine.store.atomic import replacing
from engine.store.half import is_half

_UNITS = {"KB": 1e3, "MB": 1e6, "GB": 1e9}
_EPOCH = (1980, 1, 1, 0, 0, 0)  # no date of ours: the same contents give the same bytes
_ROOM = 20_000
"""Bytes kept for the checksums, the text and the zip's own directory."""


def size_in_bytes(text: str) -> int:
    """`50MB` as bytes."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(KB|MB|GB)", text, re.IGNORECASE)
    if found is None:
        raise InvalidInput("--limit", "a size such as 50MB", repr(text))
    return int(float(found[1]) * _UNITS[found[2].upper()])


def clean_record(cache: BlindCache, run_id: str) -> RunRecord:
    """A run of a cache, every word of it cleaned, as a shard holds it: its numbers are those of the cache."""
    row = cache.runs().set_index("run_id", drop=False).loc[run_id]
    run = cache.load(run_id)
    layers = cache.layers(run_id)
    given = {"confidence": run.confidence, "correct": run.correct, "predictions": run.predictions}
    if run.logits is not None:  # the rest is derived from them, as it was
        given = {"logits": run.logits} | ({"confidence": run.confidence} if is_half(run.logits) else {})
    numbers = {name: None if pd.isna(row[name]) else int(row[name]) for name in ("block_size", "seed", "epoch")}
    return RunRecord(
        **{name: row[name] for name in ("run_id", "suite", "backbone", "dataset", "variant")},
        **{name: json.loads(row[name]) for name in ("config", "provenance", "capture")},
        **numbers, **given,
        n_classes=None if pd.isna(row["n_classes"]) else int(row["n_classes"]),
        labels=run.labels, entropies=run.entropies if run.n_layers else None, extra=run.extra, clusters=run.clusters,
        layers=[
            Layer(name, None if pd.isna(sources) else int(sources))
            for name, sources in zip(layers["name"], layers["n_sources"], strict=True)
        ],
        epochs=cache.epochs(run_id), epoch_metrics=cache.epoch_metrics(run_id),
        created_at=row["created_at"].to_pydatetime(),
    )  # fmt: skip


def write_supplement(site: Path, cache: BlindCache, run_ids: Sequence[str], out: Path, limit: int) -> list[str]:
    """The site, then the shards of these runs, by their ids in `cache`, that fit; those that do not are returned."""
    left_out: list[str] = []
    sums: dict[str, str] = {}

    def put(name: str, content: bytes) -> None:
        entry = zipfile.ZipInfo(name, _EPOCH)
        archive.writestr(entry, content, zipfile.ZIP_STORED if name.endswith(".parquet") else zipfile.ZIP_DEFLATED)
        sums[name] = hashlib.sha256(content).hexdigest()

    with replacing(out) as temporary, zipfile.ZipFile(temporary, "w") as archive:
        for file in sorted(path for path in site.rglob("*") if path.is_file()):
            put(f"site/{file.relative_to(site).as_posix()}", file.read_bytes())
        room = limit - _ROOM - archive.fp.tell()
        if room < 0:
            raise InvalidInput(
                "--limit", "room for the site alone; name fewer --runs or --features", f"{limit:,} bytes"
            )
        for run_id, content in _shards(cache, run_ids):
            if len(content) > room:
                left_out.append(run_id)
                continue
            put(f"shards/{run_id}.parquet", content)
            room -= len(content) + 200  # for its line in the zip's directory
        put("README.txt", _readme(len(run_ids), left_out).encode())
        archive.writestr(
            zipfile.ZipInfo("SHA256SUMS", _EPOCH), "".join(f"{digest}  {name}\n" for name, digest in sums.items())
        )
    return left_out


def _shards(cache: BlindCache, run_ids: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    with tempfile.TemporaryDirectory(prefix="routecal-") as folder:
        for run_id in run_ids:
            path = write_shard(clean_record(cache, run_id), folder)
            yield run_id, path.read_bytes()
            path.unlink()


def _readme(n_runs: int, left_out: Sequence[str]) -> str:
    listed = "".join(f"  {run_id}\n" for run_id in left_out) or "  nothing\n"
    made_with = "".join(f"  {name} {number}\n" for name, number in versions().items())
    return f"""To look: open site/index.html in a browser. It needs no server and no network.

To make the numbers again, with RouteCal and the packages of its requirements.txt installed:
  sha256sum --check SHA256SUMS
  python -m cache_builder publish shards --cache routing.duckdb
  python -m app report routing.duckdb --out report.html
  python -m app site routing.duckdb --out site-again
  python -m engine audit routing.duckdb
All random numbers come from seed 42, so the same shards give the same numbers. Names of people, machines and folders
were replaced in the shards, so their checksums differ from those of the shards that they were made of.

Made with:
{made_with}
Shards left out of {n_runs}, for want of room:
{listed}"""
