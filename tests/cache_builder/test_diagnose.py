"""The default answers: computed for what is new, kept beside the shards, read back the same, checked."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from cache_builder import diagnose as builder
from cache_builder.__main__ import main
from cache_builder.commands.verify import PROVENANCE
from cache_builder.diagnose import publish_with_answers
from cache_builder.progress import quiet
from engine.features import feature
from engine.store import open_cache, publish, schema, write_shard
from engine.store.codec import encode
from engine.store.diagnoses import diagnoses_path
from engine.sweep import DEFAULT_FEATURE, diagnose
from engine.sweep.others import other_entropies
from engine.verdict import answers, judge
from tests.conftest import KINDS, made_up_run


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The shards that are diagnosed, in order, without processes that would have to start first."""
    seen: list[Path] = []

    class Here:
        def __init__(self, *_: object, **__: object) -> None: ...
        def __enter__(self) -> Here:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, work, path):
            seen.append(path)
            future = builder.Future()
            future.set_result(work(path))
            return future

    monkeypatch.setattr(builder, "ProcessPoolExecutor", Here)
    return seen


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for name in ("full", "second", "no-profile", "ensemble"):
        write_shard(KINDS[name], tmp_path / "shards")
    write_shard(made_up_run("twin-s0", backbone="same images"), tmp_path / "shards")
    return tmp_path / "shards"


@pytest.mark.usefixtures("in_this_process")
def test_stored_answers_are_those_computed_live(shards, tmp_path):
    publish_with_answers(shards, tmp_path / "c.duckdb", quiet)
    with open_cache(tmp_path / "c.duckdb") as cache:
        pd.testing.assert_frame_equal(answers.SWEEP.read(cache), diagnose(cache), check_exact=True)
        for run_id, n_others in (("full-s0", 1), ("full-s1", 0)):
            run, others = cache.load(run_id), other_entropies(cache, run_id)
            rho = feature(run, DEFAULT_FEATURE)
            live = judge(
                run.confidence, run.correct, rho, feature=answers.LABEL, outputs=run.logits, others=others,
                clusters=run.clusters,
            )  # fmt: skip
            assert len(others) == n_others
            assert encode(answers.VERDICT.read(cache, run_id)) == encode(live)
        assert answers.VERDICT.read(cache, "baseline-s0") is None  # it has no routing to be judged


def test_only_what_is_new_is_computed(shards, tmp_path, in_this_process):
    assert publish_with_answers(shards, tmp_path / "c.duckdb", quiet).changed
    assert len(in_this_process) == 5
    assert not publish_with_answers(shards, tmp_path / "c.duckdb", quiet).changed
    write_shard(made_up_run("full-s1", seed=7), shards)
    write_shard(made_up_run("full-s2", seed=8), shards)
    assert publish_with_answers(shards, tmp_path / "c.duckdb", quiet).changed
    assert [path.stem for path in in_this_process[5:]] == ["full-s1", "full-s2"]


@pytest.mark.usefixtures("in_this_process")
def test_answers_can_be_left_out_and_filled_in_later(shards, tmp_path):
    publish(shards, tmp_path / "c.duckdb")
    with open_cache(tmp_path / "c.duckdb") as cache:
        assert answers.VERDICT.read(cache, "full-s0") is None
        assert answers.SWEEP.read(cache) is None
    assert publish_with_answers(shards, tmp_path / "c.duckdb", quiet).changed
    assert not publish(shards, tmp_path / "c.duckdb").changed  # and does not take them away again
    with open_cache(tmp_path / "c.duckdb") as cache:
        assert answers.VERDICT.read(cache, "full-s0") is not None


def test_answers_of_another_engine_are_ignored_and_renewed(shards, tmp_path, in_this_process, monkeypatch):
    publish_with_answers(shards, tmp_path / "c.duckdb", quiet)
    for module in ("cache", "publish", "diagnoses"):
        monkeypatch.setattr(sys.modules[f"engine.store.{module}"], "ENGINE_VERSION", schema.ENGINE_VERSION + 1)
    with open_cache(tmp_path / "c.duckdb") as cache:
        assert answers.VERDICT.read(cache, "full-s0") is None
    assert publish_with_answers(shards, tmp_path / "c.duckdb", quiet).changed
    assert len(in_this_process) == 10


def test_answers_that_cannot_be_read_are_computed_anew(shards, tmp_path, in_this_process):
    publish_with_answers(shards, tmp_path / "c.duckdb", quiet)
    path = diagnoses_path(shards, "full-s0")
    path.write_text(path.read_text()[:200])
    publish_with_answers(shards, tmp_path / "c.duckdb", quiet)
    assert [each.stem for each in in_this_process[5:]] == ["full-s0"]
    held = json.loads(path.read_text())
    assert held["answers"].keys() == {question.name for question in answers.OF_RUNS}


def test_info_says_whose_answers_a_cache_holds(shards, tmp_path, in_this_process, capsys, monkeypatch):
    target = str(tmp_path / "c.duckdb")
    said = []
    for answered in (False, True, True):
        if not said:
            publish(shards, target)
        elif answered and len(said) == 1:
            publish_with_answers(shards, Path(target), quiet)
        else:
            for module in ("engine.store.cache", "cache_builder.commands.info"):
                monkeypatch.setattr(sys.modules[module], "ENGINE_VERSION", schema.ENGINE_VERSION + 1)
        assert main(["info", target]) == 0
        said.append(capsys.readouterr().out.splitlines()[1])
    version = schema.ENGINE_VERSION
    assert said == [
        "answers at default settings are not stored",
        "answers at default settings are stored",
        f"answers at default settings of engine version {version} are ignored, this is {version + 1}",
    ]
    assert len(in_this_process) == 5


@pytest.mark.usefixtures("in_this_process")
def test_verify_computes_a_sample_again(tmp_path, capsys):
    write_shard(made_up_run("one", provenance=dict.fromkeys(PROVENANCE, "x")), tmp_path)
    publish_with_answers(tmp_path, tmp_path / "c.duckdb", quiet)
    assert main(["verify", str(tmp_path)]) == 0
    assert "answers of 1 of 1 compared" in capsys.readouterr().out
    path = diagnoses_path(tmp_path, "one")
    held = json.loads(path.read_text())
    held["answers"]["verdict"]["p_value"] = 0.001
    path.write_text(json.dumps(held))
    assert main(["verify", str(tmp_path)]) == 1
    assert "other answers than those stored (verdict)" in capsys.readouterr().out
    held["engine_version"] += 1
    path.write_text(json.dumps(held))
    assert main(["verify", str(tmp_path)]) == 0
    assert "ignored" in capsys.readouterr().out


@pytest.mark.usefixtures("in_this_process")
def test_older_clients_can_read_a_cache_and_nothing_in_it_is_empty(shards, tmp_path):
    publish_with_answers(shards, tmp_path / "c.duckdb", quiet)
    with duckdb.connect(":memory:") as connection:
        connection.execute(f"ATTACH '{tmp_path / 'c.duckdb'}' AS it (READ_ONLY)")
        [(tags,)] = connection.execute("SELECT tags FROM duckdb_databases() WHERE database_name = 'it'").fetchall()
        assert tags["storage_version"].startswith("v1.2.0")
        sizes = "SELECT free_blocks, total_blocks FROM pragma_database_size() WHERE database_name = 'it'"
        [(free, total)] = connection.execute(sizes).fetchall()
        assert free <= 2 < total  # of what the answers were written over


def test_a_hostile_answer_is_not_believed_but_computed(shards, tmp_path, in_this_process):
    publish_with_answers(shards, tmp_path / "c.duckdb", quiet)
    with duckdb.connect(str(tmp_path / "c.duckdb")) as connection:
        connection.execute("UPDATE diagnoses SET result = '{\"outcome\":\"evidence\"}' WHERE settings = 'verdict'")
    with open_cache(tmp_path / "c.duckdb") as cache:
        assert answers.VERDICT.read(cache, "full-s0") is None
        assert answers.PROBES.read(cache, "full-s0") is not None
    assert in_this_process
