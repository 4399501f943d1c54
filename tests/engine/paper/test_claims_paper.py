"""The audit of the real paper, frozen: what agrees, what differs and why, what the tables cannot tell."""

from __future__ import annotations

from collections import Counter

import pytest

from engine.paper.claims import CLAIMS, ClaimResult, audit
from engine.paper.claims.registry import CHECKS

DIFFERS = {
    "sweep_max_gap_block": "seeds 0.346, 0.133, 0.100 have std 0.109 (n) or 0.134 (n - 1); the row has 0.107",
    "sweep_max_gap_full": "seeds 0.052, 0.160, 0.167 have mean 0.126; the row has 0.134",
    "sweep_weighted_gap_full": "seeds 0.016, 0.018, 0.014 have mean 0.016 and std 0.002; the row has 0.020 ± 0.010",
    "sweep_p_full": "seeds' p 0.888, 0.512, 0.578: neither smallest, median nor mean is 0.547",
    "caption_example": "caption 0.167 ± 0.130, row 0.193 ± 0.107",
    "kernel_family_in_bands": "0.0085 ± 0.0006 and 0.0109 ± 0.0016: neither mean is in the other's band",
    "worst_tertile_std_ratio": "TS 0.0020; kernel and binning methods 0.0007 to 0.0045",
    "number_of_methods": "the table has 13 calibrators and the uncalibrated row",
    "internal_comparators_listed": "LC has no row",
    "heat_map_matches_table": "caption 0.1814, uncalibrated row 0.1581",
    "heat_map_ends": "CIFAR-10's worst tertile is the middle one, which has no opposite end",
    "additional_cells_main": "six in the main text, seven in the table",
    "two_seeds_ts": "0.0122 and 0.0123 with mean 0.0111 give std 0.0016 or 0.0020, not 0.0008",
    "two_seeds_ar_condcal": "0.0160 and 0.0083 with mean 0.0100 give std 0.0044 or 0.0054, not 0.0010",
    "seed_two_fits_table": "BBQ, Conf-only and RCMMC lie farther from their means than three seeds allow",
    "seed_zero_ar_condcal": "text 0.0160, feature ablation 0.0114",
    "ablation_seed_c10_full": "0.0232 and 0.0201 are farther from 0.0117 and 0.0105 than three seeds allow",
    "paired_nll": "TS: table of means 0.295 - 0.427 = -0.132, paired -0.1154; no method fits",
    "paired_brier": "TS: table of means 0.146 - 0.175 = -0.029, paired -0.0262; no method fits",
    "ar_condcal_short_of_vs": "0.1228 - 0.1055 = 0.0173, not 0.011",
    "raw_nll_std": "summary 0.294, text 0.33",
    "paired_std_two_orders": "0.33 over 0.0154 is 21",
    "supplementary_stds_possible": "0.0412 ± 0.3702: three non-negative numbers have std of at most 0.071",
    "smooth_ece_ranks_alike": "Spearman correlation of the two columns is -0.44",
    "bbq_wins_smooth_ece": "BBQ 0.0199 is the highest of the four in the tabulated cell",
    "high_shrinkage": "h = 0.03 * 5000^(-1/6) = 0.0073, so at d = 0.03 the factor is tanh(4.27) = 0.9996",
    "vit_tertile_feature": "r_std in the text, r_agg in the caption, the same cuts",
    "shuffling_change": "0.5588 - 0.5616 = -0.0028, not -0.002",
    "naive_uplift_mean": "no three Block-AR rows have mean 0.074 and std 0.038",
    "naive_block_cells": "four Block-AR rows",
    "naive_uplift_by_seed": "0.773 - 0.719 = 0.054 and 0.763 - 0.720 = 0.043; text 0.119 and 0.034",
    "naive_last_column": "the table ends with the network's R², without a column of uplifts",
    "naive_uplift_full": "0.544 - 0.413 = 0.131 at seed 0",
    "groups_won_discussion": "all ten groups in one appendix, nine in another",
    "positive_group_within_std": "0.022 is 2.4 times 0.009",
    "raw_swintiny_c10_blockar": "ECE 0.141 beside 0.1514, NLL 0.513 beside 0.427, Brier 0.218 beside 0.175",
    "raw_swintiny_c100_fullar": "ECE 0.122 beside 0.1238, NLL 0.987 beside 0.985, Brier 0.359 beside 0.357",
    "raw_accuracy_block": "seeds 0.903, 0.901, 0.902; summary 0.864 ± 0.104",
    "raw_accuracy_full": "seeds 0.724, 0.921, 0.924 have mean 0.856; summary 0.864",
    "low_accuracy_seed": "the low seed of Full-AR is 0.724, Block-AR has none",
    "drloc_in_baseline_band": "0.145 beside 0.155 ± 0.008 and 0.165 beside 0.157 ± 0.002",
    "full_ar_summarised": "summary 0.163, table 0.1589",
    "block_sizes_listed": "the table also has b = 12",
    "default_block_size": "caption b = 4, three-seed row b = 2",
    "full_row_matches_cell": "0.1461 ± 0.0225 beside 0.1423 ± 0.0138, and so on",
    "block_two_is_reused": "0.1456 is farther from 0.1514 ± 0.0028 than three seeds allow",
    "ts_rises_least": "TS +0.0116, AR-CondCal +0.0102",
    "module_size_deit": "18,432 parameters are 0.018 million; the table prints the difference of rounded counts",
    "scratch_band_text": "the CIFAR-10 rows have 0.1765 and 0.1930",
    "scratch_cells": "eight of nine rows have numbers, not seven",
    "stress_tests": "nine rows, not six",
}
NOT_CHECKABLE = {
    "p_span": "no table lists the run with p = 0.949",
    "groups_won": "the ten groups are not tabulated",
    "temporal_ensemble": "only drawn in a figure",
}


@pytest.fixture(scope="module")
def results() -> dict[str, ClaimResult]:
    return {result.key: result for result in audit()}


def test_there_is_one_result_per_claim(results: dict[str, ClaimResult]):
    assert len(results) == len(CLAIMS) == 180
    assert all(result.claim and result.where and result.how for result in results.values())
    assert all(result.stated for result in results.values())


def test_every_check_is_asked_for():
    asked = [claim.check.keywords["claim"].get("check", {claim.key: ()}) for claim in CLAIMS]
    assert {name for names in asked for name in names} >= set(CHECKS)


def test_what_differs(results: dict[str, ClaimResult]):
    assert {key for key, result in results.items() if result.outcome == "differs"} == set(DIFFERS)


def test_what_cannot_be_checked(results: dict[str, ClaimResult]):
    assert {key for key, result in results.items() if result.outcome == "not checkable"} == set(NOT_CHECKABLE)


def test_the_rest_agrees(results: dict[str, ClaimResult]):
    assert Counter(result.outcome for result in results.values()) == {"agrees": 126, "differs": 51, "not checkable": 3}


@pytest.mark.parametrize(
    ("key", "stated", "recomputed"),
    [
        ("sweep_max_gap_block", "0.193 ± 0.107", "0.1930 ± 0.1090 (or 0.1335)"),
        ("caption_example", "0.167 ± 0.130", "0.193 ± 0.107"),
        ("expected_rejections", "1.5", "1.5"),
        ("ar_condcal_short_of_vs", "0.011", "0.0173"),
        ("module_size_vit", "+0.037", "+0.036864 (36,864 parameters)"),
        ("raw_accuracy_full", "0.864 ± 0.104", "0.8563 ± 0.0936 (or 0.1146)"),
        (
            "two_seeds_ar_condcal",
            "0.0160 and 0.0083 beside 0.0100 ± 0.0010",
            "third seed 0.0057, std 0.0044 (or 0.0054)",
        ),
        ("scratch_cells", "7 of 9", "8 of 9"),
        ("feature_range_c100_full", "0.0071", "0.00710"),
        ("spearman_p", "0.34", "0.29 to 0.34"),
        (
            "high_shrinkage",
            "high shrinkage, tanh small",
            "tanh = 0.9996 at d = 0.03, h = 0.0073: the gap is kept; half of it is lost where d is below 0.011",
        ),
    ],
)
def test_numbers_by_hand(results: dict[str, ClaimResult], key: str, stated: str, recomputed: str):
    assert (results[key].stated, results[key].recomputed) == (stated, recomputed)


def test_wording_is_neutral(results: dict[str, ClaimResult]):
    for result in results.values():
        text = f"{result.claim} {result.stated} {result.recomputed} {result.how}".lower()
        for word in ("wrong", "false", "mistake", "fail", "incorrect", "suspicious", "fabricat"):
            assert word not in text, f"{result.key}: {word}"
