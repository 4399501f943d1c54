"""A cache that nobody has opened yet: what is wrong with it is said, whatever happens to the process that reads it."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from engine.core.errors import CacheError
from engine.core.limits import MOST_CLASSES
from engine.sandbox import unfamiliar
from engine.store import open_cache, publish, write_shard
from engine.store.identity import Identity
from engine.store.publish import STORAGE_VERSION


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, make_run) -> bytes:
    folder = tmp_path_factory.mktemp("whole")
    write_shard(make_run("one", n=300), folder / "shards")
    write_shard(make_run("two", n=300, profile=False, logits=False), folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return (folder / "cache.duckdb").read_bytes()


@pytest.fixture
def cache(whole: bytes, tmp_path: Path) -> Path:
    (tmp_path / "cache.duckdb").write_bytes(whole)
    return tmp_path / "cache.duckdb"


def tried(path: Path) -> str:
    with path.open("rb") as file:
        identity = Identity.of(file)
    return unfamiliar.try_out(path, identity)


def change(path: Path, *statements: str) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{path}' AS held (STORAGE_VERSION '{STORAGE_VERSION}')")
        connection.execute("USE held")
        for sql in statements:
            connection.execute(sql)


def test_nothing_is_wrong_with_a_good_one(cache: Path):
    assert tried(cache) == ""


OUTSIDE = {
    "runs.n_classes": f"UPDATE runs SET n_classes = {MOST_CLASSES + 1} WHERE NOT has_logits",
    "runs.suite": "UPDATE runs SET suite = '![](http://example.org/x.png)'",
    "runs.extra_names": "UPDATE runs SET extra_names = ['<b>']",
    "runs.accuracy": "UPDATE runs SET accuracy = 'nan'",
    "runs.created_at": "UPDATE runs SET created_at = 'infinity'",
    "samples.confidence": "UPDATE samples SET confidence = 'nan' WHERE sample_id = 7 AND run_id = 'one'",
    "samples.label": "UPDATE samples SET label = -1 WHERE sample_id = 7 AND run_id = 'one'",
    "samples.correct": "UPDATE samples SET correct = NOT correct WHERE run_id = 'one'",
    "samples.entropies": "UPDATE samples SET entropies = [2.0] WHERE sample_id = 7",
    "logits.logits": "UPDATE logits SET logits = list_transform(logits, lambda x: 'inf'::FLOAT)",
    "other than n_samples rows in samples": "DELETE FROM samples WHERE sample_id = 299",
    "other than n_layers rows in layers": "DELETE FROM layers WHERE layer = 1",
    "numbers, more than": "UPDATE runs SET n_samples = 9000000",
    "no JSON object": "UPDATE runs SET config = '[]'",
    "a fingerprint that is none": "UPDATE meta SET value = '**bold**' WHERE key = 'fingerprint'",
    "holds a macro": "CREATE MACRO json_serialize_sql(x) AS '{}'",
}  # fmt: skip


@pytest.mark.parametrize("what", OUTSIDE)
def test_values_outside_the_ranges_of_the_schema(what: str, cache: Path):
    change(cache, OUTSIDE[what])
    assert what in tried(cache)


@pytest.mark.parametrize("column", ["confidence", "label", "entropies", "logits"])
def test_who_does_not_try_it_out_is_told_on_reading(column: str, cache: Path):
    [sql] = [sql for what, sql in OUTSIDE.items() if what.endswith(f".{column}")]
    change(cache, sql)
    with open_cache(cache) as opened, pytest.raises(CacheError, match=r"outside their range|out of order"):
        opened.load("one")


CHILDREN = {
    "ends by a segmentation fault": "import os, signal\ndef main(*_): os.kill(os.getpid(), signal.SIGSEGV)",
    "answers nonsense": "def main(request, file, output): output.write(b'[1, 2')",
    "answers nothing": "def main(*_): pass",
    "takes all memory": "def main(*_): [bytearray(1 << 28) for _ in range(100)]",
}  # fmt: skip


@pytest.mark.parametrize("kind", CHILDREN)
def test_a_child_that_is_lost_is_the_files_fault(
    kind: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "child.py").write_text(CHILDREN[kind])
    monkeypatch.setattr(unfamiliar, "_CACHE_CHILD", tmp_path / "child.py")
    assert "cannot be read" in tried(cache)
