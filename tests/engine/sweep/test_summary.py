"""Counts, pooled effects and signs over the runs of a cache, against closed forms and hand-made tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import kstest, norm

from engine.core.errors import UnknownName
from engine.core.pvalues import adjust_pvalues
from engine.gaps.pooled import pool_cells
from engine.store import open_cache, publish, write_shard
from engine.sweep import (
    by_cell,
    chance_range,
    diagnose,
    effect_intervals,
    look_first,
    multiplicity,
    pool_effects,
    score_correlation,
    single_models,
    sorted_pvalues,
)
from tests.engine.sweep.rows import NONE, table


@pytest.mark.parametrize("size", [2, 5, 10])
def test_ensembles_are_left_out_and_p_values_corrected_without_them(size: int):
    ensemble = {"primary_p": 0.02, "suite": f"test-last{size}"}
    rows = table({"primary_p": 0.02}, ensemble, {"primary_p": 0.5})
    assert rows["run_id"].tolist() == ["r0", "r2"]
    assert rows["primary_p_bonferroni"].tolist() == [0.04, 1.0]
    assert rows["primary_rejects"].tolist() == [True, False]


def test_sorted_p_values_stand_beside_their_own_number_of_tests():
    rows = table({"paper_p": 0.4, "p_value": 0.3}, {"paper_p": 0.2, "p_value": NONE})
    verdict, paper = (part for _, part in sorted_pvalues(rows).groupby("test", sort=False))
    assert paper[["run_id", "p", "rank"]].to_numpy().tolist() == [["r1", 0.2, 1], ["r0", 0.4, 2]]
    assert paper["expected"].tolist() == [1 / 3, 2 / 3]
    assert verdict["expected"].tolist() == [1 / 2]
    assert verdict["low"].tolist() == pytest.approx([0.025], abs=0.005)


def shared(*scores: list[float]) -> list[dict[str, object]]:
    """Runs on the same images with these scores."""
    return [{"images": "set", "scores": np.array(each)} for each in scores]


def test_range_of_rejections_by_chance():
    # Binomial(20, 0.05): P(0) = 0.3585 and P(<= 2) = 0.9245 < 0.975 <= P(<= 3) = 0.9841.
    assert chance_range(table(*[{} for _ in range(20)])) == (0, 3)
    assert chance_range(table({}).iloc[:0]) == (0, 0)
    # The same run twenty times rejects everywhere or nowhere; at 0.02 that is outside the central 95 %.
    same = table(*shared(*[[1.0]] * 20))
    assert chance_range(same) == (0, 20)
    assert chance_range(same, 0.02) == (0, 0)
    counts = multiplicity(same).set_index("test").loc["verdict"]
    assert counts[["n_tested", "expected_by_chance", "chance_low", "chance_high"]].tolist() == [20, 1, 0, 20]


def test_correlation_of_rows_in_any_order_and_of_some_of_them():
    rows = table(*shared([1.0, 0.0], [0.6, 0.8]), {}, {"images": "other", "scores": np.array([1.0])})
    assert score_correlation(rows).tolist() == [[1, 0.6, 0, 0], [0.6, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert score_correlation(rows.iloc[[3, 1, 0]])[1, 2] == 0.6


def test_effects_are_pooled_in_cells_with_the_images_they_share_then_over_cells():
    values = [(0.03, 0.01), (0.01, 0.02), (-0.02, 0.01)]
    given = [{"primary_effect": effect, "primary_se": error} for effect, error in values]
    first, second, third = (row | each for row, each in zip(given, shared([1, 0], [0.6, 0.8], [0.8, 0.6]), strict=True))
    rows = table(first, second, third | {"variant": "other"})
    cell = by_cell(rows).set_index("variant").loc["full_ar"]
    # Var of the mean of two: (1 + 4 + 2 * 0.6 * 2) / 4 in units of 0.01^2; with the third: (0.8 * 1 + 0.96 * 2) / 2.
    error = 0.01 * np.sqrt(7.4) / 2
    assert cell["effect"] == pytest.approx(0.02)
    assert [cell["effect_low"], cell["effect_high"]] == pytest.approx(
        [0.02 - 1.959964 * error, 0.02 + 1.959964 * error]
    )
    covariance = np.array([[error**2, 1.36e-4], [1.36e-4, 1e-4]])
    pooled, expected = pool_effects(rows), pool_cells([0.02, -0.02], covariance)
    assert (pooled.effect, pooled.standard_error) == pytest.approx((expected.effect, expected.standard_error))
    assert pooled.n == 2
    assert pool_effects(table({"primary_effect": NONE, "primary_se": NONE})) is None


def test_effect_interval_leaves_out_zero_exactly_when_the_test_rejects():
    rows = table({"primary_effect": 0.04, "primary_se": 0.02}, {"primary_effect": NONE, "primary_se": NONE})
    interval = effect_intervals(rows)
    assert interval.loc[0].tolist() == pytest.approx([0.04 - 1.959964 * 0.02, 0.04 + 1.959964 * 0.02], abs=1e-8)
    assert interval.loc[1].isna().all()


def test_a_cell_that_repeats_one_that_turns_and_one_of_a_single_run():
    reject = {"paper_p": 0.01, "primary_p": 0.01, "p_value": 0.01}
    untested = dict.fromkeys(("p_value", "paper_p", "primary_p", "primary_effect", "max_gap"), NONE)
    rows = table(
        reject | {"max_gap": 0.10, "primary_effect": -0.03}, reject | {"max_gap": 0.25, "primary_effect": -0.01},
        {"variant": "turns", "primary_effect": 0.02} | reject, {"variant": "turns", "primary_effect": -0.02} | reject,
        {"variant": "turns", "primary_effect": 0.01},
        {"variant": "alone"},
        {"variant": "untested"} | untested,
    )  # fmt: skip
    cells = by_cell(rows).set_index("variant")
    assert set(cells.index) == {"full_ar", "turns", "alone"}
    repeats, turns, alone = (cells.loc[name] for name in ("full_ar", "turns", "alone"))
    assert repeats["max_gap_spread"] == pytest.approx(0.15)
    assert (repeats["n_positive"], repeats["n_negative"], repeats["same_sign"]) == (0, 2, True)
    assert (repeats["verdict_all"], repeats["primary_all"], repeats["paper_all"]) == (True, True, True)
    assert repeats["agreement_by_chance"] == pytest.approx(0.5, abs=0.02)
    assert (turns["n_positive"], turns["n_negative"], turns["n"], turns["verdict_rejections"]) == (2, 1, 3, 2)
    assert (turns["same_sign"], turns["primary_all"], turns["paper_all"]) == (False, False, False)
    assert turns["agreement_by_chance"] == pytest.approx(0.25, abs=0.02)
    assert alone["n"] == 1
    assert alone[["same_sign", "primary_all", "paper_all", "agreement_by_chance"]].isna().all()
    assert alone["effect_p"] == pytest.approx(2 * norm.sf(0.01 / 0.02))
    assert cells["p_holm"].tolist() == pytest.approx(adjust_pvalues(cells["p_value"], "holm").tolist())


def test_all_seeds_rejecting_in_opposite_directions_is_no_repetition():
    reject = {"paper_p": 0.01, "primary_p": 0.001}
    cell = by_cell(table(reject | {"primary_effect": 0.03}, reject | {"primary_effect": -0.03})).iloc[0]
    assert (cell["paper_all"], cell["primary_all"]) == (True, False)


def test_a_seed_without_a_primary_effect_has_no_sign_to_agree():
    cell = by_cell(table({"primary_p": NONE, "primary_effect": NONE}, {})).iloc[0]
    assert (cell["same_sign"], cell["agreement_by_chance"]) == (False, 0.0)


def test_look_first_ranks_by_the_verdicts_p_and_skips_untested_runs():
    rows = table(
        {"paper_p": 0.9, "p_value": 0.6}, {"paper_p": NONE, "p_value": NONE, "primary_p": NONE},
        {"paper_p": 0.001, "p_value": 0.7}, {"paper_p": 0.001, "p_value": NONE}, {"p_value": 1e-9},
    )  # fmt: skip
    # The paper's test describes: a run that only it can test comes last, one that it rejects is not raised.
    assert look_first(rows)["run_id"].tolist() == ["r4", "r0", "r2", "r3"]
    assert look_first(rows, 1)["run_id"].tolist() == ["r4"]


def test_p_values_of_many_null_runs_lie_in_the_band(tmp_path: Path, make_run):
    for seed in range(12):
        write_shard(make_run(f"null-s{seed}", seed=seed, n=800, logits=False), tmp_path / "shards")
    publish(tmp_path / "shards", tmp_path / "cache.duckdb")
    with open_cache(tmp_path / "cache.duckdb") as cache:
        rows = single_models(diagnose(cache, n_resamples=10))
    ordered = sorted_pvalues(rows)
    assert kstest(rows["primary_p"].astype(float), "uniform").pvalue > 0.01
    assert (ordered["p"] >= ordered["low"]).all()


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
