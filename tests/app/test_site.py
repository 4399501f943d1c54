"""A site's data and place: rounded but true, inert whatever names it holds, never half a folder, never over another."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import pytest

from app.__main__ import main
from app.compute.cache import names_of, runs
from app.export import Item, Steps
from app.registry import PAGES
from app.report.blind import BlindCache, Scrubber
from app.site.build import BY_FEATURE, WHOLE, NotASite, check_place, plan
from app.site.data import (
    Shelf,
    figure_data,
    item_data,
    names_left,
    read_script,
    rounded,
    script,
    table_data,
)  # fmt: skip
from app.site.supplement import clean_record, size_in_bytes, write_supplement
from engine.core.errors import InvalidInput, UnknownName
from engine.store import RunRecord, open_cache, publish, read_shard
from engine.store.atomic import replacing_folder
from tests.app.driver import published
from tests.app.test_report_blind import SECRETS

HOSTILE = "</script><script>alert(1)</script>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.123456789, 0.12346), (123456.0, 123456), (-1.5e-9, -1.5e-9), (np.nan, None), (np.inf, None), (3.0, 3)],
)
def test_numbers_keep_five_digits_and_whole_numbers_all(value: float, expected: float | None):
    assert rounded(value) == expected


def test_a_figure_is_the_same_but_for_the_sixth_digit():
    x, z = np.linspace(0, 1, 7), np.arange(6.0).reshape(2, 3) / 7
    drawn = figure_data(go.Figure([go.Scatter(x=x, y=[1, None, 3]), go.Heatmap(z=z)], {"title": {"text": "found"}}))
    assert drawn["data"][0]["x"] == pytest.approx(x, rel=5e-5)
    assert drawn["data"][0]["y"] == [1, None, 3]
    assert np.array(drawn["data"][1]["z"]) == pytest.approx(z, rel=5e-5)
    assert drawn["layout"]["title"] == {"text": "found"}


def test_a_table_has_its_cells_as_pages_print_them_and_the_values_to_sort_by():
    frame = pd.DataFrame({"Run": ["a", "b", None], "p": [0.00004, 0.51234567, np.nan], "n": [1000, 2, 3]})
    run, p, n = table_data(frame, {"p": "p"})
    assert run == {"name": "Run", "cells": ["a", "b", "–"], "values": ["a", "b", None]}
    assert p == {"name": "p", "cells": ["< 0.001", "0.51", "–"], "values": [4e-05, 0.512346, None]}
    assert n == {"name": "n", "cells": ["1,000", "2", "3"], "values": [1000, 2, 3]}


def test_a_slider_has_a_figure_and_words_for_each_of_its_steps():
    def draw(value: float) -> tuple[go.Figure, list[str]]:
        return go.Figure([go.Scatter(y=[value])], {"title": {"text": f"at {value}"}}), [f"p = {value}"]

    item = Item("figure", draw(0.5)[0], steps=Steps("Gap", [0.25, 0.5], draw))
    steps = item_data("figure-x", item)["steps"]
    assert steps["label"] == "Gap"
    assert [(stop["value"], stop["finding"], stop["data"][0]["y"]) for stop in steps["at"]] == [
        (0.25, "at 0.25", [0.25]),
        (0.5, "at 0.5", [0.5]),
    ]
    assert steps["at"][0]["said"] == ["p\u00a0=\u00a00.25"]


def test_equal_things_are_kept_once_and_names_stay_inert(tmp_path: Path):
    shelf = Shelf(Scrubber([], ["jqdoe"]))
    text = Item("text", f"by jqdoe {HOSTILE}")
    shelf.put("gap/a", {"one": text, "two": Item("link", "here", of="gap/x")})
    shelf.put("gap/b", {"three": text})
    (tmp_path / "data").mkdir()
    (tmp_path / "data/x.js").write_text(shelf.script("run-1"))
    assert "<" not in shelf.script("run-1")
    data = read_script(tmp_path / "data/x.js")
    assert data["views"] == {"gap/a": [0, 1], "gap/b": [0]}
    assert data["items"][0] == {"kind": "text", "text": f"by removed-1 {HOSTILE}"}
    assert names_left(tmp_path, Scrubber([], ["jqdoe"])) == []
    assert names_left(tmp_path, Scrubber([], ["alert"])) == [f"by removed-1 {HOSTILE}"]


def test_the_plan_has_every_page_for_every_run_and_every_feature_for_the_tests(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        whole = plan(cache)
        assert {view.page for view in whole.views["cache"]} == set(WHOLE)
        assert len(whole.features) == len(cache.runs()) == len(whole.views) - 1
        for number, (run_id, features) in enumerate(whole.features.items(), 1):
            views = whole.views[f"run-{number}"]
            assert {view.run_id for view in views} == {run_id}
            assert {view.page for view in views} == {page.name for page in PAGES} - set(WHOLE)
            assert [view.feature for view in views if view.page == "gap"] == list(features)
            assert len(views) == len(BY_FEATURE) * len(features) + len(PAGES) - len(WHOLE) - len(BY_FEATURE)
        assert list(whole.features) == list(names_of(cache, runs(cache)))  # the first is what the dashboard opens with
        assert "pred_entropy" in whole.features["full-s0"]
        assert "r_std" not in whole.features["baseline-s0"]
        part = plan(cache, ["full-s1"], ["gap", "paper"], ["r_std"])
        assert [view.name for views in part.views.values() for view in views] == ["paper", "gap/r_agg", "gap/r_std"]
        for asked in ({"run_ids": ["nobody"]}, {"pages": ["nowhere"]}, {"features": ["nothing"]}):
            with pytest.raises(UnknownName):
                plan(cache, **asked)


def test_only_a_site_or_nothing_is_replaced(tmp_path: Path, cache_of_kinds: Path, capsys):
    check_place(tmp_path / "new")
    check_place(tmp_path)  # empty
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(NotASite):
        check_place(tmp_path)
    assert main(["site", str(cache_of_kinds), "--out", str(tmp_path)]) == 2
    assert "no site of RouteCal's" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def _write_and_wait(target: Path, begun) -> None:
    with replacing_folder(target) as folder:
        (folder / "half").write_text("")
        begun.set()
        signal.pause()


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path):
    target = tmp_path / "site"
    with replacing_folder(target) as folder:
        (folder / "first").write_text("")
        assert not target.exists()
    with pytest.raises(ZeroDivisionError), replacing_folder(target) as folder:
        raise ZeroDivisionError
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    killed = context.Process(target=_write_and_wait, args=(target, begun))
    killed.start()
    begun.wait()
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    assert [path.name for path in target.iterdir()] == ["first"]
    with replacing_folder(target) as folder:
        (folder / "second").write_text("")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]  # what the killed one left is gone
    assert [path.name for path in target.iterdir()] == ["second"]


@pytest.mark.parametrize(("text", "size"), [("50MB", 50_000_000), ("1.5 gb", 1_500_000_000), ("20kb", 20_000)])
def test_sizes(text: str, size: int):
    assert size_in_bytes(text) == size


@pytest.mark.parametrize("text", ["50", "-1MB", "MB", "1e3MB", "50MiB"])
def test_what_is_no_size(text: str):
    with pytest.raises(InvalidInput):
        size_in_bytes(text)


def test_a_supplement_gives_the_same_numbers_and_names_nobody(tmp_path: Path, make_run):
    records = [
        make_run("net-of-jqdoe", provenance={"user": "jqdoe", "commit": "0123"}),
        make_run("no-logits", seed=1, logits=False, variant="other"),
        make_run("no-profile", seed=2, profile=False, variant="third"),
    ]
    path, site = published(records, tmp_path / "in"), tmp_path / "site"
    (site / "data").mkdir(parents=True)
    (site / "index.html").write_text("look")
    with open_cache(path) as cache:
        blind = BlindCache(cache, [])
        ids = blind.clean_ids([record.run_id for record in records])
        left_out = write_supplement(site, blind, ids, tmp_path / "site.zip", 10_000_000)
        assert not left_out
        archive = zipfile.ZipFile(tmp_path / "site.zip")
        archive.extractall(tmp_path / "out")
        sums = dict(reversed(line.split("  ")) for line in archive.read("SHA256SUMS").decode().splitlines())
        assert set(sums) == set(archive.namelist()) - {"SHA256SUMS"}
        for name, digest in sums.items():
            content = archive.read(name)
            assert hashlib.sha256(content).hexdigest() == digest
            assert b"jqdoe" not in content
        publish(tmp_path / "out/shards", tmp_path / "again.duckdb")
        with open_cache(tmp_path / "again.duckdb") as again:
            for old, new in zip([record.run_id for record in records], ids, strict=True):
                one, two = cache.load(old), again.load(new)
                for name in ("confidence", "correct", "entropies", "logits", "labels", "predictions"):
                    assert np.array_equal(getattr(one, name), getattr(two, name)), name
                pd.testing.assert_frame_equal(cache.epochs(old), again.epochs(new))
        assert json.loads(again_provenance(tmp_path / "out/shards", ids[0])) == {"commit": "0123"}

        sizes = {info.filename: info.file_size for info in archive.infolist()}
        limit = 21_000 + sizes[f"shards/{ids[0]}.parquet"]
        left_out = write_supplement(site, blind, ids, tmp_path / "small.zip", limit)
        assert left_out in (ids[1:], ids[1:2])
        assert (tmp_path / "small.zip").stat().st_size <= limit
        said = zipfile.ZipFile(tmp_path / "small.zip").read("README.txt").decode()
        assert all(f"  {run_id}\n" in said for run_id in left_out)
        with pytest.raises(InvalidInput):
            write_supplement(site, blind, ids, tmp_path / "none.zip", 100)
        assert not (tmp_path / "none.zip").exists()


def again_provenance(folder: Path, run_id: str) -> str:
    return json.dumps(dict(read_shard(folder / f"{run_id}.parquet").provenance))


def test_a_record_of_rounded_logits_keeps_its_confidence(tmp_path: Path):
    rng = np.random.default_rng(0)
    record = RunRecord(
        run_id="many", suite="s", backbone="b", dataset="d", variant="v", logits=rng.normal(size=(50, 60)) * 3,
        labels=rng.integers(0, 60, 50), extra={"score": rng.normal(size=50)},
    )  # fmt: skip
    with open_cache(published([record], tmp_path)) as cache:
        again = clean_record(BlindCache(cache, []), "many")
    assert np.array_equal(again.confidence, record.confidence)
    assert np.array_equal(again.logits, record.logits)
    assert np.array_equal(again.extra["score"], record.extra["score"])


def test_a_script_holds_nothing_but_letters():
    assert script("x", {"a": HOSTILE}).count('"') == 4


def test_a_site_names_nobody_and_says_what_it_removed(planted: Path, tmp_path: Path, capsys):
    out = tmp_path / "site"
    pages = ["overview", "sweep", "reliability", "mechanism", "gap"]
    asked = ["site", str(planted), "--out", str(out), "--anonymous", "--pages", *pages, "--with-shards"]
    assert main(asked) == 0
    said = capsys.readouterr().out
    for file in (out / "data").iterdir():
        text = json.dumps(read_script(file), ensure_ascii=False)
        for secret in SECRETS:
            assert secret.lower() not in text.lower(), (file.name, secret)
    assert "removed-1" in json.dumps(read_script(out / "data/index.js"))
    assert "jqdoe (removed-" in said
    with open_cache(planted) as cache:
        index = read_script(out / "data/index.js")
        assert [run["id"] for run in index["runs"]] == BlindCache(cache).clean_ids(plan(cache).features)
    names = zipfile.ZipFile(tmp_path / "site.zip").namelist()
    assert {name.partition("/")[0] for name in names} == {"site", "shards", "README.txt", "SHA256SUMS"}
    assert not any(secret in name for name in names for secret in SECRETS)
