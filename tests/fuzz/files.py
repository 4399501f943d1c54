"""Files of strangers with bytes changed and checksums made right again, each read in a child process of its own.

An example is a number: from it the bytes and what happens to them are drawn, so that a crash is kept as one number
(`kept.json`). The files themselves are made here and differ in nothing but what a release writes otherwise.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import resource
import signal
import struct
import tempfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st

from app.report import build_report
from engine.core.errors import RouteCalError
from engine.importing.build import RunIdentity, build_record
from engine.importing.mapping import guess_mapping, with_extra
from engine.importing.readers import Limits, read_stream
from engine.sandbox.attached import connection_code
from engine.store import open_cache, publish, read_shard, shard, verify_shard, write_shard
from engine.store.identity import HEADERS
from engine.store.ranges import check_ranges
from tests.conftest import made_up_run
from tests.fuzz.target import Target, scratch

KEPT = Path(__file__).with_name("kept.json")
BLOCK = 1 << 18
MEMORY_BYTES, SECONDS = 2 << 30, 30
FINE, REFUSED, CRASHED, STOPPED = "fine", "refused", "crashed", "stopped"
ended: Counter[str] = Counter()
"""How the children of this process ended, by kind of file."""


def in_child(work: Callable[[], object]) -> str:
    """How the work ends in a process with limits; an error that is not ours is raised here."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code = 3
        try:
            held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY_BYTES,) * 2)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            work()
            code = 0
        except (RouteCalError, MemoryError, duckdb.OutOfMemoryException):
            code = 1
        except BaseException as error:
            os.write(writing, f"{type(error).__name__}: {error}"[:4000].encode(errors="replace"))
        os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as told:
        text = told.read().decode(errors="replace")
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code != 3, text
    return {0: FINE, 1: REFUSED, -signal.SIGALRM: STOPPED}.get(code, CRASHED)


def changed(content: bytes, rng: random.Random, start: int = 0, end: int | None = None) -> tuple[bytes, list[int]]:
    """One to four bytes changed where there is something, or a run of bytes made large; and the places."""
    found = bytearray(content)
    used = np.flatnonzero(np.frombuffer(content, dtype=np.uint8)[start:end]) + start
    places = [int(used[rng.randrange(len(used))]) for _ in range(rng.choice([1, 1, 1, 2, 4]))]
    for place in places:
        manner = rng.choice(["bit", "byte", "byte", "large"])
        if manner == "bit":
            found[place] ^= 1 << rng.randrange(8)
        elif manner == "byte":
            found[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        else:
            found[place : place + 4] = rng.choice([b"\xff\xff\xff\x7f", b"\xff" * 4, b"\0\0\0\x80"])
    return bytes(found[: len(content)]), places


def duckdb_checksum(block: bytes) -> int:
    """DuckDB's: the exclusive or of 5381 and every eight bytes times a constant, modulo 2^64."""
    words = np.frombuffer(block, dtype="<u8") * np.uint64(0xBF58476D1CE4E5B9)
    return int(np.bitwise_xor.reduce(words)) ^ 5381


def _parts(size: int) -> list[tuple[int, int]]:
    headers = [(start, start + 4096) for start in range(0, HEADERS, 4096)]
    return headers + [(start, start + BLOCK) for start in range(HEADERS, size - BLOCK + 1, BLOCK)]


def repaired_database(content: bytes) -> bytes:
    found = bytearray(content)
    for start, end in _parts(len(content)):
        if any(found[start:end]):
            struct.pack_into("<Q", found, start, duckdb_checksum(bytes(found[start + 8 : end])))
    return bytes(found)


@lru_cache
def _cache() -> bytes:
    folder = scratch()
    for record in (made_up_run("full", n=60), made_up_run("plain", n=60, profile=False, logits=False)):
        write_shard(record, folder)
    publish(folder, folder / "cache.duckdb")
    content = (folder / "cache.duckdb").read_bytes()
    assert repaired_database(content) == content, "DuckDB computes its checksums otherwise"
    return content


def cache_file(seed: int) -> bytes:
    return repaired_database(changed(_cache(), random.Random(seed))[0])


def read_cache(path: Path) -> None:
    """All that pages read of a cache."""
    with open_cache(path) as cache:
        for run_id in cache.runs()["run_id"]:
            cache.load(run_id)
            for table in (cache.layers, cache.epochs, cache.epoch_metrics):
                table(run_id)


def try_out(path: Path) -> None:
    """What `engine.sandbox.cache_child` does."""
    code = connection_code()
    connection = code.open_read_only(path, {"threads": 1})
    code.check_macros(connection, path)
    check_ranges(connection, path)


def cache(seed: int) -> None:
    """A file that passes its trial does no harm to whoever reads it after."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.duckdb"
        path.write_bytes(cache_file(seed))
        end = in_child(lambda: try_out(path))
        if end == FINE:
            end = in_child(lambda: read_cache(path))
            assert end in (FINE, REFUSED), f"passed its trial, then {end}"
    ended[f"cache {end}"] += 1


@lru_cache
def _uploads() -> dict[str, bytes]:
    rng = np.random.default_rng(5)
    columns = {f"logit_{k}": rng.normal(size=200) for k in range(3)}
    columns |= {"label": rng.integers(0, 3, 200), "H_1": rng.random(200), "margin": rng.random(200)}
    parquet, npz = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table(columns), parquet, write_page_checksum=True)
    np.savez(npz, **columns)  # type: ignore[arg-type]
    rows = "\n".join(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))
    return {
        "a.parquet": parquet.getvalue(),
        "a.npz": npz.getvalue(),
        "a.csv": f"{','.join(columns)}\n{rows}\n".encode(),
    }


def repaired_archive(content: bytes) -> bytes:
    """The checksum of every stored member, in its own header and in the list at the end."""
    found = bytearray(content)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return content  # no list of members is left to repair: the reader gets it as it is
    listed = [match.start() for match in re.finditer(rb"PK\x01\x02", content)]
    for member, place in zip(members, listed, strict=False):
        here = member.header_offset
        if not 0 <= here <= len(content) - 30 or not 0 <= place <= len(content) - 46:
            continue
        name, extra = struct.unpack_from("<HH", content, here + 26)
        start = here + 30 + name + extra
        checksum = struct.pack("<I", zlib.crc32(content[start : start + member.compress_size]))
        found[here + 14 : here + 18] = found[place + 16 : place + 20] = checksum
    return bytes(found)


def upload(seed: int) -> None:
    rng = random.Random(seed)
    name = rng.choice(sorted(_uploads()))
    content = changed(_uploads()[name], rng)[0]
    content = repaired_archive(content) if name.endswith(".npz") else content

    def work() -> None:
        table = read_stream(io.BytesIO(content), name, Limits(1_000_000, 100_000, 100))
        mapping = with_extra(table.columns, guess_mapping(table.columns))
        build_record(table.columns, mapping, RunIdentity("run"))

    ended[f"upload {in_child(work)}"] += 1


@lru_cache
def _shard() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return write_shard(made_up_run("run", n=60), folder).read_bytes()


def damaged_shard(seed: int) -> None:
    """The checksum is the one of the changed contents, wherever those can still be read."""
    content = changed(_shard(), random.Random(seed))[0]

    def work() -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "run.parquet"
            path.write_bytes(content)
            file = shard._open(path)
            header = shard._header(path, file)
            try:
                table = file.read()
                columns = {
                    name: shard._numpy(column) for name, column in zip(table.column_names, table.columns, strict=True)
                }
                digest = shard._digest(header["run"], columns)
            except (pa.ArrowException, OSError, ValueError, NotImplementedError):
                digest = header["digest"]  # nothing to take a checksum of: the reader gets it as it is
            path.write_bytes(content.replace(header["digest"].encode(), digest.encode()))
            read_shard(path)
            verify_shard(path)

    ended[f"shard {in_child(work)}"] += 1


WORDS = ("<script>alert(1)</script>", "![](http://example.org/x.png)", "$x$", "=1+1", "", 3, None, True, [], {}, [[1]])
KEYS = ("source", "commit", "versions", "notes", "device", "seconds", "mapping", "data_fingerprint", "lr", "<b>")


def _object(rng: random.Random, depth: int = 2) -> dict[str, object]:
    keys = rng.sample(KEYS, rng.randrange(len(KEYS)))
    return {key: _object(rng, depth - 1) if depth and rng.random() < 0.3 else rng.choice(WORDS) for key in keys}


def report(seed: int) -> None:
    """What a cache says of how its runs were made goes into a report as text, whatever it is."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache.duckdb"
        path.write_bytes(_cache())
        with duckdb.connect(str(path)) as connection:
            texts = [json.dumps(_object(rng)) for _ in range(3)]
            connection.execute("UPDATE runs SET config = ?, provenance = ?, capture = ?", texts)
        if rng.random() < 0.5:
            path.write_bytes(repaired_database(changed(path.read_bytes(), rng)[0]))

        def work() -> None:
            try_out(path)
            with open_cache(path) as held:
                html = build_report(held).html()
            assert "<script>alert(1)" not in html

        ended[f"report {in_child(work)}"] += 1


def kept() -> dict[str, list[int]]:
    """Numbers of examples that once ended a process, by kind of file."""
    found: dict[str, list[int]] = json.loads(KEPT.read_text())
    return found


SEEDS = st.integers(0, 2**48)
TARGETS = [
    Target("cache file", SEEDS, cache, quick=6, round=60),
    Target("upload file", SEEDS, upload, quick=12, round=100),
    Target("shard file", SEEDS, damaged_shard, quick=8, round=60),
    Target("report", SEEDS, report, quick=2, round=20),
]
