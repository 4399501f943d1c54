"""The paper's tables as they are written: from hand-made results, and from a cache through the command."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from engine.__main__ import main
from engine.commands.tables import write_tables
from engine.core.errors import InvalidInput, UnknownName
from engine.paper import COUNTERPARTS, Evidence, gather, single_runs
from engine.paper.counterparts import FURTHER, Table, written_tables
from engine.store import RunRecord, open_cache, publish, write_shard

METRICS = ("ece", "adaptive_ece", "nll", "brier", "worst_tertile_ece", "mce", "classwise_ece", "smooth_ece", "accuracy")
CELL = "swin_tiny · CIFAR-10 · Block-AR (b = 2)"


# ---- tables by hand


def hand_made(variant: str = "block_ar", backbone: str = "swin_tiny") -> Evidence:
    """Two seeds and two methods; every metric of `ts` is 0.1 and 0.3, of `none` 0.5."""
    runs = pd.DataFrame(
        {
            "run_id": ["a", "b"],
            "suite": "s",
            "backbone": backbone,
            "dataset": "cifar10",
            "variant": variant,
            "block_size": pd.array([2, 2], dtype="Int64"),
            "accuracy": [0.9, 0.8],
            "seed": [0, 1],
            "provenance": "{}",
        }
    )
    changes = ("delta_nll", "delta_brier", "delta_accuracy")
    rows = []
    for run_id, number in (("a", 0.1), ("b", 0.3)):
        rows += [(run_id, "none", metric, 0.5, 0.4, 0.6) for metric in METRICS]
        rows += [(run_id, "ts", metric, number, number - 0.01, number + 0.01) for metric in METRICS]
        rows += [(run_id, "none", metric, 0.0, 0.0, 0.0) for metric in changes]
        rows += [(run_id, "ts", metric, number - 0.5, -1.0, 0.0) for metric in changes]
    scores = pd.DataFrame(rows, columns=["run_id", "method", "metric", "value", "ci_low", "ci_high"])
    bandwidth = pd.DataFrame(
        [(run_id, "cv_nll", 2.0, metric, number) for run_id, number in (("a", 0.1), ("b", 0.3)) for metric in METRICS],
        columns=["run_id", "mode", "multiplier", "metric", "value"],
    ).assign(feature="r_std")
    ablation = pd.DataFrame(
        [(run_id, name, "ece", 0.02, 0.01, -0.01) for run_id in "ab" for name in ("r_std", "confidence")],
        columns=["run_id", "feature", "metric", "value", "delta_vs_confidence", "delta_vs_pred_entropy"],
    )
    sizes = pd.DataFrame(
        [(run_id, 250, 0, method, "ece", 0.05) for run_id in "ab" for method in ("none", "ts")],
        columns=["run_id", "size", "draw", "method", "metric", "value"],
    )
    splits = pd.DataFrame(
        [(run_id, 42, method, "ece", 0.05) for run_id in "ab" for method in ("none", "ts")],
        columns=["run_id", "split", "method", "metric", "value"],
    )
    found = {"scores": scores, "intervals": scores, "bandwidth": bandwidth, "ablation": ablation, "sizes": sizes}
    return Evidence(single_runs(runs), found | {"splits": splits})


def table(name: str, evidence: Evidence) -> Table:
    return next(found for found in written_tables(evidence)[0] if found.name == name)


def number(found: Table, row: str, column: str) -> tuple[float, float, int]:
    kept = found.frame[(found.frame["row"] == row) & (found.frame["column"] == column)]
    return kept["value"].item(), kept["std"].item(), kept["n"].item()


def line(found: Table, start: str) -> str:
    return next(line for line in found.latex.splitlines() if start in line)


def test_main_table_by_hand():
    main_table = table("calibration", hand_made())
    assert set(main_table.frame["cell"]) == {CELL}
    assert number(main_table, "Temp. Scaling (TS)", "ECE") == (pytest.approx(0.2), pytest.approx(0.1), 2)  # ddof 0
    assert r"\label{tab:calibration_block_ar}" in main_table.latex
    assert rf"{CELL}; 2 seeds".replace("_", r"\_").replace("·", r"$\cdot$") in main_table.latex
    row = line(main_table, "Temp. Scaling (TS)")
    assert r"Temp. Scaling (TS) & $\mathbf{0.2000\,{\scriptstyle\pm 0.1000}}$ &" in row
    assert row.endswith(r"& $-30.00\,{\scriptstyle\pm 10.00}$ \\")  # change of accuracy in per cent: -40 and -20
    assert "mathbf" not in line(main_table, "No calibration")


def test_paired_table_leaves_the_reference_out():
    paired = table("paired_deltas", hand_made())
    assert set(paired.frame["row"]) == {"Temp. Scaling (TS)"}
    assert number(paired, "Temp. Scaling (TS)", "ΔNLL")[0] == pytest.approx(-0.3)
    assert r"$\mathbf{-0.3000\,{\scriptstyle\pm 0.1000}}$" in paired.latex


def test_accuracy_of_all_samples_beside_the_raw_metrics():
    assert number(table("accuracy", hand_made()), CELL, "Acc@1")[0] == pytest.approx(0.85)
    assert number(table("replication_summary", hand_made()), CELL, "ECE")[0] == pytest.approx(0.5)


def test_one_seed_has_no_spread():
    evidence = hand_made()
    scores = evidence["scores"]
    alone = {"scores": scores[scores["run_id"] == "a"]}
    one = table("calibration", Evidence(evidence.runs[:1], {**evidence.found, **alone}))
    assert r"\pm" not in one.latex
    assert "; 1 seed &" in one.latex


def test_studies_by_hand():
    evidence = hand_made()
    assert number(table("bandwidth", evidence), "CV-NLL", "NLL")[:2] == (pytest.approx(0.2), pytest.approx(0.1))
    gains = table("feature_gains", evidence)
    assert number(gains, "Depth-variance r_std", "ECE")[0] == pytest.approx(0.02)
    assert number(gains, "Depth-variance r_std", "Gain over confidence + entropy")[0] == pytest.approx(-0.01)
    assert number(table("calibration_sizes", evidence), "Temp. Scaling (TS)", "250") == (0.05, 0.0, 2)
    splits = table("split_ranks", evidence)
    assert number(splits, "Temp. Scaling (TS)", "Mean rank")[0] == 1.0
    assert splits.frame["printed"].tolist() == ["2/2", "", ""]  # the uncalibrated model does not compete
    intervals = table("intervals", evidence)
    low, high = (
        number(intervals, f"{CELL} · seed 0: Temp. Scaling (TS)", f"ECE CI {end}")[0] for end in ("low", "high")
    )
    assert (low, high) == (pytest.approx(0.09), pytest.approx(0.11))


def test_tables_without_material_are_left_out_with_a_reason():
    tables, left_out = written_tables(hand_made(variant="baseline"))
    assert left_out["vit_headline"] == "no ViT run of this cache has routing and logits"
    assert left_out["probe_sanity"] == "not computed"
    assert not {found.name for found in tables} & set(left_out)
    left_out = written_tables(hand_made(backbone="vit_base"))[1]
    assert not {"vit_headline", "feature_ablation_vit", "calibration"} & set(left_out)


# ---- from a cache


def record(
    run_id: str, seed: int, variant: str, n: int = 520, with_logits: bool = True, suite: str = "test"
) -> RunRecord:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 4, n)
    logits = rng.normal(size=(n, 4))
    logits[np.arange(n), labels] += rng.normal(2, 1.5, n)
    logits *= 2
    given = {"logits": logits, "labels": labels}
    if not with_logits:
        given = {"confidence": rng.uniform(0.3, 1, n), "correct": rng.random(n) < 0.8}
    return RunRecord(
        run_id=run_id,
        suite=suite,
        backbone="micro_vit",
        dataset="toy",
        variant=variant,
        block_size=2 if variant == "block_ar" else None,
        seed=seed,
        entropies=rng.beta(5, 2, (n, 3)) if variant != "baseline" else None,
        **given,
    )


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for item in (
        record("block-0", 0, "block_ar"),
        record("block-1", 1, "block_ar"),
        record("plain", 2, "baseline"),
        record("bare", 3, "full_ar", with_logits=False),
        record("tiny", 4, "full_ar", n=20),
    ):
        write_shard(item, folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


def test_command_writes_every_table(cache_path, tmp_path, capsys):
    assert main(["tables", str(cache_path), "--out", str(tmp_path / "out"), "--runs", "block-0", "plain", "bare"]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir()}
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == len(written)
    assert "run without calibrators: bare (no logits)" in said.err
    assert "table left out: external_finetune" not in said.err  # these runs came without a provenance
    same = {
        name for name, item in COUNTERPARTS.items() if item.like[2] and item.like != ("swin", "cifar10", "block_ar")
    }
    absent = {"raw_summary", "vanilla_backbones"}  # no Swin on CIFAR-10, no norms of blocks
    names = {*COUNTERPARTS, *FURTHER} - same - absent - {"external_scratch"}
    assert written == {f"{name}{suffix}" for name in names for suffix in (".csv", ".tex")}
    assert r"\label{tab:probe-sanity}" in (tmp_path / "out" / "probe_sanity.tex").read_text()
    probes = pd.read_csv(tmp_path / "out" / "probe_sanity.csv")
    assert {"conf-lin", "conf-mlp", "full-mlp", "shuf-full-mlp"} <= set(probes["row"])
    scores = pd.read_csv(tmp_path / "out" / "calibration.csv")
    assert set(scores["cell"]) == {"ViT (micro) · toy · Block-AR (b = 2)", "ViT (micro) · toy · plain residual"}
    assert scores.loc[scores["column"] == "ECE", "value"].notna().all()
    assert "AR-CondCal" not in set(scores[scores["cell"].str.endswith("plain residual")]["row"])
    for name in written:
        if name.endswith(".tex"):
            text = (tmp_path / "out" / name).read_text()
            assert text.count("{") == text.count("}"), name
            assert "nan" not in text


def test_ensembles_are_left_out_unless_they_are_named(tmp_path):
    for run_id, suite in (("once", "test"), ("again", "test-last5")):
        write_shard(record(run_id, 0, "block_ar", n=120, suite=suite), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        assert set(gather(cache, ["splits"])["splits"]["run_id"]) == {"once"}
        named = single_runs(cache.runs(), ["again"])
        assert set(gather(cache, ["splits"], runs=named)["splits"]["run_id"]) == {"again"}
        with pytest.raises(UnknownName, match="runs"):
            single_runs(cache.runs(), ["nobody"])


def test_command_reports_errors(empty_cache, tmp_path, capsys):
    assert main(["tables", str(empty_cache), "--out", str(tmp_path)]) == 2
    assert "at least one run" in capsys.readouterr().err
    assert main(["tables", str(tmp_path / "missing.duckdb"), "--out", str(tmp_path)]) == 2


def test_an_unwritable_folder_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    tables = [table("calibration", hand_made())]
    with pytest.raises(InvalidInput, match="--out"):
        write_tables(tables, blocked)


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    tables = [table("calibration", hand_made())]
    write_tables(tables, tmp_path)
    before = (tmp_path / "calibration.csv").read_text()

    def fail(*_arguments, **_settings):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(InvalidInput, match="disk full"):
        write_tables(tables, tmp_path)
    assert (tmp_path / "calibration.csv").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calibration.csv", "calibration.tex"]
