"""Double-blind: names of people, machines and places planted all over a cache are nowhere in a report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app.report import Settings, build_report
from app.report.blind import BlindCache, Scrubber, is_personal
from engine.store import Layer, open_cache
from engine.sweep import diagnose
from tests.app.driver import published

SECRETS = (
    "jqdoe", "gpu17", "zorblab", "wombat-9000", "Quux University", "Jane Q Doe", "secretset", "/scratch", "/home",
    "C:\\", "\\\\nas", "10.17.3.4", "outputs_of", "final_model", "jane.doe",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _few_worlds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.report.study.N_SIMULATIONS", 20)


@pytest.fixture
def planted(tmp_path: Path, make_run) -> Path:
    """Names in ids, labels, layers, columns, settings and provenance."""
    base = make_run("jqdoe-net-s0", suite="jqdoe sweep", backbone="vit of zorblab", dataset="dice on gpu17")
    first = replace(
        make_run("jqdoe-net-s0", suite="jqdoe sweep", logits=False, backbone="vit of zorblab", dataset="dice on gpu17"),
        layers=[Layer(f"gpu17 layer {k}", 2) for k in range(base.n_layers)],
        extra={"score by jqdoe": np.linspace(0, 1, base.n_samples)},
        config={
            "data_root": "/scratch/jqdoe/secretset", "checkpoint": "final_model_jqdoe.pt", "lr": 0.1,
            "logger": {"host_name": "gpu17.zorblab.edu", "url": "https://track.zorblab.edu/jqdoe/1"},
            "out": "C:\\Users\\Jane Q Doe\\runs\\a b.csv", "share": "\\\\nas\\vol\\x", "ip": "10.17.3.4:22",
        },
        provenance={
            "source": "import of outputs_of_jqdoe.csv", "commit": "0123456789abcdef", "user": "jqdoe",
            "device": "cpu: on wombat-9000", "institution": "Quux University", "contact": "jane.doe@zorblab.edu",
            "notes": ["read from /home/jqdoe/My Files/outputs_of.csv, on wombat-9000"], "versions": {"numpy": "2.0"},
            "machine": ["wombat-9000"], "host": "zorblab",
        },
    )  # fmt: skip
    second = make_run("clean-s0", provenance={"source": "cache_builder train"}, config={"lr": 0.2})
    return published([first, second], tmp_path / "of jqdoe")


@pytest.mark.parametrize("name", ["r_agg", "score by jqdoe"])
def test_planted_names_are_gone(planted: Path, name: str):
    with open_cache(planted) as cache:
        report = build_report(cache, settings=Settings(name))
    text = report.html()
    own = text[: text.index("<script>")] if "<script>" in text else text  # with the figures' data, without plotly.js
    assert "application/json" in own
    for secret in SECRETS:
        assert secret.lower() not in own.lower(), secret
    assert str(planted.parent) not in own
    assert "import of removed-" in own, "what is removed leaves a mark"
    assert "are written as removed-1" in own
    assert "numpy 2.0" in own
    assert "cache_builder train" in own


def test_runs_stay_apart_and_their_samples_are_theirs(planted: Path):
    with open_cache(planted) as cache:
        blind = BlindCache(cache, names=())
        assert len(set(blind.runs()["run_id"])) == 2
        (clean,) = blind.clean_ids(["jqdoe-net-s0"])
        assert "jqdoe" not in clean
        assert np.array_equal(blind.load(clean).confidence, cache.load("jqdoe-net-s0").confidence)
        assert list(blind.load(clean).extra) == [blind.clean_feature("score by jqdoe")]


@pytest.mark.parametrize("name", ["r_agg", "score by jqdoe"])
def test_rows_of_the_cache_become_those_of_the_blind_one(planted: Path, name: str):
    with open_cache(planted) as cache:
        blind = BlindCache(cache, names=())
        expected = diagnose(blind, feature_name=blind.clean_feature(name), n_resamples=50)
        pd.testing.assert_frame_equal(blind.clean_rows(diagnose(cache, feature_name=name, n_resamples=50)), expected)


def test_ids_that_become_equal_are_told_apart(tmp_path: Path, make_run):
    with open_cache(published([make_run("Ann-s0", n=50), make_run("ann-s0", n=50, seed=1)], tmp_path)) as cache:
        ids = BlindCache(cache, names=("ann",)).runs()["run_id"].tolist()
    assert ids == ["removed-1-s0", "removed-1-s0-2"]


def test_a_clean_cache_is_left_as_it_is(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        blind = BlindCache(cache, names=("root", "me"))
        kept = [column for column in cache.runs() if column not in ("config", "provenance")]
        assert blind.runs()[kept].equals(cache.runs()[kept])
        assert blind.scrub.n_removed == 0


@pytest.mark.parametrize(
    "text",
    [
        "/home/ann/x.csv", "see /etc/passwd", "(/data)", "~/runs", "~ann/runs", "file:///srv/x", "s3://bucket/key",
        "D:\\data\\x", "d:/data/x", "\\\\server\\share", "ann@host", "a.b@c.example.org", "node3.cluster.local",
        "www.example.com", "192.168.0.1", "weights-of-ann.pth", "/mnt/My Disk/of ann/x.npz", "path=/srv/x",
    ],
)  # fmt: skip
def test_private_text_is_found(text: str):
    cleaned = Scrubber([], ())(text)
    assert "removed-1" in cleaned
    assert not set("/\\@~") & set(cleaned)
    assert "ann" not in cleaned


@pytest.mark.parametrize(
    "text",
    [
        "block 2 attention", "stages.1.blocks.0.attn", "low/high", "13/15", "2.13.0+cpu", "AMD EPYC (AVX2)", "r_agg",
        "vit_base_patch16_224.augreg_in21k", "cache_builder train, ensemble", "a / b", "1e-3", "bundled-s0-last5",
        "Fashion-MNIST", "H_1", "cuda: NVIDIA A100-SXM4-80GB", "3 confidences above 1 by rounding were set to 1",
    ],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text: str):
    assert Scrubber([], ())(text) == text


def test_a_name_found_once_is_removed_everywhere():
    scrub = Scrubber([("/home/ann/x", False), ("bob", True), ("root", True)], ("carol.example",))
    assert scrub("ann-vit") == "removed-1-vit"
    assert scrub("BOB_set") == "removed-2_set"
    assert scrub("carol") == "removed-3"
    assert scrub("annex of root") == "annex of root", "only whole words, and not those that everybody uses"
    assert scrub("again ann") == "again removed-1"


@pytest.mark.parametrize(
    ("key", "personal"),
    [("user", True), ("host_name", True), ("trainedByUser", True), ("HOSTNAME", True), ("n_layers", False),
     ("num_nodes", False), ("authors", True), ("lr", False)],
)  # fmt: skip
def test_personal_keys(key: str, personal: bool):
    assert is_personal(key) is personal
