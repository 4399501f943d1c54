"""train, extract and sweep from the command line, on a recipe small enough for a test."""

from pathlib import Path

import numpy as np
import pytest
import torch

from cache_builder.__main__ import main
from cache_builder.checkpoint import claimed
from cache_builder.models import create_model
from engine.store import open_cache, read_shard

RECIPE = """
suite: mini
training: {epochs: 2, batch_size: 32, image_size: 16, warmup_epochs: 1, learning_rate: 2.0e-3, entropy_stride: 1,
           ensemble_last: 0, limit_train: 64, limit_test: 40}
grid:
  - {backbones: [micro_vit], datasets: [digits], variants: [full_ar, baseline], seeds: [0]}
"""


@pytest.fixture
def places(tmp_path):
    (tmp_path / "mini.yaml").write_text(RECIPE)
    options = ["--runs", str(tmp_path / "runs"), "--shards", str(tmp_path / "shards"), "--device", "cpu"]
    return tmp_path, str(tmp_path / "mini.yaml"), options


def test_train_then_extract_gives_the_same_run(places, capsys):
    folder, recipe, options = places
    chosen = ["--backbone", "micro_vit", "--dataset", "digits", "--variant", "full_ar"]
    assert main(["train", recipe, *chosen, *options]) == 0
    trained = read_shard(folder / "shards" / "mini-micro_vit-digits-full_ar-s0.parquet")
    checkpoint = folder / "runs" / trained.run_id / "checkpoint.pt"
    assert main(["extract", str(checkpoint), "--shards", str(folder / "again"), "--device", "cpu"]) == 0
    extracted = read_shard(folder / "again" / f"{trained.run_id}.parquet")
    np.testing.assert_allclose(extracted.logits, trained.logits, atol=1e-5)
    before = (folder / "again" / f"{trained.run_id}.parquet").read_bytes()
    assert main(["extract", str(checkpoint), "--shards", str(folder / "again"), "--device", "cpu"]) == 2
    assert "a name that is not taken" in capsys.readouterr().err
    assert (folder / "again" / f"{trained.run_id}.parquet").read_bytes() == before
    named = ["--run-id", "copy", "--shards", str(folder / "again"), "--device", "cpu"]
    assert main(["extract", str(checkpoint), *named]) == 0
    assert np.array_equal(read_shard(folder / "again" / "copy.parquet").logits, extracted.logits)
    assert main(["verify", str(folder / "again")]) == 0
    assert main(["train", recipe, *chosen, *options]) == 0
    assert "finished already" in capsys.readouterr().out


def test_a_timm_checkpoint_by_its_options(places, capsys):
    folder, _, options = places
    torch.save(create_model("resnet10t", channels=1).state_dict(), folder / "grey.pth")
    chosen = ["--backbone", "resnet10t", "--dataset", "digits", "--image-size", "16", *options[2:]]
    assert main(["extract", str(folder / "grey.pth"), *chosen, "--mean", "0.25", "--std", "0.5"]) == 0
    record = read_shard(folder / "shards" / "resnet10t-digits.parquet")
    assert (record.config["mean"], record.config["std"]) == ([0.25], [0.5])
    capsys.readouterr()
    assert main(["extract", str(folder / "grey.pth"), *chosen]) == 2
    assert "resnet10t-digits" in capsys.readouterr().err


def test_a_sweep_with_a_failing_run_publishes_the_others_and_says_so(places, capsys):
    folder, recipe, options = places
    text = RECIPE.replace("variants: [full_ar, baseline]", "variants: [baseline]")
    text += "  - {backbones: [micro_vit], datasets: [absent], variants: [baseline], seeds: [0]}\n"
    Path(recipe).write_text(text)
    assert main(["sweep", recipe, "--only", "*absent*", "--publish", str(folder / "none.duckdb"), *options]) == 1
    assert not (folder / "none.duckdb").exists()
    assert main(["sweep", recipe, "--publish", str(folder / "cache.duckdb"), *options]) == 1
    captured = capsys.readouterr()
    assert "failed: mini-micro_vit-absent-baseline-s0: data set absent is not there" in captured.err
    assert "1 runs trained, 0 were finished already" in captured.out
    with open_cache(folder / "cache.duckdb") as cache:
        assert cache.runs()["run_id"].tolist() == ["mini-micro_vit-digits-baseline-s0"]
    with claimed(folder / "runs" / "mini-micro_vit-absent-baseline-s0"):
        assert main(["sweep", recipe, *options]) == 0
    assert "1 left to another sweep" in capsys.readouterr().out


def test_sweep_lists_trains_and_publishes(places, capsys):
    folder, recipe, options = places
    assert main(["sweep", recipe, "--list", *options]) == 0
    assert capsys.readouterr().out.count("to do") == 2
    assert main(["sweep", recipe, "--only", "*full_ar*", *options]) == 0
    assert main(["sweep", recipe, "--publish", str(folder / "cache.duckdb"), *options]) == 0
    assert "1 runs trained, 1 were finished already" in capsys.readouterr().out
    with open_cache(folder / "cache.duckdb") as cache:
        assert set(cache.runs()["variant"]) == {"full_ar", "baseline"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sweep", "replika"], "replica"),
        (["sweep", "smoke", "--only", "*imagenet*"], "--only"),
        (["extract", "absent.pt"], "absent.pt"),
        (["sweep", "smoke", "--device", "gpu"], "--device"),
        (["sweep", "smoke", "--device", "cuda:99"], "--device"),
        (["sweep", "smoke", "--threads", "0"], "--threads"),
        (["sweep", "smoke", "--workers", "0"], "workers"),
        (["train", "smoke", "--backbone", "vit_huge", "--dataset", "digits", "--variant", "full_ar"], "micro_vit"),
        (
            ["train", "smoke", "--backbone", "micro_vit", "--dataset", "cifar10", "--variant", "full_ar"],
            "cifar-10-python",
        ),
    ],
)
def test_mistakes_end_with_one_line_and_code_2(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    if arguments[0] != "extract":
        arguments = [*arguments, "--runs", str(tmp_path / "runs"), "--shards", str(tmp_path / "shards")]
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    assert message in captured.err
