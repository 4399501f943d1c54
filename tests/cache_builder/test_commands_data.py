"""import, publish, info and verify from the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cache_builder.__main__ import COMMANDS, main
from engine.store import RunRecord, open_cache, read_shard, write_shard

ROOT = Path(__file__).resolve().parents[2]
OUTPUTS = ROOT.parent / "shared" / "data" / "outputs"


@pytest.fixture
def outputs(tmp_path):
    """One table of logits, labels, a profile and a score of one's own, in three formats."""
    rng = np.random.default_rng(0)
    n = 50
    logits = rng.normal(size=(n, 3)).round(3)
    columns = {f"logit_{k}": logits[:, k] for k in range(3)}
    columns |= {f"H_{layer}": rng.uniform(size=n).round(3) for layer in (1, 2)}
    columns |= {"label": rng.integers(0, 3, n), "margin": rng.normal(size=n).round(3)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    np.savez(tmp_path / "a.npz", **columns)
    rows = zip(*columns.values(), strict=True)
    text = ",".join(columns) + "\n" + "".join(",".join(str(value) for value in row) + "\n" for row in rows)
    (tmp_path / "a.csv").write_text(text)
    return tmp_path, logits, columns


def test_every_format_gives_the_same_run(outputs, capsys):
    folder, logits, columns = outputs
    for ending in ("parquet", "csv", "npz"):
        command = ["import", str(folder / f"a.{ending}"), "--run-id", ending, "--extra", "margin", "--seed", "3"]
        assert main([*command, "--dataset", "cifar10", "--out", str(folder / "shards")]) == 0
        printed = capsys.readouterr().out
        assert "logits = logit_0, logit_1, logit_2" in printed
        assert "profile = H_1, H_2" in printed
        record = read_shard(folder / "shards" / f"{ending}.parquet")
        np.testing.assert_array_equal(record.logits, logits.astype(np.float32))
        np.testing.assert_array_equal(record.labels, columns["label"])
        np.testing.assert_array_equal(record.extra["margin"], columns["margin"].astype(np.float32))
        assert record.n_layers == 2
        assert (record.dataset, record.seed, record.suite) == ("cifar10", 3, "imported")
        assert record.provenance["source"] == f"import of a.{ending}"
        assert len(record.provenance["data_fingerprint"]) == 64
    assert main(["verify", str(folder / "shards")]) == 0
    assert "3 shards checked, 0 with a problem" in capsys.readouterr().out


def test_a_block_size_and_entropies_during_training_come_along(outputs, capsys):
    folder, _, _ = outputs
    (folder / "during.csv").write_text(
        "epoch,layer,mean_entropy,std_entropy\n4,1,0.99,0.01\n4,2,0.98,0.02\n8,1,0.7,0.1\n8,2,0.6,0.2\n"
    )
    command = ["import", str(folder / "a.csv"), "--out", str(folder / "shards"), "--variant", "block_ar"]
    named = ["--run-id", "theirs", "--block-size", "2", "--epoch-entropies", str(folder / "during.csv")]
    assert main([*command, *named]) == 0
    record = read_shard(folder / "shards" / "theirs.parquet")
    assert record.block_size == 2
    assert record.epochs.values.tolist() == [[4, 1, 0.99, 0.01], [4, 2, 0.98, 0.02], [8, 1, 0.7, 0.1], [8, 2, 0.6, 0.2]]
    for text, message in (
        ("epoch,layer\n1,1\n", "no mean_entropy"),
        ("epoch,layer,mean_entropy,std_entropy\n1,3,1,0\n", "layer"),
    ):
        (folder / "wrong.csv").write_text(text)
        assert main([*command, "--run-id", "wrong", "--epoch-entropies", str(folder / "wrong.csv")]) == 2
        assert message in capsys.readouterr().err


def test_results_are_a_row_per_cell_with_its_seeds(outputs, capsys):
    folder, _, _ = outputs
    for seed in ("1", "0"):
        named = ["--run-id", f"run{seed}", "--seed", seed, "--variant", "block_ar", "--block-size", "2"]
        assert main(["import", str(folder / "a.csv"), "--out", str(folder / "shards"), *named]) == 0
    capsys.readouterr()
    assert main(["results", str(folder / "shards")]) == 0
    *_, row = capsys.readouterr().out.splitlines()
    data, backbone, variant, accuracy, error, spread = (cell.strip() for cell in row.strip("|").split("|"))
    record = read_shard(folder / "shards" / "run0.parquet")
    assert (data, backbone, variant) == ("unknown", "unknown", "Block-AR (b = 2)")
    assert accuracy == ", ".join([f"{100 * record.accuracy:.1f}"] * 2)
    assert spread == ", ".join([f"{record.entropies.std(axis=1).std():.3f}"] * 2)
    assert error.count(",") == 1


def test_columns_named_by_hand(tmp_path, capsys):
    np.savez(
        tmp_path / "a.npz",
        certainty=[0.5, 0.75],
        right=[1, 0],
        guess=[0, 1],
        truth=[0, 0],
        probs=[[0.5, 0.5], [0.25, 0.75]],
        scores=[[1.0, 0.0], [0.0, 3.0]],
        labels=[0, 0],
    )

    def imported(*options):
        run_id = f"r{len(list((tmp_path / 'shards').glob('*')))}"
        command = ["import", str(tmp_path / "a.npz"), "--run-id", run_id, "--out", str(tmp_path / "shards")]
        assert main([*command, *options]) == 0
        return read_shard(tmp_path / "shards" / f"{run_id}.parquet")

    assert imported().provenance["mapping"]["probabilities"] == ["probs"]
    assert imported("--logits", "scores").confidence[1] == pytest.approx(1 / (1 + np.exp(-3)))
    by_hand = imported("--confidence", "certainty", "--correct", "right")
    assert by_hand.logits is None
    assert by_hand.confidence.tolist() == [0.5, 0.75]
    derived = imported("--confidence", "certainty", "--prediction", "guess", "--label", "truth")
    assert derived.correct.tolist() == [True, False]
    capsys.readouterr()
    assert main(["import", str(tmp_path / "a.npz"), "--run-id", "x", "--logits", "nope"]) == 2
    assert "certainty" in capsys.readouterr().err


def test_an_import_never_replaces_a_run(outputs, capsys):
    folder, *_ = outputs
    command = ["import", str(folder / "a.csv"), "--run-id", "one", "--out", str(folder / "shards")]
    assert main(command) == 0
    before = (folder / "shards" / "one.parquet").read_bytes()
    assert main(command) == 2
    assert "a name that is not taken" in capsys.readouterr().err
    assert (folder / "shards" / "one.parquet").read_bytes() == before


def test_a_refused_import_is_one_line_and_leaves_nothing(tmp_path, capsys):
    (tmp_path / "a.csv").write_text("conf,correct\n0.5,1\n0.5\n")
    assert main(["import", str(tmp_path / "a.csv"), "--run-id", "x", "--out", str(tmp_path / "shards")]) == 2
    printed = capsys.readouterr().err
    assert printed.startswith("error: a.csv: expected")
    assert printed.count("\n") == 1
    assert not (tmp_path / "shards").exists()


def test_publish_and_info(outputs, capsys):
    folder, *_ = outputs
    main(["import", str(folder / "a.npz"), "--run-id", "mine", "--extra", "margin", "--out", str(folder / "shards")])
    target = folder / "cache.duckdb"
    assert main(["publish", str(folder / "shards"), "--cache", str(target)]) == 0
    assert "published 1 runs, 50 samples" in capsys.readouterr().out
    assert main(["publish", str(folder / "shards"), "--cache", str(target)]) == 0
    assert "up to date" in capsys.readouterr().out
    assert main(["info", str(target)]) == 0
    printed = capsys.readouterr().out
    assert "1 runs, 50 samples" in printed
    line = next(line for line in printed.splitlines() if line.strip().startswith("mine"))
    assert line.split()[:10] == ["mine", "imported", "unknown", "unknown", "imported", "-", "-", "50", "3", "2"]
    assert line.split()[-2:] == ["yes", "margin"]
    with open_cache(target) as cache:
        assert cache.runs()["run_id"].tolist() == ["mine"]


def test_info_without_a_cache(tmp_path, capsys):
    assert main(["info", str(tmp_path / "none.duckdb")]) == 2
    assert "no such cache" in capsys.readouterr().err


def test_info_of_an_empty_cache(tmp_path, capsys):
    (tmp_path / "shards").mkdir()
    main(["publish", str(tmp_path / "shards"), "--cache", str(tmp_path / "c.duckdb")])
    assert main(["info", str(tmp_path / "c.duckdb")]) == 0
    assert "0 runs, 0 samples" in capsys.readouterr().out


def test_verify_names_each_problem(outputs, capsys):
    folder, *_ = outputs
    shards = folder / "shards"
    for run_id in ("good", "flipped"):
        main(["import", str(folder / "a.npz"), "--run-id", run_id, "--out", str(shards)])
    path = shards / "flipped.parquet"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 0xFF
    path.write_bytes(raw)
    names = {"suite": "s", "backbone": "b", "dataset": "d", "variant": "v"}
    origin = {"commit": "x", "source": "", "versions": {}, "seconds": 0.0}
    write_shard(RunRecord(run_id="orphan", **names, confidence=[0.5], correct=[1], provenance=origin), shards)
    capsys.readouterr()
    assert main(["verify", str(shards)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["PROBLEM", "ok", "PROBLEM"]
    assert "flipped.parquet" in lines[0]
    assert "good.parquet" in lines[1]
    assert "lacks versions, device, source, data_fingerprint;" in lines[2]
    assert lines[3] == "3 shards checked, 2 with a problem"
    assert main(["verify", str(shards / "good.parquet")]) == 0
    assert "WARNING" not in capsys.readouterr().out
    rounded = RunRecord(run_id="rounded", **names, confidence=np.linspace(0.2, 1, 90).round(2), correct=[1] * 90)
    assert main(["verify", str(write_shard(rounded, shards))]) == 1
    assert "rounded.parquet: Confidence is rounded to 2 digits: " in capsys.readouterr().out.splitlines()[1]
    assert main(["verify", str(folder / "nowhere")]) == 2


def test_light_commands_do_not_import_torch(outputs):
    tmp_path, *_ = outputs
    (tmp_path / "shards").mkdir()
    importing = ["import", str(tmp_path / "a.csv"), "--run-id", "one", "--out", str(tmp_path / "shards")]
    script = """
import sys
from cache_builder.__main__ import main
code = main(sys.argv[1:])
assert "torch" not in sys.modules
sys.exit(code)
"""
    environment = os.environ | {"ROUTECAL_CACHE": str(tmp_path / "c.duckdb")}
    shards = str(tmp_path / "shards")
    # Answers need torch: `publish` has them computed by other processes, `verify` computes a sample itself.
    for arguments in (importing, ["publish", shards], ["info"], ["verify", shards, "--sample", "0"]):
        finished = subprocess.run(
            [sys.executable, "-c", script, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert finished.returncode == 0, finished.stderr


def test_help_lists_every_command(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in COMMANDS)
    with pytest.raises(SystemExit) as stopped:
        main([])
    assert stopped.value.code == 2


EXPECTED = {
    "netcal_c10_wideresnet-16-4": (10_000, 10, True),
    "netcal_c100_wideresnet-16-4": (10_000, 100, True),
    "hollance_ImageNet_torchvision_resnet101": (50_000, None, False),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_real_outputs(name, tmp_path):
    source = OUTPUTS / f"{name}.npz"
    if not source.exists():
        pytest.skip("real outputs are not on this machine")
    assert main(["import", str(source), "--run-id", name, "--out", str(tmp_path)]) == 0
    record = read_shard(tmp_path / f"{name}.parquet")
    assert (record.n_samples, record.n_classes, record.has_logits) == EXPECTED[name]
    raw = np.load(source, allow_pickle=False)
    if record.has_logits:
        assert record.accuracy == (raw["probs"].argmax(axis=1) == raw["labels"]).mean()
        np.testing.assert_allclose(record.confidence, raw["probs"].max(axis=1), atol=2e-6)
    else:
        assert record.accuracy == (raw["pred"] == raw["labels"]).mean()
        np.testing.assert_array_equal(record.confidence, raw["conf"])
    assert json.dumps(record.provenance)
