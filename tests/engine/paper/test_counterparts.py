"""Each published table has a counterpart of the same shape, made of the cache's own numbers, or a reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine import metrics
from engine.benchmark import run_benchmark
from engine.core.errors import UnknownName
from engine.gaps import matched_gap, routing_gain
from engine.paper import (
    COUNTERPARTS,
    SOURCES,
    WITHOUT,
    Evidence,
    NoCounterpart,
    build,
    cells_with_logits,
    compare,
    gather,
    published,
    single_runs,
)
from engine.paper.counterparts import FRAME
from engine.probes import audit
from engine.store import RunRecord, open_cache, publish, write_shard
from engine.sweep import by_cell, diagnose, single_models

# Column names of these tables are the cache's cells.
OWN_COLUMNS = {"feature_ablation_vit", "vit_headline"}
# Rows of these are the paper's own, and here the same.
SAME_ROWS = {
    *(name for name, counterpart in COUNTERPARTS.items() if counterpart.by_cell),
    "bandwidth",
    "probe_sanity",
    "vit_headline",
}


@pytest.fixture(scope="module")
def cache_path(tmp_path_factory: pytest.TempPathFactory, make_run: Callable[..., RunRecord]) -> Path:
    """Swin and ViT, both variants, two seeds, a plain backbone with block norms, and an imported run with logits."""
    folder = tmp_path_factory.mktemp("counterparts")
    rng = np.random.default_rng(0)
    records = [
        make_run(
            f"{backbone}-{variant}-s{seed}", seed=seed, n=600, backbone=backbone, dataset="cifar10", variant=variant,
            block_size=2 if variant == "block_ar" else None, provenance={"source": "cache_builder train"},
        )
        for backbone in ("micro_swin", "micro_vit") for variant in ("block_ar", "full_ar") for seed in (0, 1)
    ]  # fmt: skip
    norms = {"blocks.0 norm": rng.normal(size=600), "blocks.1 norm": rng.normal(size=600)}
    records.append(
        make_run(
            "plain", seed=7, n=600, profile=False, backbone="micro_swin", dataset="cifar10", variant="baseline",
            extra=norms, provenance={"source": "cache_builder train"},
        )
    )  # fmt: skip
    records.append(make_run("theirs", seed=8, n=600, profile=False, variant="imported", suite="imported"))
    records.append(make_run("ensemble", n=600, suite="test-last5", backbone="micro_swin", dataset="cifar10"))
    for record in records:
        write_shard(record, folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture(scope="module")
def evidence(cache_path: Path) -> Evidence:
    with open_cache(cache_path) as cache:
        return gather(cache)


BLOCK = "Swin (micro) · CIFAR-10 · Block-AR (b = 2)"
PLAIN = "Swin (micro) · CIFAR-10 · plain residual"


def cell_of(frame: pd.DataFrame, row: str, column: str) -> tuple[float, float, int]:
    found = frame[(frame["row"] == row) & (frame["column"] == column)]
    assert len(found) == 1, (row, column)
    return found["value"].item(), found["std"].item(), found["n"].item()


def test_every_published_table_is_decided():
    assert set(COUNTERPARTS) | set(WITHOUT) == set(published.TABLES)
    assert not set(COUNTERPARTS) & set(WITHOUT)
    assert all(set(counterpart.sources) <= set(SOURCES) for counterpart in COUNTERPARTS.values())
    assert all(counterpart.otherwise for counterpart in COUNTERPARTS.values())


@pytest.mark.parametrize("table", COUNTERPARTS)
def test_same_shape(evidence: Evidence, table: str):
    frame, paper = build(table, evidence, BLOCK), published.load(table)
    assert list(frame.columns) == FRAME
    assert not frame.duplicated(["row", "column"]).any()
    assert (frame["value"].notna() | (frame["printed"] != "")).mean() > 0.9
    if table not in OWN_COLUMNS:
        allowed = dict.fromkeys(paper["column"])
        assert list(dict.fromkeys(frame["column"])) == [name for name in allowed if name in set(frame["column"])]
        assert set(frame["column"]) == set(allowed) or table == "external_audit"
    if table in SAME_ROWS:
        published_rows = list(dict.fromkeys(paper["row"]))  # calibrators that the paper lacks come between them
        assert [row for row in dict.fromkeys(frame["row"]) if row in published_rows] == published_rows
    assert not frame["row"].str.contains("ensemble").any(), "no training run counts twice"


@pytest.mark.parametrize("table", WITHOUT)
def test_a_table_that_no_cache_has_says_why(evidence: Evidence, table: str):
    with pytest.raises(NoCounterpart, match=r"\w+.*\."):
        build(table, evidence)


@pytest.mark.parametrize("table", COUNTERPARTS)
def test_an_empty_cache_gives_reasons(empty_cache: Path, table: str):
    with open_cache(empty_cache) as cache, pytest.raises(NoCounterpart, match="no "):
        build(table, gather(cache, COUNTERPARTS[table].sources), BLOCK)


def test_unknown_table(evidence: Evidence):
    with pytest.raises(UnknownName, match="matched_gap"):
        build("table 1", evidence)


def test_calibration_is_the_benchmark_of_the_cell(evidence: Evidence, cache_path: Path):
    with open_cache(cache_path) as cache:
        results = [run_benchmark(cache.load(f"micro_swin-block_ar-s{s}"), n_bootstrap=0).table() for s in (0, 1)]
    values = [result.loc["nw_conf_routing", "worst_tertile_ece"] for result in results]
    found = cell_of(build("calibration", evidence, BLOCK), "AR-CondCal", "Worst-tertile ECE")
    assert found == pytest.approx((np.mean(values), np.std(values), 2))
    change = [100 * result.loc["vs", "delta_accuracy"] for result in results]
    found = cell_of(build("calibration", evidence, BLOCK), "Vector Scaling", "ΔAcc@1 (%)")
    assert found == pytest.approx((np.mean(change), np.std(change), 2))


def test_a_cell_without_logits_is_refused(evidence: Evidence):
    with pytest.raises(NoCounterpart, match="nowhere has no run"):
        build("calibration", evidence, "nowhere")


def test_sweep_is_the_sweep(evidence: Evidence, cache_path: Path):
    with open_cache(cache_path) as cache:
        cells = by_cell(single_models(diagnose(cache)))
    swin = cells[(cells["backbone"] == "micro_swin") & (cells["variant"] == "block_ar")].iloc[0]
    frame = build("ar_sweep", evidence)
    assert cell_of(frame, BLOCK, "Max gap") == pytest.approx((swin["max_gap_mean"], swin["max_gap_std"], 2))
    assert cell_of(frame, BLOCK, "Perm. p")[0] == swin["paper_p_min"]
    assert cell_of(frame, BLOCK, "Rejections")[0] == swin["paper_rejections"]
    assert frame["row"].nunique() == 4


def test_gap_tables_show_the_first_seed_or_all(evidence: Evidence):
    first, every = build("matched_gap", evidence), build("per_seed_diagnostics", evidence)
    assert first["row"].nunique() == 4
    assert every["row"].nunique() == 8
    assert cell_of(first, BLOCK, "Max gap")[0] == cell_of(every, f"{BLOCK} · seed 0", "Max gap")[0]
    assert set(every.loc[every["column"] == "Rejects", "printed"]) <= {"yes", "no"}


def test_raw_metrics_are_uncalibrated(evidence: Evidence, cache_path: Path):
    with open_cache(cache_path) as cache:
        run = cache.load("theirs")
    evaluated = np.random.default_rng(42).permutation(600)[300:]
    expected = metrics.ece(run.confidence[evaluated], run.correct[evaluated])
    frame = build("external_scratch", evidence)
    assert set(frame["row"]) == {"toy · dice · imported"}
    assert cell_of(frame, "toy · dice · imported", "ECE")[0] == pytest.approx(expected)
    assert "toy · dice · imported" in set(build("replication_summary", evidence)["row"])
    assert build("raw_summary", evidence)["row"].nunique() == 3


def test_hidden_states_are_probed_as_profiles(evidence: Evidence, cache_path: Path):
    with open_cache(cache_path) as cache:
        run = cache.load("plain")
    norms = np.column_stack([run.extra["blocks.0 norm"], run.extra["blocks.1 norm"]])
    result = audit(run.confidence, norms, run.correct, n_shuffles=0)
    frame = build("vanilla_backbones", evidence)
    assert cell_of(frame, f"{PLAIN} · seed 7", "MLP R²")[0] == pytest.approx(result.mean["full_mlp"])
    uplift = result.mean["full_mlp"] - result.mean["conf_lin"]
    assert cell_of(frame, f"{PLAIN} · seed 7", "Uplift")[0] == pytest.approx(uplift)


def test_ablation_differences_are_those_of_block_ar(evidence: Evidence):
    frame = build("feature_ablation", evidence)
    row, control = "CIFAR-10 / Depth-variance r_std", "CIFAR-10 / Confidence only"
    difference = cell_of(frame, control, "Block-AR ECE")[0] - cell_of(frame, row, "Block-AR ECE")[0]
    assert cell_of(frame, row, "Δ vs Conf-only")[0] == pytest.approx(difference)


def test_the_naive_contrast_is_the_difference_of_its_probes(evidence: Evidence):
    probes, gains = build("naive_probe", evidence), build("probe_contrasts_by_run", evidence)
    row = f"{BLOCK} · seed 0"
    uplift = cell_of(probes, row, "Full (MLP) R²")[0] - cell_of(probes, row, "Conf-only (linear) R²")[0]
    assert cell_of(gains, row, "naive")[0] == pytest.approx(uplift)
    both = [cell_of(gains, f"{BLOCK} · seed {seed}", "naive")[0] for seed in (0, 1)]
    assert cell_of(build("probe_contrasts", evidence), BLOCK, "naive")[0] == pytest.approx(sum(both) / 2)


def test_nearest_cell_prefers_variant_then_data_then_backbone(evidence: Evidence):
    cells = cells_with_logits(evidence)
    assert COUNTERPARTS["calibration"].nearest(cells) == BLOCK
    assert COUNTERPARTS["calibration_deit_c100_full"].nearest(cells).endswith("CIFAR-10 · Full-AR")
    plain = cells[cells["cell"].str.endswith(("plain residual", "imported"))].reset_index(drop=True)
    assert COUNTERPARTS["calibration"].nearest(plain) == PLAIN


def test_names_tell_suites_apart():
    runs = pd.DataFrame({
        "run_id": ["a", "b", "c"], "suite": ["one", "two", "one-last5"], "backbone": "x", "dataset": "y",
        "variant": "full_ar", "block_size": pd.array([pd.NA] * 3, "Int64"), "seed": 0,
    })  # fmt: skip
    assert list(single_runs(runs)["cell"]) == ["x · y · Full-AR (one)", "x · y · Full-AR (two)"]


# ---- the pattern ----------------------------------------------------------------------------------------------------


def table(values: dict[str, float], column: str = "ECE") -> pd.DataFrame:
    return pd.DataFrame({"row": list(values), "column": column, "value": list(values.values())})


FIVE = {"Conf-only": 1.0, "Conf + PredEntropy": 2.0, "AR-CondCal": 3.0, "BBQ": 4.0, "TS": 5.0}


def test_an_order_is_compared_over_common_rows():
    reverse = {row: -value for row, value in FIVE.items()}
    text = compare(table(FIVE | {"No calibration": 0.0}), table(reverse | {"No calibration": 9.0, "LC": 1.0}), "ECE")
    assert text.startswith("Order of the 5 common rows by ECE: rank correlation -1.00 (95 % interval")
    assert "AR-CondCal is highest of its kernel family in the paper and lowest here" in text


@pytest.mark.parametrize(
    ("own", "words"),
    [
        ((1.0, 2.0, 1.0), "tied for lowest here"),
        ((1.0, 2.0, 2.0), "tied for highest here"),
        ((1.0, 1.0, 1.0), "level with the rest here"),
        ((1.0, 3.0, 2.0), "middle here"),
    ],
)
def test_equal_numbers_share_their_place(own: tuple[float, float, float], words: str):
    family = dict(zip(("Conf-only", "Conf + PredEntropy", "AR-CondCal"), own, strict=True))
    assert compare(table(FIVE), table(family), "ECE").endswith(words)


def test_ranges_where_rows_differ():
    text = compare(table({"a": 0.1, "b": 0.346}), table({"c": 0.05}), "ECE")
    assert text == "ECE: 0.100 to 0.346 in 2 rows in the paper, 0.0500 in 1 row here"
    assert (
        compare(table({"a": 3}), table({"c": 4, "d": 9}), "ECE")
        == "ECE: 3 in 1 row in the paper, 4 to 9 in 2 rows here"
    )
    assert "not available" in compare(table({"a": 1.0}), table({"a": 1.0}, "NLL"), "ECE")


def test_progress_covers_all_sources(cache_of_kinds: Path):
    seen: list[tuple[float, str]] = []
    with open_cache(cache_of_kinds) as cache:
        gather(cache, ["gaps", "ablation"], progress=lambda share, text: seen.append((share, text)))
    shares = [share for share, _ in seen]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert {text.partition(":")[0] for _, text in seen} >= {SOURCES["gaps"].label, SOURCES["ablation"].label}
    with open_cache(cache_of_kinds) as cache, pytest.raises(UnknownName, match="scores"):
        gather(cache, ["everything"])


def test_propositions_clipping_and_the_rule_by_cell(evidence: Evidence, cache_path: Path):
    with open_cache(cache_path) as cache:
        runs = [cache.load(f"micro_swin-block_ar-s{seed}") for seed in (0, 1)]
    half = [np.random.default_rng(42).permutation(600)[:300]] * 2
    spreads = [run.entropies.std(axis=1)[rows] for run, rows in zip(runs, half, strict=True)]
    kept = []
    for spread in spreads:
        low, high = np.quantile(spread, [1 / 3, 2 / 3])
        distance = spread[spread > high].mean() - spread[spread <= low].mean()
        kept.append(np.tanh(distance**2 / (4 * (spread.std() * 300 ** (-1 / 6)) ** 2)))
    gaps = [matched_gap(run.confidence, run.correct, run.entropies.mean(axis=1)).weighted_gap for run in runs]
    frame = build("by_cell", evidence)
    assert cell_of(frame, BLOCK, "Gap kept") == pytest.approx((np.mean(kept), np.std(kept), 2))
    assert cell_of(frame, BLOCK, "Blind spot") == pytest.approx((np.mean(gaps) / 2, np.std(gaps) / 2, 2))
    shares = [100 * routing_gain(run.confidence, run.correct, run.entropies.std(axis=1)).share for run in runs]
    assert cell_of(frame, BLOCK, "Explained (%)") == pytest.approx((np.mean(shares), np.std(shares), 2))
    clipping = evidence["scores"].query("method == 'nw_conf_routing' and metric == 'clipped_high'")
    assert len(clipping) == 8
    assert cell_of(frame, "All cells", "Clipped high (%)")[0] == pytest.approx(100 * clipping["value"].mean())
    assert set(frame.loc[frame["column"] == "Rule", "printed"]) <= {"met", "not met"}


def test_ensembles_stand_beside_their_run(tmp_path: Path, make_run: Callable[..., RunRecord]):
    single, averaged = make_run("a-s0", seed=0, n=600), make_run("a-s0-last5", seed=1, n=600, suite="test-last5")
    alone = make_run("b-s0", seed=2, n=600)
    for record in (single, averaged, alone):
        write_shard(record, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        found = gather(cache, ["ensembles"])["ensembles"]
        before, after = (cache.load(name) for name in ("a-s0", "a-s0-last5"))
    assert list(found["run_id"]) == ["a-s0"]
    worst = [
        metrics.worst_tertile_ece(run.confidence, run.correct, run.entropies.std(axis=1)) for run in (before, after)
    ]
    assert found["worst_tertile_ece"].item() == pytest.approx(worst[1] - worst[0])


def test_pairs_are_full_and_block_of_one_seed_on_the_same_samples(tmp_path: Path, make_run: Callable[..., RunRecord]):
    for name, variant, size, seed, n in (
        ("full", "full_ar", None, 0, 600), ("two", "block_ar", 2, 0, 600), ("four", "block_ar", 4, 0, 600),
        ("other-full", "full_ar", None, 1, 600), ("other", "block_ar", 2, 1, 500),
    ):  # fmt: skip
        write_shard(make_run(name, seed=seed, n=n, variant=variant, block_size=size), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        found = gather(cache, ["pairs"])["pairs"]
    assert list(found["run_id"]) == ["two"]  # one block size a seed, and not where the samples differ
