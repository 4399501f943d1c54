"""Leaders, AR-CondCal against its controls, and the sentence about them, on numbers set by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, t

from engine.benchmark import (
    METRICS,
    BenchmarkResult,
    contrast_in_run,
    contrast_over_seeds,
    leader_in_run,
    leader_over_seeds,
    ranks,
    scoreboard,
    size_curves,
    split_trials,
)
from engine.benchmark.comparisons import CONTRASTED
from engine.benchmark.run import learnt_table, paired_errors
from engine.calibrators.temperature import FittedIdentity
from engine.core.errors import InvalidInput, UnknownName
from engine.core.labels import places
from engine.metrics.debiased import DebiasedEce, debiased_difference
from engine.verdict.benchmark import judge_run, judge_seeds

N_BOOTSTRAP = 400
METHODS = ("none", "ts", "nw_conf", "nw_conf_entropy", "nw_conf_routing")
LEVEL = {"none": 0.0600, "ts": 0.0300, "nw_conf": 0.0200, "nw_conf_entropy": 0.0210, "nw_conf_routing": 0.0205}


def made_up_result(
    levels: dict[str, float] | None = None, own_noise: float = 0.001, common_noise: float = 0.01
) -> BenchmarkResult:
    """Every metric of a method has the same value; resamples share a common error and add one of their own."""
    levels = levels or LEVEL
    rng = np.random.default_rng(0)
    common = rng.normal(0, common_noise, N_BOOTSTRAP)
    drawn = {name: level + common + rng.normal(0, own_noise, N_BOOTSTRAP) for name, level in levels.items()}
    rows = [
        (
            "run",
            name,
            metric,
            level - levels["none"] if metric.startswith("delta") else level,
            *(level, level - 0.02, level + 0.02),
        )
        for name, level in levels.items()
        for metric in METRICS
    ]
    fitted = {name: FittedIdentity(name=name, n_samples=100, n_classes=3) for name in levels}
    clipping = [("run", "nw_conf", 0.012, 0.0, 2)]
    bootstrap = {name: dict.fromkeys(METRICS, values) for name, values in drawn.items()}
    return BenchmarkResult(
        run_id="run",
        scores=pd.DataFrame(rows, columns=["run_id", "method", "metric", "value", "debiased", "ci_low", "ci_high"]),
        fitted=fitted,
        learnt=learnt_table(fitted, clipping),
        confidence={},
        correct={},
        clipping=pd.DataFrame(clipping, columns=["run_id", "method", "clipped_low", "clipped_high", "n_tied"]),
        bootstrap=bootstrap,
        errors=paired_errors(bootstrap),
        skipped={},
        feature="r_std",
        tertile_feature="r_std",
        bandwidth=1.0,
        n_calibration=100,
        n_evaluation=100,
        n_bootstrap=N_BOOTSTRAP,
        seed=42,
    )


def seed_scores(by_method: dict[str, list[float]], metrics: tuple[str, ...] = CONTRASTED) -> pd.DataFrame:
    rows = [
        (f"s{seed}", name, metric, value)
        for name, values in by_method.items()
        for seed, value in enumerate(values)
        for metric in metrics
    ]
    return pd.DataFrame(rows, columns=["run_id", "method", "metric", "value"])


SEEDS = {
    "none": [0.06, 0.07, 0.08],
    "ts": [0.01, 0.03, 0.05],
    "nw_conf": [0.020, 0.030, 0.040],
    "nw_conf_entropy": [0.021, 0.031, 0.041],
    "nw_conf_routing": [0.018, 0.029, 0.037],
}


def test_contrast_in_a_run_by_hand():
    result = made_up_result()
    found = contrast_in_run(result)
    assert len(found) == 6
    table = found.set_index(["control", "metric"])
    nll = table.loc[("nw_conf", "nll")]
    paired = result.bootstrap["nw_conf_routing"]["nll"] - result.bootstrap["nw_conf"]["nll"]
    z = norm.ppf(1 - 0.05 / 8)  # two-sided, shared by the four comparisons that have an interval
    assert (nll["difference"], nll["n"]) == (pytest.approx(0.0005), N_BOOTSTRAP)
    assert nll["high"] == pytest.approx(0.0005 + z * paired.std(ddof=1))
    assert nll["low"] == pytest.approx(0.0005 - z * paired.std(ddof=1))
    # The error that the methods share, ten times their own, has no say.
    assert paired.std(ddof=1) == pytest.approx(0.001 * 2**0.5, rel=0.15)
    ends = [DebiasedEce(level, level - 0.02, level + 0.02) for level in (LEVEL["nw_conf_routing"], LEVEL["nw_conf"])]
    drawn = [result.bootstrap[name]["ece"] for name in ("nw_conf_routing", "nw_conf")]
    expected = debiased_difference(*ends, float(np.corrcoef(drawn)[0, 1]))
    ece = table.loc[("nw_conf", "ece")]
    wider = z / norm.ppf(0.975)
    assert ece["difference"] == pytest.approx(0.0005)
    assert ece["high"] == pytest.approx(0.0005 + wider * (expected.high - expected.estimate))
    assert ece["low"] == pytest.approx(0.0005 - wider * (expected.estimate - expected.low))
    assert table.xs("worst_tertile_ece", level="metric")[["low", "high"]].isna().all(axis=None)
    assert not table["clear"].any()


def test_contrast_in_a_run_needs_the_method_and_resamples():
    without = {name: level for name, level in LEVEL.items() if name != "nw_conf_routing"}
    assert contrast_in_run(made_up_result(without)).empty
    with pytest.raises(InvalidInput, match="resamples"):
        contrast_in_run(replace(made_up_result(), n_bootstrap=0))
    with pytest.raises(UnknownName, match="metrics"):
        contrast_in_run(made_up_result(), metrics=["ace"])
    with pytest.raises(InvalidInput, match="alpha"):
        contrast_in_run(made_up_result(), alpha=1.5)


def test_contrast_over_seeds_by_hand():
    table = contrast_over_seeds(seed_scores(SEEDS)).set_index(["control", "metric"])
    row = table.loc[("nw_conf", "nll")]
    differences = [-0.002, -0.001, -0.003]
    assert row["difference"] == pytest.approx(-0.002)
    reach = t.ppf(1 - 0.05 / 12, 2) * np.std(differences, ddof=1) / 3**0.5
    assert row["low"] == pytest.approx(-0.002 - reach)
    assert row["high"] == pytest.approx(-0.002 + reach)
    assert row["n"] == 3
    assert not row["clear"]


def test_one_seed_has_no_spread():
    table = contrast_over_seeds(seed_scores({name: values[:1] for name, values in SEEDS.items()}))
    assert table[["low", "high"]].isna().all(axis=None)
    assert not table["clear"].any()


def test_leader_in_a_run_counts_rivals_within_noise():
    leader = leader_in_run(made_up_result(), "ece")
    assert (leader.method, leader.value, leader.uncalibrated) == ("nw_conf", 0.02, 0.06)
    # 0.0005 and 0.001 are within noise, 0.01 is not.
    assert (leader.n_rivals, leader.n_alike) == (3, 2)
    assert leader.improves


def test_leader_over_seeds():
    leader = leader_over_seeds(seed_scores(SEEDS), "ece")
    assert leader.method == "nw_conf_routing"
    assert leader.value == pytest.approx(0.028)  # (18 + 29 + 37) / 3; ts has 30
    assert leader.value_std == pytest.approx(np.std([0.018, 0.029, 0.037]))
    assert leader.uncalibrated == pytest.approx(0.07)
    assert (leader.n_runs, leader.n_first) == (3, 2)  # ts is the best of s0


def test_leaders_of_what_has_none():
    with pytest.raises(InvalidInput, match="less is better"):
        leader_in_run(made_up_result(), "accuracy")
    nothing = seed_scores(SEEDS).assign(value=np.nan)
    assert leader_over_seeds(nothing, "ece") is None


def test_sentence_within_noise():
    verdict = judge_run(made_up_result())
    assert verdict.outcome == "within_noise"
    assert verdict.sentence == (
        "ECE is lowest with the kernel on confidence, at 0.0200 against 0.0600 without calibration (2 of 3 other "
        "methods are within noise of it); NLL is lowest with the kernel on confidence, at 0.020 against 0.060 without "
        "calibration (2 of 3 other methods are within noise of it). AR-CondCal does not separate from its matched "
        "controls in ECE or NLL by more than sampling noise: no evidence that routing adds "
        "anything here, and no proof that it does not."
    )


@pytest.mark.parametrize(
    ("routing", "entropy", "outcome", "words"),
    [
        (0.010, 0.021, "better", "It gains over both controls; other runs must show whether that repeats."),
        (0.010, 0.010, "one_control", "A gain over one control only does not set routing apart"),
        (0.040, 0.021, "worse", "No evidence that routing adds anything here."),
        (0.020 - 0.01, 0.0, "mixed", "The comparisons point both ways"),
    ],
)
def test_outcomes(routing: float, entropy: float, outcome: str, words: str):
    verdict = judge_run(made_up_result(LEVEL | {"nw_conf_routing": routing, "nw_conf_entropy": entropy}))
    assert verdict.outcome == outcome
    assert words in verdict.sentence


def test_clear_differences_are_named():
    verdict = judge_run(made_up_result(LEVEL | {"nw_conf_routing": 0.010, "nw_conf_entropy": 0.010}))
    by = -verdict.contrasts["difference"].iloc[0]
    assert by == pytest.approx(0.01, abs=1e-3)
    assert f"AR-CondCal has a lower ECE than the kernel on confidence (by {by:.4f}) and a lower" in verdict.sentence
    assert "2 of 4 comparisons show no clear difference" in verdict.sentence


def test_nothing_is_said_about_routing_without_it():
    without = {name: level for name, level in LEVEL.items() if name != "nw_conf_routing"}
    verdict = judge_run(made_up_result(without))
    assert verdict.outcome == "no_routing"
    assert "AR-CondCal, which needs a routing profile, was not fitted" in verdict.sentence
    alone = judge_run(made_up_result({"none": 0.03}))
    assert alone.sentence.startswith("AR-CondCal, which needs")  # nobody leads, so nobody is named
    seeds = {name: values for name, values in SEEDS.items() if name != "nw_conf_routing"}
    assert judge_seeds(seed_scores(seeds)).outcome == "no_routing"


def test_no_improvement_is_said():
    verdict = judge_run(made_up_result(dict.fromkeys(METHODS, 0.03) | {"none": 0.01}))
    assert verdict.sentence.startswith(
        "No method lowers ECE below the 0.0100 without calibration; no method lowers NLL"
    )


def test_sentence_over_seeds():
    verdict = judge_seeds(seed_scores(SEEDS))
    assert verdict.outcome == "within_noise"
    assert verdict.sentence.startswith(
        "ECE is lowest with AR-CondCal, at 0.0280 ± 0.0078 against 0.0700 ± 0.0082 without calibration "
        "(lowest in 2 of 3 seeds)"
    )
    assert "by more than its 3 seeds vary" in verdict.sentence


def test_a_gain_that_all_seeds_share_is_seen():
    shared = SEEDS | {"nw_conf_routing": [0.010, 0.0201, 0.0299]}
    verdict = judge_seeds(seed_scores(shared))
    assert verdict.outcome == "better"
    assert "By more than its 3 seeds vary, AR-CondCal has a lower ECE" in verdict.sentence


def test_one_run_concludes_nothing():
    verdict = judge_seeds(seed_scores({name: values[:1] for name, values in SEEDS.items()}))
    assert verdict.outcome == "one_seed"
    assert "cannot be compared with a spread over seeds" in verdict.sentence
    assert "±" not in verdict.sentence


def test_learnt_table_adds_the_clip_rates():
    table = made_up_result().learnt.set_index("method")
    assert table.loc["ts", "learnt"] == "nothing: the softmax as it is"
    assert table.loc["nw_conf", "learnt"] == (
        "nothing: the softmax as it is; targets clipped: 1.2 % at the low end, 0.0 % at the high end; "
        "2 samples with tied top logits left alone"
    )
    assert table.loc["nw_conf", "label"] == "Kernel on confidence"


def test_ranks_by_hand():
    frame = seed_scores({"none": [0.0, 0.0], "ts": [0.2, 0.1], "hb": [0.1, 0.1], "vs": [0.3, 0.4]}, ("ece",))
    table = ranks(frame, "run_id").pivot_table(index="method", columns="run_id", values="rank")
    assert table.loc["ts"].tolist() == [2, 1]
    assert table.loc["hb"].tolist() == [1, 1]
    assert table.loc["vs"].tolist() == [3, 3]
    assert "none" not in table.index


def test_places_by_hand():
    assert places([0.12, 0.1149, 0.1151, 0.3, np.nan], 2) == [2, 1, 2, 0, 0]
    assert places([0.1, 0.2, 0.3], 1, lower_is_better=False) == [0, 2, 1]
    assert places([np.nan], 1) == [0]


def test_scoreboard_of_one_run_and_of_several():
    one = made_up_result()
    board = scoreboard([one])
    assert board.n_runs == 1
    ece = board.metric("ece")
    assert ece["value"].to_dict() == LEVEL
    # 0.0200 first, 0.0205 second; the uncalibrated model is never placed.
    assert ece["place"].to_dict() == {
        "none": 0, "ts": 0, "nw_conf": 1, "nw_conf_entropy": 0, "nw_conf_routing": 2
    }  # fmt: skip
    assert not board.metric("delta_accuracy")["place"].any()  # neither way is better
    other = replace(made_up_result({name: level + 0.02 for name, level in LEVEL.items()}), run_id="other")
    other = replace(other, scores=other.scores.assign(run_id="other"))
    both = scoreboard([one, other]).metric("nll").loc["ts"]
    assert both["value"] == pytest.approx(0.04)
    assert (both["low"], both["high"]) == (pytest.approx(0.03), pytest.approx(0.05))  # std (ddof 0) of 0.03, 0.05
    with pytest.raises(InvalidInput, match="at least one benchmark"):
        scoreboard([])


def test_size_curves_by_hand():
    frame = pd.DataFrame({
        "method": ["ts", "ts", "ts", "hb"], "size": [250, 250, 500, 250], "metric": ["ece", "ece", "ece", "nll"],
        "value": [0.1, 0.3, 0.2, 9.0],
    })  # fmt: skip
    curves = size_curves(frame, "ece")
    assert curves[["size", "mean", "std", "n"]].to_numpy().tolist() == [
        [250, pytest.approx(0.2), pytest.approx(0.1), 2], [500, pytest.approx(0.2), 0.0, 1]
    ]  # fmt: skip
    with pytest.raises(UnknownName, match="metric"):
        size_curves(frame, "mce")


def test_split_trials_keep_runs_apart():
    frame = pd.DataFrame({"run_id": ["a", "b"], "split": [42, 42]})
    assert split_trials(frame)["trial"].tolist() == ["a/42", "b/42"]
