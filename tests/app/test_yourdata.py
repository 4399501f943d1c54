"""Bringing one's own data: read, corrected, refused with reasons, taken into use for one session, and gone after it."""

from __future__ import annotations

import gc
import io
import os
import pickle
import re
import struct
import sys
import tempfile
import threading
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import streamlit as st
from streamlit.runtime.caching import clear_session_resource_cache
from streamlit.testing.v1 import AppTest

from app.compute.own_data import OWN, Own
from app.export import to_csv
from app.parts.upload import MAX_MEGABYTES
from app.parts.yourdata import coverage
from app.registry import PAGES, page_for
from app.serving.gate import USER_HEADER
from app.serving.local_files import VARIABLE, local_files
from engine.core.binning import tertiles
from engine.core.types import Progress, RunData
from engine.importing.examples import EXAMPLE_NAME, example_csv
from engine.store import RunRecord
from engine.store.publish import publish_own, write_own
from engine.verdict import judge
from engine.verdict.features import judge_scores
from tests.app.driver import ROOT, open_app, shown, verdict
from tests.app.test_long_work import until_given_up

SESSION = "test session id"  # what AppTest calls every session
RNG = np.random.default_rng(5)
N = 600
CONFIDENCE = RNG.beta(4, 1.5, N)
CORRECT = RNG.random(N) < CONFIDENCE
SCORE = RNG.normal(size=N)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch):
    """A place for what sessions keep; the session ends before and after each test, as it does when a viewer leaves."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    clear_session_resource_cache(SESSION)
    yield folder
    clear_session_resource_cache(SESSION)


def parquet(columns: dict) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def npz(**arrays: object) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def csv(columns: dict) -> bytes:
    return pd.DataFrame(columns).to_csv(index=False).encode()


def press(app: AppTest, label: str) -> AppTest:
    next(button for button in app.button if button.label == label).click()
    return app.run()


def labelled(app: AppTest, label: str):
    return next(box for box in [*app.selectbox, *app.multiselect] if box.label == label)


def bring(app: AppTest, name: str, content: bytes) -> AppTest:
    return app.file_uploader[0].upload(name, content).run()


PLAIN = {"confidence": CONFIDENCE, "correct": CORRECT.astype(int), "score": SCORE}
FORMATS = {"a.csv": csv(PLAIN), "a.parquet": parquet(PLAIN), "a.npz": npz(**PLAIN)}


@pytest.mark.parametrize("name", FORMATS)
def test_from_a_file_to_the_engines_verdict(name: str, cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    assert "any score of yours" in verdict(app)
    bring(app, name, FORMATS[name])
    assert "a." in shown(app)
    assert labelled(app, "Confidence").value == "confidence"
    assert labelled(app, "Scores to test").value == ["score"]
    press(app, "Use this data")
    assert not app.exception
    expected = judge(CONFIDENCE, CORRECT, SCORE.astype(np.float32), feature="score")
    assert expected.sentence in verdict(app)
    assert app.selectbox(key="cache").value == OWN
    assert any("your model · a · uploaded" in caption.value for caption in app.caption)
    assert "In use on every page" in app.success[0].value


def test_the_example_is_one_click_away(cache_of_kinds: Path, monkeypatch):
    app = press(open_app(cache_of_kinds, monkeypatch, "yourdata"), "Try the example")
    assert EXAMPLE_NAME in shown(app)
    assert labelled(app, "Columns of the outputs").value == "logit_0 to logit_4 (5 columns)"
    press(app, "Use this data")
    assert "No evidence beyond confidence" in verdict(app)
    labels = [button.label for button in app.get("download_button")]
    assert "Template (CSV)" in str(labels) or len(labels) > 2
    press(app, "Remove my data")
    assert "any score of yours" in verdict(app)
    assert not [box for box in app.selectbox if box.key == "cache"]


def test_a_mapping_can_be_corrected(cache_of_kinds: Path, monkeypatch):
    columns = {"sure": CONFIDENCE, "right": CORRECT.astype(int), "a": SCORE, "b": RNG.random(N)}
    app = bring(open_app(cache_of_kinds, monkeypatch, "yourdata"), "odd.csv", csv(columns))
    assert "cannot be used yet" in shown(app)
    problems = app.dataframe[-1].value if len(app.dataframe) else None
    assert problems is not None
    assert not [button for button in app.button if button.label == "Use this data"]
    labelled(app, "Confidence").select("sure")
    labelled(app, "Correct (0 or 1)").select("right")
    app.run()
    assert labelled(app, "Scores to test").options == ["a", "b"]
    press(app, "Use this data")
    assert judge(CONFIDENCE, CORRECT, SCORE.astype(np.float32), feature="a").sentence in verdict(app)


def test_faults_are_listed_by_column_and_row(cache_of_kinds: Path, monkeypatch):
    confidence, correct = CONFIDENCE.copy(), CORRECT.astype(float)
    confidence[[3, 10]] = [np.nan, 97.0]
    correct[5] = 2
    content = csv({"confidence": confidence, "correct": correct})
    app = bring(open_app(cache_of_kinds, monkeypatch, "yourdata"), "bad.csv", content)
    tables = [frame.value for frame in app.dataframe if "Expected" in frame.value.columns]
    assert tables[0][["Column", "Where"]].to_numpy().tolist() == [["confidence", "rows 4, 11"], ["correct", "row 6"]]
    assert "line 2" in shown(app)


KINDS = {
    "everything": b"".join(example_csv().splitlines(keepends=True)[: N + 1]),
    "a score": FORMATS["a.csv"],
    "nothing but confidence": csv({"confidence": CONFIDENCE, "correct": CORRECT.astype(int)}),
    "three samples": csv({"confidence": [0.5, 0.6, 0.7], "correct": [0, 1, 1], "x": [1.0, 2.0, 3.0]}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_page_works_on_it(kind: str, cache_of_kinds: Path, monkeypatch):
    app = bring(open_app(cache_of_kinds, monkeypatch, "yourdata"), "mine.csv", KINDS[kind])
    press(app, "Use this data")
    for page in PAGES:
        app.switch_page(str(page.script)).run()
        assert not app.exception, (page.name, app.exception)
        assert app.title[0].value == page.question
        assert app.selectbox(key="cache").value == OWN
        assert app.selectbox(key="backbone").value == "your model"
        assert verdict(app), page.name


def test_the_scores_are_those_of_the_slice(cache_of_kinds: Path, monkeypatch):
    """A tertile of one score holds other samples than a tertile of another."""
    columns = PLAIN | {"other": RNG.normal(size=N)}
    app = bring(open_app(cache_of_kinds, monkeypatch, "yourdata"), "two.csv", csv(columns))
    press(app, "Use this data")
    app.selectbox(key="tertile").select("low").run()
    for score in ("score", "other"):
        app.selectbox(key="feature").select(score).run()
        rho = np.asarray(columns[score], dtype=np.float32)
        kept = tertiles(rho).index == 0
        scores = {name: np.asarray(columns[name], dtype=np.float32)[kept] for name in ("score", "other")}
        part = RunData("a", CONFIDENCE[kept], CORRECT[kept], np.empty((kept.sum(), 0)), extra=scores)
        table = next(frame.value for frame in app.dataframe if "Holm, verdict" in frame.value.columns)
        assert table["p, verdict"].tolist() == pytest.approx(judge_scores(part)["verdict_p"].tolist())
    app.selectbox(key="outcome").select("wrong").run()
    assert "Selecting wrong predictions uses the outcome" in verdict(app)
    assert not [frame for frame in app.dataframe if "Holm, verdict" in frame.value.columns]
    assert app.file_uploader
    press(app, "Use low tertile")
    assert app.selectbox(key="outcome").value == "all"


def test_an_upload_is_published_in_a_limited_process(cache_of_kinds: Path, monkeypatch):
    """Nothing of it is written or computed by the server."""
    app = bring(open_app(cache_of_kinds, monkeypatch, "yourdata"), "mine.csv", csv(PLAIN))
    for module, name in (
        ("store.publish", "publish"),
        ("store.publish", "write_shard"),
        ("importing.build", "build_record"),
    ):
        monkeypatch.setattr(sys.modules[f"engine.{module}"], name, lambda *_: pytest.fail("in the server"))
    press(app, "Use this data")
    assert app.selectbox(key="cache").value == OWN
    assert "your model · mine · uploaded" in shown(app)


def test_work_on_a_file_ends_with_the_session(cache_of_kinds: Path, monkeypatch, scratch: Path):
    """Publishing that would take a minute is stopped when its viewer has left; the server is free again."""
    begun = threading.Event()

    def endless(_source: object, _name: str, *_: object, progress: Progress) -> None:
        begun.set()
        until_given_up(progress)

    monkeypatch.setattr("app.compute.own_data.publish_isolated", endless)
    app = bring(open_app(cache_of_kinds, monkeypatch, "yourdata"), "mine.csv", csv(PLAIN))
    leaving = threading.Thread(target=lambda: (begun.wait(60), clear_session_resource_cache(SESSION)))
    leaving.start()
    press(app, "Use this data")
    leaving.join()
    assert "keep the server busy" in app.error[-1].value
    assert not list(scratch.glob("routecal-own-*"))


def test_it_is_gone_when_the_session_ends(cache_of_kinds: Path, monkeypatch, scratch: Path):
    n = 577  # found again by its size
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    press(bring(app, "mine.csv", csv({name: values[:n] for name, values in PLAIN.items()})), "Use this data")
    app.switch_page(str(page_for("controls").script)).run()
    assert [path.name for path in scratch.glob("routecal-own-*/*")] == ["own.duckdb"]
    clear_session_resource_cache(SESSION)
    assert not list(scratch.glob("routecal-own-*"))
    app.run()
    assert not app.exception
    assert "your model" not in shown(app)
    del app
    gc.collect()
    assert not [thing for thing in gc.get_objects() if isinstance(thing, RunData) and thing.n_samples == n]


def test_a_link_to_somebodys_data_opens_nothing(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "gap", cache=OWN)
    assert "Your data was removed" in app.sidebar.info[0].value
    assert "your model" not in shown(app)


def published(record: RunRecord) -> Path:
    return publish_own(partial(write_own, record))


def test_data_that_arrives_after_the_end_is_removed_at_once(make_run, scratch: Path):
    mine = Own()
    mine.release()
    mine.take(published(make_run("late", n=50)))
    assert mine.cache is None
    assert not list(scratch.glob("routecal-own-*"))


def test_new_data_takes_the_place_of_the_old(make_run, scratch: Path):
    mine = Own()
    mine.take(published(make_run("first", n=50)))
    mine.take(published(make_run("second", n=50)))
    assert mine.cache.runs()["run_id"].tolist() == ["second"]
    assert len(list(scratch.glob("routecal-own-*"))) == 1
    mine.let_go()
    assert not list(scratch.glob("routecal-own-*"))


def test_a_session_that_ends_while_data_arrives_leaves_nothing(make_run, scratch: Path):
    mine = Own()
    mine.take(published(make_run("first", n=50)))
    lock = mine._guard

    class EndsMeanwhile:
        """The session ends at the moment in which new data has been put in its place."""

        def __enter__(self) -> None:
            lock.acquire()

        def __exit__(self, *_: object) -> None:
            lock.release()
            mine._guard = lock
            mine.release()

    mine._guard = EndsMeanwhile()
    mine.take(published(make_run("second", n=50)))
    assert mine.cache is None
    assert not list(scratch.glob("routecal-own-*"))


class Bomb:
    """Unpickling this writes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def member(content: bytes, name: str = "confidence.npy") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


def header(shape: str, dtype: str = "<f8") -> bytes:
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def hungry_page() -> bytes:
    """A Parquet file whose first page claims to unpack to 2 GB."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"confidence": np.zeros(5000)}), buffer, compression="zstd", use_dictionary=False)
    raw = bytearray(buffer.getvalue())
    end = 7
    while raw[end] & 0x80:
        end += 1
    raw[7 : end + 1] = b"\xfe\xff\xff\xff\x0f"
    return bytes(raw)


def hostile(kind: str, marker: Path) -> tuple[str, bytes]:
    """A file name and content for every kind of mischief; `marker` must not exist afterwards."""
    text = "confidence,correct\n"
    files = {
        "wrong lengths": ("a.npz", lambda: npz(confidence=CONFIDENCE, correct=CORRECT[:-1])),
        "NaN": ("a.csv", lambda: (text + "0.5,1\n,0\nnan,1\n").encode()),
        "infinite": ("a.parquet", lambda: parquet({"confidence": [0.5, np.inf], "correct": [1, 0]})),
        "object array": ("a.npz", lambda: npz(confidence=np.array([Bomb(marker)], dtype=object))),
        "renamed pickle": ("a.npz", lambda: pickle.dumps(Bomb(marker))),
        "pickle as CSV": ("a.csv", lambda: pickle.dumps(Bomb(marker))),
        "pickle as Parquet": ("a.parquet", lambda: pickle.dumps(Bomb(marker))),
        "zip bomb": ("a.npz", lambda: member(header("(25000000,)") + bytes(200_000_000))),
        "huge header": ("a.npz", lambda: member(b"\x93NUMPY\x02\x00" + struct.pack("<I", 2**31) + b" " * 100)),
        "header of a terabyte": ("a.npz", lambda: member(header("(125000000000,)"))),
        "code in a header": ("a.npz", lambda: member(header(f"__import__('os').mkdir({str(marker)!r})"))),
        "path as a member": ("a.npz", lambda: member(b"x", "../../../../tmp/routecal-evil.npy")),
        "hungry page": ("a.parquet", hungry_page),
        "cut short": ("a.parquet", lambda: parquet(PLAIN)[:-50]),
        "formulas as names": ("a.csv", lambda: b"=HYPERLINK(0),correct\n0.5,1\n"),
        "markup as names": ("a.csv", lambda: b"<script>alert(1)</script>,correct\n0.5,1\n"),
        "markup in the file name": ("<img src=x onerror=alert(1)>.csv", lambda: (text + "0.5,7\n").encode()),
        "200 columns": ("a.csv", lambda: csv({f"c{k}": [0.5, 0.25] for k in range(200)})),
        "6000 columns": ("a.csv", lambda: ",".join(f"c{k}" for k in range(6000)).encode() + b"\n"),
        "empty": ("a.csv", lambda: b""),
        "header only": ("a.csv", lambda: text.encode()),
        "binary": ("a.csv", lambda: bytes(range(256)) * 500),
        "one endless line": ("a.csv", lambda: b"1," * 1_000_000),
        "text for numbers": ("a.csv", lambda: (text + "high,yes\n").encode()),
        "ragged": ("a.csv", lambda: (text + "0.5,1\n0.5\n").encode()),
        "two columns of a name": ("a.csv", lambda: b"confidence,confidence\n0.5,1\n"),
        "labels beyond the classes": ("a.npz", lambda: npz(logits=np.zeros((4, 2)), labels=np.full(4, 1e18))),
    }  # fmt: skip
    name, content = files[kind]
    return name, content()


HOSTILE = (
    "wrong lengths", "NaN", "infinite", "object array", "renamed pickle", "pickle as CSV", "pickle as Parquet",
    "zip bomb", "huge header", "header of a terabyte", "code in a header", "path as a member", "hungry page",
    "cut short", "formulas as names", "markup as names", "markup in the file name", "200 columns", "6000 columns",
    "empty", "header only", "binary", "one endless line", "text for numbers", "ragged", "two columns of a name",
    "labels beyond the classes",
)  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_and_the_next_one_is_read(
    kind: str, cache_of_kinds: Path, monkeypatch, tmp_path: Path
):
    marker = tmp_path / "marker"
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    name, content = hostile(kind, marker)
    bring(app, name, content)
    assert not app.exception
    assert len(app.error) == 1, "neither refused nor inert"
    assert "cannot be used" in app.error[0].value
    assert not re.search(r"(?<!\\)<", app.error[0].value), "markup that Markdown would not leave alone"
    assert "onerror" not in shown(app)
    assert not [button for button in app.button if button.label == "Use this data"]
    assert not marker.exists()
    assert not Path("/tmp/routecal-evil.npy").exists()
    bring(app, "fine.csv", FORMATS["a.csv"])
    assert not app.error
    assert [button for button in app.button if button.label == "Use this data"]


def test_files_beyond_the_limit_never_arrive(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    assert app.file_uploader[0].proto.max_upload_size_mb == MAX_MEGABYTES == 100
    assert list(app.file_uploader[0].proto.type) == [".parquet", ".csv", ".npz"]
    assert "maxUploadSize = 100" in (ROOT / ".streamlit/config.toml").read_text()


def test_formulas_do_not_reach_a_spreadsheet():
    frame = pd.DataFrame(
        {
            "=name": ["=1+1", "+1", "-x", "@a", "\tx", "plain", "-0.5", "-1e-3", "a=b", None],
            "n": pd.array([1, None, *range(8)], dtype="Int64"),
            "x": [-0.5, *[1e-9] * 9],
        }
    )
    back = pd.read_csv(io.StringIO(to_csv(frame)), dtype=str, keep_default_na=False)
    assert back.columns.tolist() == ["'=name", "n", "x"]
    assert back["'=name"].tolist() == ["'=1+1", "'+1", "'-x", "'@a", "'\tx", "plain", "-0.5", "-1e-3", "a=b", ""]
    assert back["n"].tolist() == ["1", "", *map(str, range(8))]
    assert back["x"][0] == "-0.5"


def test_sql_on_the_page(cache_of_kinds: Path, monkeypatch):
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    press(app, "Run query")
    assert "full-s0" in app.dataframe[-1].value["run_id"].tolist()
    press(app, "Calibration by bin")
    assert "floor(confidence * 15)" in app.text_area[0].value
    press(app, "Run query")
    assert not app.error
    assert {"bin", "accuracy"} <= set(app.dataframe[-1].value.columns)
    app.text_area[0].set_value("SELECT * FROM read_csv('/etc/passwd')").run()
    press(app, "Run query")
    assert "read\\_csv" in app.error[0].value
    assert not app.dataframe


@pytest.mark.parametrize("example", ["Runs", "Calibration by bin", "Entropy by layer", "Most confident errors"])
def test_every_example_query_has_an_answer(example: str, cache_of_kinds: Path, monkeypatch):
    app = press(open_app(cache_of_kinds, monkeypatch, "yourdata"), example)
    press(app, "Run query")
    assert not app.error
    assert len(app.dataframe[-1].value) > 3


def test_sql_over_ones_own_data(cache_of_kinds: Path, monkeypatch):
    app = press(open_app(cache_of_kinds, monkeypatch, "yourdata"), "Try the example")
    press(app, "Use this data")
    press(app, "Run query")
    assert app.dataframe[-1].value["run_id"].tolist() == ["your-data"]


def test_local_files_only_where_allowed(tmp_path: Path, monkeypatch):
    folder = tmp_path / "outputs"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.csv", "deep/b.npz", "c.txt"):
        (folder / name).touch()
    (tmp_path / "secret.csv").touch()
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    assert local_files("localhost") == {}
    monkeypatch.setenv(VARIABLE, str(folder))
    assert list(local_files("127.0.0.1")) == ["a.csv", "deep/b.npz"]
    for address in (None, "", "0.0.0.0", "192.168.0.1"):
        assert local_files(address) == {}
    monkeypatch.setenv(USER_HEADER, "X-Forwarded-User")
    assert local_files("localhost") == {}, "a proxy on this machine lets strangers in"


def test_no_more_of_a_folder_is_listed_than_is_offered(tmp_path: Path, monkeypatch):
    for name in ("b.csv", "a.csv", "deep/c.csv", "deeper/d.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    monkeypatch.setattr("app.serving.local_files._MOST", 2)
    seen = []
    monkeypatch.setattr(os, "walk", lambda top, walk=os.walk: (seen.append(found[0]) or found for found in walk(top)))
    assert list(local_files("localhost")) == ["a.csv", "b.csv"]
    assert seen == [str(tmp_path)]


def test_a_local_file(cache_of_kinds: Path, monkeypatch, tmp_path: Path):
    (tmp_path / "mine.csv").write_bytes(FORMATS["a.csv"])
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    app = open_app(cache_of_kinds, monkeypatch, "yourdata")
    assert not [box for box in app.selectbox if box.key == "local"]
    option = st.get_option
    monkeypatch.setattr(st, "get_option", lambda name: "localhost" if name == "server.address" else option(name))
    app.run()
    app.selectbox(key="local").select("mine.csv").run()
    assert "mine.csv: 600 rows" in shown(app)
    assert [button for button in app.button if button.label == "Use this data"]


def test_coverage_says_what_is_missing():
    plain = RunData("a", CONFIDENCE, CORRECT, np.empty((N, 0)))
    rows = coverage(plain, has_logits=False).set_index("page")
    assert rows.loc["Reliability", "shows"] == "confidence against accuracy"
    assert "needs logits" in rows.loc["Reliability", "lacks"]
    assert rows.loc["Matched-confidence gap", "shows"] == ""
    assert rows.loc["Probe audit", "shows"] == "probes without your scores"
    scored = coverage(RunData("a", CONFIDENCE, CORRECT, np.empty((N, 0)), extra={"score": SCORE}), has_logits=False)
    assert scored.set_index("page").loc["Probe audit", "lacks"] == ""
    full = RunData("a", CONFIDENCE, CORRECT, np.zeros((N, 2)), predictions=np.zeros(N, dtype=np.int64))
    rows = coverage(full, has_logits=True).set_index("page")
    assert rows.loc["Reliability", "lacks"] == ""
    assert "seeds" in rows.loc["Sweep", "lacks"]
