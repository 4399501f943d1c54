"""The paper's conclusions asked of caches whose answer is known, and of frames worked out by hand."""

from __future__ import annotations

import json
import re
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from engine.__main__ import main
from engine.core.pvalues import ADJUSTMENTS
from engine.core.types import CELL
from engine.paper import CONCLUSION_SOURCES, CONCLUSIONS, Evidence, Reading, conclude, gather, single_runs, summarise
from engine.paper.conclusions import as_frame
from engine.paper.rules import TooFew, fewest_runs, need
from engine.paper.tables import MODES
from engine.probes.sweep import ProbeSweep
from engine.store import RunRecord, open_cache, publish, write_shard
from engine.sweep import P_COLUMNS

N_SEEDS, N_SAMPLES = 4, 1500


def made_run(seed: int, variant: str, effect: float) -> RunRecord:
    """Routing that follows a hidden u, in its mean and in its spread; at any confidence accuracy shifts by effect * u.

    u is in {-1, 0, 1}, independent of confidence. Without an effect the model is calibrated.
    """
    rng = np.random.default_rng([seed, variant == "block_ar"])
    scores = rng.normal(size=(N_SAMPLES, 4)) * 1.2
    chances = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    confidence, top = chances.max(axis=1), chances.argmax(axis=1)
    u = rng.integers(-1, 2, N_SAMPLES)
    right = rng.random(N_SAMPLES) < np.clip(confidence + effect * u, 0, 1)
    depth = np.linspace(0, 1, 6)
    profile = 0.5 + 0.1 * u[:, None] * (0.5 + depth) + rng.normal(0, 0.01, (N_SAMPLES, 6)) - 0.2 * depth
    return RunRecord(
        run_id=f"{variant}-s{seed}", suite="made", backbone="toy", dataset="dice", variant=variant, seed=seed,
        block_size=2 if variant == "block_ar" else None, logits=scores,
        labels=np.where(right, top, (top + rng.integers(1, 4, N_SAMPLES)) % 4), entropies=np.clip(profile, 0, 1),
    )  # fmt: skip


def made_cache(folder: Path, effect: float) -> Path:
    for seed in range(N_SEEDS):
        for variant in ("block_ar", "full_ar"):
            write_shard(made_run(seed, variant, effect), folder / "shards")
    publish(folder / "shards", folder / "cache.duckdb")
    return folder / "cache.duckdb"


@pytest.fixture(scope="module")
def null_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_cache(tmp_path_factory.mktemp("null"), 0.0)


@pytest.fixture(scope="module")
def planted_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_cache(tmp_path_factory.mktemp("planted"), 0.25)


def read(cache_path: Path) -> dict[str, Reading]:
    with open_cache(cache_path) as cache:
        return {reading.key: reading for reading in conclude(gather(cache, CONCLUSION_SOURCES))}


@pytest.fixture(scope="module")
def null(null_cache: Path) -> dict[str, Reading]:
    return read(null_cache)


@pytest.fixture(scope="module")
def planted(planted_cache: Path) -> dict[str, Reading]:
    return read(planted_cache)


# ---- whole caches ---------------------------------------------------------------------------------------------------

OTHERS = ("naive", "no_order", "ensemble", "rule", "shrinkage", "collapse")
ABSENCES = [item.key for item in CONCLUSIONS if item.key not in OTHERS]
PAPERS = sum(not item.added for item in CONCLUSIONS)


@pytest.mark.parametrize("key", ABSENCES)
def test_a_cache_without_an_effect_supports_that_there_is_none(null: dict[str, Reading], key: str):
    assert null[key].outcome == "supported", null[key].found


@pytest.mark.parametrize(
    "key",
    [
        "chance_paper",
        "no_evidence",
        "not_stable",
        "worst_controls",
        "bandwidth_control",
        "capacity",
        "shuffled",
        "noise",
        "lift",
    ],
)
def test_a_planted_effect_is_not_overlooked(planted: dict[str, Reading], key: str):
    assert planted[key].outcome == "not supported", planted[key].found


def test_what_a_cache_lacks_is_not_answerable(null: dict[str, Reading], planted: dict[str, Reading]):
    for readings in (null, planted):
        assert readings["no_order"].outcome == readings["ensemble"].outcome == "not answerable"
    assert (
        null["no_order"].found
        == "0 pairs of a Block-AR and a Full-AR run on the same samples; " + "a verdict over runs needs 6"
    )


def test_numbers_are_the_caches_own(planted: dict[str, Reading]):
    assert planted["no_evidence"].numbers["rejected"] == 8
    assert planted["no_evidence"].numbers["by_chance_at_most"] == 2
    assert planted["not_stable"].numbers["primary"] == 2
    assert planted["capacity"].numbers["mean"] > 0.02


def test_a_cache_with_every_kind_of_run_is_answered_where_it_can_be(cache_of_kinds: Path):
    with open_cache(cache_of_kinds) as cache:
        readings = conclude(gather(cache, ["gaps", "routing", "scores", "bandwidth", "ablation"]))
    outcomes = {reading.key: reading.outcome for reading in readings}
    assert outcomes["chance_paper"] == "supported"
    assert outcomes["ece_controls"] == outcomes["bandwidth"] == outcomes["feature"] == "not answerable"
    assert len(readings) == len(CONCLUSIONS)
    assert outcomes["naive"] == outcomes["noise"] == "not computed"
    assert summarise(readings).startswith(f"Of the paper's {PAPERS} conclusions, this cache supports ")
    assert summarise(readings).endswith("cannot be answered from it; 7 yet to be computed.")


def test_an_empty_cache_answers_nothing(empty_cache: Path):
    assert {reading.outcome for reading in read(empty_cache).values()} == {"not answerable"}


def test_command_line(null_cache: Path, empty_cache: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["audit", str(null_cache), "--conclusions", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert [record["key"] for record in records] == [item.key for item in CONCLUSIONS]
    assert main(["audit", str(empty_cache), "--conclusions"]) == 0
    assert "no runs" in capsys.readouterr().out


def test_command_line_prints_and_exports(cache_of_kinds: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["audit", str(cache_of_kinds), "--conclusions"]) == 0
    text = capsys.readouterr().out
    assert f"Of the paper's {PAPERS} conclusions, this cache supports" in text
    assert "No bandwidth puts AR-CondCal ahead of confidence only (also checked) [app:bw-sensitivity]" in text
    assert max(len(line) for line in text.splitlines()) <= 118
    assert main(["audit", str(cache_of_kinds), "--conclusions", "--csv"]) == 0
    assert len(pd.read_csv(StringIO(capsys.readouterr().out))) == len(CONCLUSIONS)
    with pytest.raises(SystemExit):
        main(["audit", "--paper", "--conclusions"])


# ---- by hand --------------------------------------------------------------------------------------------------------


def test_too_few_runs_are_told_with_how_many_it_takes():
    with pytest.raises(TooFew) as few:
        need(4)
    assert (few.value.n, few.value.needed) == (4, 5)
    need(5)
    with pytest.raises(TooFew) as few:
        need(5, 2)
    assert few.value.needed == 6


@pytest.mark.parametrize(("comparisons", "runs"), [(1, 5), (2, 6), (4, 7), (5, 7)])
def test_fewest_runs_can_just_reject(comparisons: int, runs: int):
    assert fewest_runs(comparisons) == runs
    assert comparisons / 2**runs <= 0.05 < comparisons / 2 ** (runs - 1)


def evidence(n: int, **found: object) -> Evidence:
    names = [f"r{index}" for index in range(n)]
    runs = pd.DataFrame({"run_id": names, "seed": range(n), **dict.fromkeys(CELL, "x"), "block_size": pd.NA})
    return Evidence(single_runs(runs), found)


def outcome(key: str, given: Evidence) -> str:
    return next(reading.outcome for reading in conclude(given) if reading.key == key)


def scores(n: int, better_than_confidence: int, better_than_entropy: int) -> pd.DataFrame:
    rows = []
    for metric in ("ece", "worst_tertile_ece"):
        for run in range(n):
            rows += [
                (f"r{run}", "nw_conf_routing", metric, 0.02),
                (f"r{run}", "nw_conf", metric, 0.03 if run < better_than_confidence else 0.01),
                (f"r{run}", "nw_conf_entropy", metric, 0.03 if run < better_than_entropy else 0.01),
            ]
    return pd.DataFrame(rows, columns=["run_id", "method", "metric", "value"])


@pytest.mark.parametrize(
    ("n", "confidence", "entropy", "expected"),
    [
        (5, 5, 5, "not supported"),  # p = 1/32 against both
        (5, 5, 4, "supported"),  # the second control is not beaten
        (8, 7, 7, "not supported"),  # p = 9/256 = 0.035
        (8, 6, 8, "supported"),  # p = 37/256 = 0.14
        (4, 4, 4, "not answerable"),
    ],
)
def test_ar_condcal_must_beat_both_controls(n: int, confidence: int, entropy: int, expected: str):
    given = evidence(n, scores=scores(n, confidence, entropy))
    assert outcome("ece_controls", given) == outcome("worst_controls", given) == expected


def bandwidths(n: int, routing: dict[str, float], control: float) -> pd.DataFrame:
    rows = [
        (f"r{run}", mode, 1.0, "worst_tertile_ece", value, feature)
        for run in range(n)
        for mode in MODES
        for feature, value in (("r_std", routing.get(mode, 0.03)), ("confidence", control))
    ]
    return pd.DataFrame(rows, columns=["run_id", "mode", "multiplier", "metric", "value", "feature"])


@pytest.mark.parametrize(
    ("n", "routing", "scott", "control"),
    [
        (7, {"cv_nll": 0.02}, "not supported", "supported"),  # better than 1x, level with the control
        (7, {"1x": 0.01}, "supported", "not supported"),  # Scott's rule itself is the best, and beats the control
        (7, {}, "supported", "supported"),
        (6, {"cv_nll": 0.01}, "not answerable", "not answerable"),  # 4/64 and 5/64 are above 5 %
    ],
)
def test_bandwidths(n: int, routing: dict[str, float], scott: str, control: str):
    given = evidence(n, bandwidth=bandwidths(n, routing, 0.02))
    assert (outcome("bandwidth", given), outcome("bandwidth_control", given)) == (scott, control)


@pytest.mark.parametrize(("gain", "expected"), [(0.001, "not supported"), (-0.001, "supported")])
def test_one_feature_that_beats_both_controls_is_enough(gain: float, expected: str):
    rows = [
        (f"r{run}", name, "ece", 0.02, 0.001, gain if name == "last" else -0.001)
        for run in range(7)
        for name in ("r_agg", "r_std", "last", "r_agg_x_conf")
    ]
    columns = ["run_id", "feature", "metric", "value", "delta_vs_confidence", "delta_vs_pred_entropy"]
    assert outcome("feature", evidence(7, ablation=pd.DataFrame(rows, columns=columns))) == expected


def gap_row(variant: str, seed: int, max_gap: float | None, block_size: int | None = None) -> dict[str, object]:
    """A row of `diagnose` in which neither test rejects."""
    return {
        "run_id": f"{variant}{block_size}-{seed}", "suite": "x", "backbone": "x", "dataset": "x", "variant": variant,
        "seed": seed, "block_size": block_size, "max_gap": max_gap, "accuracy": 0.9, "raw_ece": 0.02,
        "weighted_gap": None, "primary_effect": 0.0, "primary_se": 0.01, "shape_p": 0.5, "images": None, "scores": None,
        **{f"{test}_rejects": False for test in P_COLUMNS}, **dict.fromkeys(P_COLUMNS.values(), 0.5),
        **{f"{column}_{name}": 1.0 for column in P_COLUMNS.values() for name in ADJUSTMENTS},
    }  # fmt: skip


def pairs(differences: list[float], error: float = 1.0) -> pd.DataFrame:
    return pd.DataFrame(
        {"run_id": [f"r{i}" for i in range(len(differences))], "difference": differences, "error": error}
    )


@pytest.mark.parametrize(
    ("differences", "expected"),
    [
        ([0.1] * 6, "not supported"),  # two-sided sign test, p = 2/64
        ([0.1] * 5 + [-0.1], "supported"),
        ([0.1] * 5, "not answerable"),
        ([0.1, -0.1, 0.1, -0.1, 0.1, 2.7], "not supported"),  # one pair: p = 0.0069, times six is 0.042
        ([0.1, -0.1, 0.1, -0.1, 0.1, 2.6], "supported"),  # p = 0.0093, times six is 0.056
    ],
)
def test_the_order_of_the_variants(differences: list[float], expected: str):
    assert outcome("no_order", evidence(6, pairs=pairs(differences))) == expected


def test_a_small_p_is_not_printed_as_zero():
    reading = next(r for r in conclude(evidence(12, pairs=pairs([0.1] * 12))) if r.key == "no_order")
    assert reading.numbers["p"] == 2 / 2**12
    assert "(two-sided sign test, p < 0.001)" in reading.found


def test_seeds_without_a_gap_have_none_to_move():
    rows = pd.DataFrame([gap_row("full_ar", seed, None) for seed in range(2)])
    reading = next(r for r in conclude(evidence(2, gaps=rows)) if r.key == "not_stable")
    assert reading.outcome == "supported"
    assert reading.found.endswith("in 0 by the primary test")


def probe_sweep(naive: float, p_values: list[float]) -> ProbeSweep:
    rows = [
        (f"r{run}", name, value, p)
        for run, p in enumerate(p_values)
        for name, value in (("naive", naive), ("capacity_matched", -0.01), ("routing_specific", 0.0))
    ]
    contrasts = pd.DataFrame(rows, columns=["run_id", "contrast", "estimate", "p_value"])
    empty = pd.DataFrame()
    return ProbeSweep(probes=empty, contrasts=contrasts, pooled=empty, groups=empty, notes=empty)


@pytest.mark.parametrize(
    ("naive", "rejecting", "expected"),
    [
        (0.1, 0, ("supported", "supported", "supported")),
        (-0.1, 1, ("not supported", "supported", "supported")),  # P(at least 1 of 6) = 1 - 0.95^6 = 0.26
        (0.1, 2, ("supported", "supported", "not supported")),  # P(at least 2 of 6) = 0.033
    ],
)
def test_probes(naive: float, rejecting: int, expected: tuple[str, str, str]):
    given = evidence(6, probes=probe_sweep(naive, [0.04] * rejecting + [0.5] * (6 - rejecting)))
    assert tuple(outcome(key, given) for key in ("naive", "capacity", "shuffled")) == expected


def routing(n: int, **columns: object) -> pd.DataFrame:
    made = {"correlation": 0.0, "p": 0.5, "distance": 0.1, "bandwidth": 0.01, "kept": 1.0, "early": 0.9, "deep": 0.8}
    return pd.DataFrame({"run_id": [f"r{run}" for run in range(n)], **made, **columns})


def test_correlations_are_corrected():
    links = routing(3, p=[0.03, 0.6, np.nan])  # the third run's spread does not vary
    assert outcome("error_link", evidence(3, routing=links)) == "supported"  # Holm: 2 * 0.03 = 0.06
    assert outcome("error_link", evidence(3, routing=links.assign(p=[0.02, 0.6, np.nan]))) == "not supported"


@pytest.mark.parametrize(
    ("kept", "expected"), [([0.9, 0.9, 0.1], "not supported"), ([0.1, 0.9, 0.1], "supported"), ([1.0], "not supported")]
)
def test_the_shrinkage_regime_needs_most_runs(kept: list[float], expected: str):
    assert outcome("shrinkage", evidence(3, routing=routing(len(kept), kept=kept))) == expected


@pytest.mark.parametrize(
    ("n", "deep", "expected"),
    [(5, 0.05, "supported"), (5, 0.5, "not supported"), (5, 0.95, "not supported"), (4, 0.05, "not answerable")],
)
def test_collapse_is_lower_and_near_deterministic(n: int, deep: float, expected: str):
    assert outcome("collapse", evidence(n, routing=routing(n, deep=deep))) == expected


@pytest.mark.parametrize(("better", "expected"), [(5, "not supported"), (4, "supported")])
def test_an_ensemble_that_lowers_the_worst_tertile(better: int, expected: str):
    change = [-0.01 if run < better else 0.01 for run in range(5)]
    frame = pd.DataFrame({"run_id": [f"r{run}" for run in range(5)], "ece": 0.0, "worst_tertile_ece": change})
    assert outcome("ensemble", evidence(5, ensembles=frame)) == expected


@pytest.mark.parametrize(("above", "expected"), [(2, "not supported"), (1, "supported")])
def test_explained_variance_by_hand(above: int, expected: str):
    low = [0.001 if run < above else -0.001 for run in range(6)]  # Binomial(6, 0.025) is at most 1 in 99 % of cases
    frame = pd.DataFrame(
        {"run_id": [f"r{run}" for run in range(6)], "share": np.linspace(-0.001, 0.002, 6), "low": low}
    )
    reading = next(r for r in conclude(evidence(6, gain=frame)) if r.key == "explained")
    assert (reading.outcome, reading.added) == (expected, True)
    assert reading.found.startswith("routing removes -0.10 to 0.20 % of the squared error that confidence leaves")


def test_noise_and_lift_by_hand():
    z = [3.0, -2.5, 2.0, 0.1, 0.1, 0.1]
    frame = pd.DataFrame({
        "run_id": [f"r{run}" for run in range(6)], "routing_z": z, "norm_z": 9.0, "random_z": 0.0,
        "gain_ece": [0.001] * 5 + [-0.002], "gain_nll": -0.1, "gain_brier": -0.1,
    })  # fmt: skip
    tested = pd.DataFrame([gap_row("full_ar", run, 0.1) | {"run_id": f"r{run}"} for run in range(6)])
    readings = {reading.key: reading for reading in conclude(evidence(6, gaps=tested, norms=frame))}
    assert readings["noise"].numbers == {"n": 6, "routing": 3, "norm": 6, "by_chance_at_most": 2}
    assert (readings["noise"].outcome, readings["lift"].outcome) == ("not supported", "supported")  # 5 of 6: p = 7/64
    assert readings["lift"].found == (
        "with routing ECE is higher in 1 of 6 runs, NLL in 6, Brier in 6; the largest gain of ECE is 0.0010"
    )
    better = frame.assign(gain_ece=0.001, routing_z=0.5)
    assert outcome("lift", evidence(6, gaps=tested, norms=better)) == "not supported"  # p = 3/64 after Holm
    assert outcome("noise", evidence(6, gaps=tested, norms=better)) == "supported"


@pytest.mark.parametrize(("effect", "expected"), [(0.01, "supported"), (0.02, "not supported")])
def test_a_pooled_effect_counts_where_no_run_rejects(effect: float, expected: str):
    """Four runs on their own samples, each with error 0.01: the mean has error 0.005, so z is 1.8 and 3.6."""
    rows = [gap_row("full_ar", seed, 0.1) | {"primary_effect": effect * 0.9} for seed in range(4)]
    reading = next(r for r in conclude(evidence(4, gaps=pd.DataFrame(rows))) if r.key == "no_evidence")
    assert reading.outcome == expected
    assert reading.numbers["pooled"] == pytest.approx(0.9 * effect)
    assert reading.numbers["excluded"] == pytest.approx(0.9 * effect + 1.6449 * 0.005, abs=1e-6)


@pytest.mark.parametrize(
    ("gap", "control", "expected"),
    [(0.08, 0.03, "not supported"), (0.07, 0.03, "supported"), (0.08, 0.01, "supported")],
)
def test_the_rule_needs_both_halves(gap: float, control: float, expected: str):
    given = evidence(
        1, gaps=pd.DataFrame([gap_row("x", 0, gap) | {"run_id": "r0", "null_high": 0.3}]), scores=scores(1, 1, 1)
    )
    given["scores"].loc[given["scores"]["method"] == "nw_conf", "value"] = control
    reading = next(r for r in conclude(given) if r.key == "rule")
    assert reading.outcome == expected
    assert "(chance alone may give that in 1)" in reading.found


def reading(outcome: str, added: bool = False) -> Reading:
    return Reading("key", "claim", "where", outcome, "found", "rule", {}, added)


def test_summary_by_hand():
    some = [reading("supported"), reading("supported"), reading("not answerable"), reading("supported", added=True)]
    opening = "Of the paper's 3 conclusions, this cache supports 2 and"
    assert summarise(some) == f"{opening} speaks against none; 1 cannot be answered from it."
    every = [reading("supported")] * 2 + [reading("not supported")] * 2
    assert summarise(every) == "Of the paper's 4 conclusions, this cache supports 2 and does not support 2."
    assert summarise([*every, reading("not computed")]).endswith("does not support 2; 1 yet to be computed.")


def test_the_total_is_the_same_before_and_after_all_are_computed(null: dict[str, Reading]):
    before = conclude(evidence(1))
    assert [item.key for item in before] == list(null)
    assert summarise(before).partition(",")[0] == summarise(null.values()).partition(",")[0]


def test_frame_and_wording(null: dict[str, Reading]):
    frame = as_frame(null.values())
    assert list(frame["key"]) == [item.key for item in CONCLUSIONS]
    assert frame["numbers"].str.contains("n").all()
    for reading in null.values():
        text = f"{reading.claim} {reading.found} {reading.rule}".lower()
        assert not re.search(r"\b(wrong|proves|proven|refuted|does not matter|irrelevant)\b", text)
