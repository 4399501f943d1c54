"""LaTeX cells and the paper's tables, from hand-made frames and from a cache through the command."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from engine.__main__ import main
from engine.benchmark.tables import BUILDERS, Material, build_tables
from engine.calibrators import CALIBRATORS
from engine.commands.tables import gather, probe_audit, write_tables
from engine.core import latex
from engine.core.errors import InvalidInput, UnknownName
from engine.store import RunRecord, open_cache, publish, write_shard

METRICS = ("ece", "adaptive_ece", "nll", "brier", "worst_tertile_ece", "mce", "classwise_ece", "smooth_ece", "accuracy")


# ---- LaTeX


def test_text_is_escaped():
    assert latex.escape("a_b & 50% {x} ~^ $1 #2 \\") == (
        r"a\_b \& 50\% \{x\} \textasciitilde{}\textasciicircum{} \$1 \#2 \textbackslash{}"
    )


@pytest.mark.parametrize(
    ("value", "signed", "expected"),
    [
        (0.01234, False, "$0.0123$"),
        (-0.00001, False, "$0.0000$"),
        (0.01, True, "$+0.0100$"),
        (-0.01, True, "$-0.0100$"),
        (0.0, True, "$0.0000$"),
        (math.nan, False, "--"),
    ],
)
def test_numbers(value, signed, expected):
    assert latex.number(value, 4, signed=signed) == expected


def test_spread_is_small_type():
    assert latex.plus_minus(0.0111, 0.0008, 4) == r"$0.0111\,{\scriptstyle\pm 0.0008}$"
    assert latex.plus_minus(0.0111, math.nan, 4) == "$0.0111$"


def test_best_and_second_best_are_marked():
    cells = ["$3$", "$1$", "$2$", "$1$", "--"]
    marked = latex.mark_best(cells, [3.0, 1.0, 2.0, 1.0 + 1e-9, math.nan], 4)
    assert marked == ["$3$", r"$\mathbf{1}$", r"$\underline{2}$", r"$\mathbf{1}$", "--"]
    assert latex.mark_best(cells, [3.0, 1.0, 2.0, 1.0, math.nan], 4, lower_is_better=False)[0] == r"$\mathbf{3}$"


def test_table_has_booktabs_rules_and_turns_long():
    short = latex.render(["A", "B"], [latex.Block("x_y", (("a", "$1$"),))], caption="50%", label="tab:t")
    assert short.count(r"\toprule") == short.count(r"\bottomrule") == 1
    assert r"\caption{50\%}" in short
    assert r"\multicolumn{2}{l}{\textbf{x\_y}} \\" in short
    long = latex.render(["A", "B"], [latex.Block("", (("a", "$1$"),) * 60)], caption="c", label="tab:t")
    assert r"\begin{longtable}{lr}" in long
    assert r"\begin{table}" not in long


# ---- tables by hand


def hand_made(variant: str = "block_ar", backbone: str = "swin_tiny") -> Material:
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
    )
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
    return Material(runs, scores, bandwidth, ablation, sizes, splits)


def table(name: str, material: Material):
    tables, _ = build_tables(material)
    return next(found for found in tables if found.name == name)


def test_main_table_by_hand():
    main_table = table("calibration_block_ar", hand_made())
    row = main_table.frame.set_index("method").loc["ts"]
    assert row["ece_mean"] == pytest.approx(0.2)
    assert row["ece_std"] == pytest.approx(0.1)  # ddof 0
    assert row["n"] == 2
    assert r"\label{tab:calibration_block_ar}" in main_table.latex
    assert r"Block-AR (b = 2), swin\_tiny / cifar10, suite s; 2 seeds" in main_table.latex
    line = next(line for line in main_table.latex.splitlines() if line.startswith("Temperature scaling"))
    assert line.startswith(r"Temperature scaling & $\mathbf{0.2000\,{\scriptstyle\pm 0.1000}}$ &")
    # NLL and Brier without spread, accuracy change in per cent: -40 and -20
    assert r"& $\mathbf{0.200}$ & $\mathbf{0.200}$ &" in line
    assert line.endswith(r"& $-30.00\,{\scriptstyle\pm 10.00}$ \\")
    raw = next(line for line in main_table.latex.splitlines() if line.startswith("No calibration"))
    assert "mathbf" not in raw


def test_paired_table_leaves_the_reference_out():
    paired = table("paired-delta", hand_made())
    assert paired.frame["method"].tolist() == ["ts"]
    assert paired.frame["delta_nll_mean"].item() == pytest.approx(-0.3)
    assert r"$\mathbf{-0.3000\,{\scriptstyle\pm 0.1000}}$" in paired.latex


def test_raw_table_takes_the_accuracy_of_all_samples():
    raw = table("seed-variance-raw", hand_made())
    assert raw.frame["accuracy_mean"].item() == pytest.approx(0.85)
    assert raw.frame["ece_mean"].item() == pytest.approx(0.5)


def test_one_seed_has_no_spread():
    material = hand_made()
    alone = dataclasses.replace(
        material, scores=material.scores[material.scores["run_id"] == "a"], runs=material.runs[:1]
    )
    main_table = table("calibration_block_ar", alone)
    assert r"\pm" not in main_table.latex.split(r"\midrule", 1)[1]
    assert "; 1 seed}" in main_table.latex


def test_intervals_of_each_run():
    intervals = table("per-run-intervals", hand_made())
    assert r"$0.1000\,[0.0900, 0.1100]$" in intervals.latex


def test_tables_without_material_are_left_out_with_a_reason():
    tables, left_out = build_tables(hand_made(variant="baseline"))
    assert left_out["calibration_block_ar"] == "no Block-AR run with logits"
    assert left_out["feature-ablation-vit"] == "no ViT run with logits"
    assert {found.name for found in tables} | set(left_out) == {builder.name for builder in BUILDERS}
    vit, left_out = build_tables(hand_made(backbone="vit_base"))
    assert left_out == {}
    names = [found.name for found in vit]
    assert "vit-cross-arch-headline" in names
    assert "feature-ablation-vit" in names


def test_no_runs_at_all():
    empty = pd.DataFrame()
    with pytest.raises(InvalidInput, match="at least one run with logits"):
        build_tables(Material(empty, empty, empty, empty, empty, empty))


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
    assert main(["tables", str(cache_path), "--out", str(tmp_path / "out"), "--runs", "block-0", "plain"]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir()}
    names = [*(builder.name for builder in BUILDERS), "probe-sanity", "routing-probe", "probe-contrasts"]
    assert written == {f"{name}{suffix}" for name in names for suffix in (".csv", ".tex")}
    assert r"\label{tab:probe-sanity}" in (tmp_path / "out" / "probe-sanity.tex").read_text()
    probes = pd.read_csv(tmp_path / "out" / "probe-sanity.csv")
    assert {"conf_lin", "conf_mlp", "full_mlp", "shuf_full_mlp"} <= set(probes["probe"])
    assert len(capsys.readouterr().out.splitlines()) == len(written)
    scores = pd.read_csv(tmp_path / "out" / "calibration_block_ar.csv")
    assert scores["method"].tolist() == list(CALIBRATORS)
    assert scores["ece_mean"].notna().all()
    everything = pd.read_csv(tmp_path / "out" / "cal-per-cell-combined.csv")
    assert set(everything["variant"]) == {"block_ar", "baseline"}
    assert "nw_conf_routing" not in set(everything[everything["variant"] == "baseline"]["method"])
    for name in written:
        if name.endswith(".tex"):
            text = (tmp_path / "out" / name).read_text()
            assert text.count("{") == text.count("}"), name
            assert "nan" not in text


def test_runs_that_cannot_be_benchmarked_are_named(cache_path):
    with open_cache(cache_path) as cache:
        material, left_out = gather(cache, ["bare", "tiny"], n_bootstrap=0)
        assert left_out == {"bare": "no logits", "tiny": "fewer than 40 samples"}
        assert material.scores.empty
        with pytest.raises(UnknownName, match="--runs"):
            gather(cache, ["nobody"])


def test_pooled_studies_count_no_training_run_twice(tmp_path):
    for run_id, suite in (("once", "test"), ("again", "test-last5")):
        write_shard(record(run_id, 0, "block_ar", n=120, suite=suite), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        material, _ = gather(cache, n_bootstrap=0)
        assert set(material.scores["run_id"]) == set(material.ablation["run_id"]) == {"once", "again"}  # cell by cell
        assert set(material.bandwidth["run_id"]) == set(material.splits["run_id"]) == {"once"}
        named, _ = gather(cache, ["again"], n_bootstrap=0)
        assert set(named.bandwidth["run_id"]) == {"again"}
        pooled = probe_audit(cache, None)[0].frame
        assert set(pooled["n_runs"]) == {1}


def test_command_reports_errors(cache_path, tmp_path, capsys):
    assert main(["tables", str(cache_path), "--out", str(tmp_path), "--runs", "bare"]) == 2
    assert "at least one run with logits" in capsys.readouterr().err
    assert main(["tables", str(tmp_path / "missing.duckdb"), "--out", str(tmp_path)]) == 2


def test_an_unwritable_folder_is_named(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    tables, _ = build_tables(hand_made())
    with pytest.raises(InvalidInput, match="--out"):
        write_tables(tables[:1], blocked)


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    tables, _ = build_tables(hand_made())
    write_tables(tables[:1], tmp_path)
    before = (tmp_path / "calibration_block_ar.csv").read_text()

    def fail(*_arguments, **_settings):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.write_text", fail)
    with pytest.raises(InvalidInput, match="disk full"):
        write_tables(tables[:1], tmp_path)
    assert (tmp_path / "calibration_block_ar.csv").read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["calibration_block_ar.csv", "calibration_block_ar.tex"]
