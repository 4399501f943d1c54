"""Counts, order statistics and stability over the runs of a cache, against closed forms and hand-made tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest

from engine.core.errors import InvalidInput, UnknownName
from engine.store import open_cache, publish, write_shard
from engine.sweep import (
    chance_range,
    diagnose,
    effect_intervals,
    look_first,
    single_models,
    sorted_pvalues,
    stability,
    uniform_order_statistics,
)
from tests.engine.sweep.rows import NONE, table


@pytest.mark.parametrize("size", [2, 5, 10])
def test_ensembles_are_left_out_and_p_values_corrected_without_them(size: int):
    ensemble = {"primary_p": 0.02, "suite": f"test-last{size}"}
    rows = table({"primary_p": 0.02}, ensemble, {"primary_p": 0.5})
    assert rows["run_id"].tolist() == ["r0", "r2"]
    assert rows["primary_p_bonferroni"].tolist() == [0.04, 1.0]
    assert rows["primary_rejects"].tolist() == [True, False]


def test_order_statistics_of_three_uniforms():
    # The smallest of 3 uniforms has P(U > x) = (1 - x)^3 and the largest P(U < x) = x^3.
    band = uniform_order_statistics(3)
    assert band["expected"].tolist() == [1 / 4, 2 / 4, 3 / 4]
    assert band["low"][0] == pytest.approx(1 - 0.975 ** (1 / 3))
    assert band["high"][0] == pytest.approx(1 - 0.025 ** (1 / 3))
    assert band["low"][2] == pytest.approx(0.025 ** (1 / 3))
    assert band["high"][2] == pytest.approx(0.975 ** (1 / 3))
    assert uniform_order_statistics(0).empty
    with pytest.raises(InvalidInput, match="level"):
        uniform_order_statistics(3, level=1.5)


def test_the_band_holds_95_percent_of_simulated_uniforms_at_every_rank():
    draws = np.sort(np.random.default_rng(0).random((20_000, 7)), axis=1)
    band = uniform_order_statistics(7)
    inside = ((draws >= band["low"].to_numpy()) & (draws <= band["high"].to_numpy())).mean(axis=0)
    assert inside == pytest.approx(np.full(7, 0.95), abs=0.006)


def test_sorted_p_values_stand_beside_their_own_number_of_uniforms():
    rows = table({"paper_p": 0.4, "primary_p": 0.3}, {"paper_p": 0.2, "primary_p": NONE})
    paper, primary = (part for _, part in sorted_pvalues(rows).groupby("test", sort=False))
    assert paper[["run_id", "p", "rank"]].to_numpy().tolist() == [["r1", 0.2, 1], ["r0", 0.4, 2]]
    assert paper["expected"].tolist() == [1 / 3, 2 / 3]
    assert primary["expected"].tolist() == [1 / 2]
    assert primary["low"].tolist() == pytest.approx([0.025])


def test_range_of_rejections_by_chance():
    # Binomial(20, 0.05): P(0) = 0.3585 and P(<= 2) = 0.9245 < 0.975 <= P(<= 3) = 0.9841.
    assert chance_range(20) == (0, 3)
    assert chance_range(0) == (0, 0)
    # Binomial(1000, 0.05) has mean 50 and standard deviation 6.89.
    low, high = chance_range(1000)
    assert (low, high) == pytest.approx((50 - 1.96 * 6.89, 50 + 1.96 * 6.89), abs=1.5)


def test_effect_interval_leaves_out_zero_exactly_when_the_test_rejects():
    rows = table(
        {"primary_effect": 0.04, "primary_z": 2.0}, {"primary_effect": -0.04, "primary_z": -1.9},
        {"primary_effect": 0.0, "primary_z": 0.0}, {"primary_effect": NONE, "primary_z": NONE},
    )  # fmt: skip
    interval = effect_intervals(rows)
    assert interval.loc[0].tolist() == pytest.approx([0.04 - 1.959964 * 0.02, 0.04 + 1.959964 * 0.02], abs=1e-8)
    assert interval.loc[0, "low"] > 0
    assert interval.loc[1, "low"] < 0 < interval.loc[1, "high"]
    assert interval.loc[[2, 3]].isna().all(axis=None)


def test_stability_of_a_cell_that_repeats_one_that_turns_and_one_of_a_single_run():
    reject = {"paper_p": 0.01, "primary_p": 0.01}
    rows = table(
        reject | {"max_gap": 0.10, "primary_effect": -0.03}, reject | {"max_gap": 0.25, "primary_effect": -0.01},
        {"variant": "turns", "primary_effect": 0.02} | reject, {"variant": "turns", "primary_effect": -0.02} | reject,
        {"variant": "turns", "primary_effect": 0.01},
        {"variant": "alone"},
        {"variant": "untested", "paper_p": NONE, "primary_p": NONE, "primary_effect": NONE, "max_gap": NONE},
    )  # fmt: skip
    cells = stability(rows).set_index("variant")
    assert set(cells.index) == {"full_ar", "turns", "alone"}
    repeats, turns, alone = (cells.loc[name] for name in ("full_ar", "turns", "alone"))
    assert repeats["max_gap_spread"] == pytest.approx(0.15)
    assert (repeats["effect_min"], repeats["effect_max"]) == (-0.03, -0.01)
    assert (repeats["n_positive"], repeats["n_negative"]) == (0, 2)
    assert (repeats["same_sign"], repeats["primary_all"], repeats["paper_all"]) == (True, True, True)
    assert repeats["agreement_by_chance"] == 0.5
    assert (turns["n_positive"], turns["n_negative"], turns["n"]) == (2, 1, 3)
    assert (turns["same_sign"], turns["primary_all"], turns["paper_all"]) == (False, False, False)
    assert turns["agreement_by_chance"] == 0.25
    assert alone["n"] == 1
    assert alone[["same_sign", "primary_all", "paper_all", "agreement_by_chance"]].isna().all()


def test_all_seeds_rejecting_in_opposite_directions_is_no_repetition():
    reject = {"paper_p": 0.01, "primary_p": 0.001}
    cell = stability(table(reject | {"primary_effect": 0.03}, reject | {"primary_effect": -0.03})).iloc[0]
    assert (cell["paper_all"], cell["primary_all"]) == (True, False)


def test_a_seed_without_an_primary_effect_has_no_sign_to_agree():
    cell = stability(table({"primary_p": NONE, "primary_effect": NONE}, {})).iloc[0]
    assert (cell["same_sign"], cell["agreement_by_chance"]) == (False, 0.0)


def test_signs_of_fair_coins_agree_as_often_as_said():
    rng = np.random.default_rng(1)
    signs = rng.choice([-1, 1], (40_000, 4))
    agreeing = (np.abs(signs.sum(axis=1)) == 4).mean()
    cell = stability(table(*[{} for _ in range(4)])).iloc[0]
    assert cell["agreement_by_chance"] == pytest.approx(agreeing, abs=0.006)


def test_look_first_ranks_by_corrected_then_plain_p_and_skips_untested_runs():
    rows = table(
        {"paper_p": 0.9, "primary_p": 0.6}, {"paper_p": NONE, "primary_p": NONE}, {"paper_p": 0.001, "primary_p": 0.7},
        {"paper_p": 0.8, "primary_p": 0.5}, {"paper_p": 0.7, "primary_p": 1e-9},
    )  # fmt: skip
    # r0 and r3 both have corrected p = 1; r3 has the smaller plain one.
    assert look_first(rows)["run_id"].tolist() == ["r4", "r2", "r3", "r0"]
    assert look_first(rows, 1)["run_id"].tolist() == ["r4"]


def test_p_values_of_many_null_runs_lie_in_the_band(tmp_path: Path, make_run):
    for seed in range(12):
        write_shard(make_run(f"null-s{seed}", seed=seed, n=800, logits=False), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        rows = single_models(diagnose(cache, n_resamples=10))
    ordered = sorted_pvalues(rows)
    primary = ordered[ordered["test"] == "primary"]
    assert kstest(primary["p"], "uniform").pvalue > 0.01
    assert (primary["p"] >= uniform_order_statistics(12, level=0.9999)["low"].to_numpy()).all()


def test_a_column_that_some_runs_brought_along_leaves_the_others_untested(tmp_path: Path, make_run):
    from dataclasses import replace

    plain = make_run("plain", seed=0, logits=False)
    own = replace(make_run("own", seed=1, logits=False), extra={"depth": np.random.default_rng(0).random(1500)})
    for record in (plain, own):
        write_shard(record, tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        rows = diagnose(cache, feature_name="depth", n_resamples=10).set_index("run_id")
        with pytest.raises(UnknownName):
            diagnose(cache, feature_name="nobody knows")
    assert rows["primary_p"].notna().to_dict() == {"own": True, "plain": False}
    assert "no column 'depth'" in rows.loc["plain", "note"]
