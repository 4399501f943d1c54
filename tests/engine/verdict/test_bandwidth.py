"""Leads over the matched controls, their spread over seeds, and what is said about them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from engine.benchmark.bandwidth import LAB_MULTIPLIERS, PATHS, BandwidthCurves
from engine.benchmark.setup import CONTROLS
from engine.core.errors import InvalidInput
from engine.verdict.bandwidth import JUDGED, judge_bandwidth, leads

SETTINGS = [(path, multiplier) for path in PATHS for multiplier in LAB_MULTIPLIERS]


def made_up(lead: dict[tuple[str, float], float], otherwise: float = -0.01, feature: str = "r_std") -> BandwidthCurves:
    """Curves in which AR-CondCal's ECE leads by the given numbers and all else trails by 0.01."""
    rows = []
    for path, multiplier in SETTINGS:
        better = 0.1
        own = dict.fromkeys(JUDGED, better + 0.01)
        own["ece"] = better - lead.get((path, multiplier), otherwise)
        for method, values in (
            ("nw_conf_routing", own),
            ("nw_conf", dict.fromkeys(JUDGED, better)),
            ("nw_conf_entropy", dict.fromkeys(JUDGED, better + 0.05)),
        ):
            rows.append({"path": path, "multiplier": multiplier, "method": method, **values})
    return BandwidthCurves("run", feature, 10, 10, pd.DataFrame(rows), {"scott": 1.0})


def test_a_lead_is_over_the_better_control_and_scott_counts_once():
    found = leads(made_up({("both", 2.0): 0.02}))
    assert len(found) == 3 * 25 - 2
    assert found.loc[("both", 2.0), "ece"] == pytest.approx(0.02)
    assert found.loc[("feature", 2.0), "ece"] == pytest.approx(-0.01)
    assert found.loc[("both", 2.0), "nll"] == pytest.approx(-0.01)


def test_one_seed_says_so_and_names_the_largest_leads():
    verdict = judge_bandwidth([made_up({("confidence", 0.5): 0.02})], feature="the spread")
    assert verdict.outcome == "one_seed"
    assert "by at most 0.02 in ECE (at 0.5x Scott on the confidence axis)" in verdict.sentence
    assert "never leads both in worst-tertile ECE or NLL" in verdict.sentence
    assert "one seed of this cell" in verdict.sentence
    assert all(math.isnan(lead.spread) and not lead.separated for lead in verdict.settings)
    assert verdict.carried == ()
    behind = judge_bandwidth([made_up({})])
    assert "never leads both matched controls in ECE, worst-tertile ECE or NLL" in behind.sentence


def test_spread_is_the_standard_deviation_over_seeds():
    place = ("both", 2.0)
    verdict = judge_bandwidth([made_up({place: lead}) for lead in (0.01, 0.02, 0.06)])
    found = next(lead for lead in verdict.settings if (lead.path, lead.multiplier, lead.metric) == (*place, "ece"))
    assert found.lead == pytest.approx(0.03)
    assert found.spread == pytest.approx(math.sqrt((0.02**2 + 0.01**2 + 0.03**2) / 2))
    assert found.separated


def test_no_bandwidth_separates():
    verdict = judge_bandwidth([made_up({("both", 2.0): lead}) for lead in (-0.02, 0.03, 0.0)])
    assert verdict.outcome == "none"
    assert verdict.sentence.startswith("At none of 73 bandwidths")
    assert "spread over 3 seeds" in verdict.sentence
    assert "no evidence" in verdict.sentence


def test_a_lead_that_repeats_on_the_seed_left_out_is_said_to():
    verdict = judge_bandwidth([made_up({("feature", 4.0): lead}) for lead in (0.02, 0.021, 0.022)])
    assert verdict.outcome == "separated"
    assert "At 1 of 73 bandwidths" in verdict.sentence
    assert "in ECE at 4x Scott on the routing axis (lead 0.021, spread 0.001)" in verdict.sentence
    ece = next(lead for lead in verdict.carried if lead.metric == "ece")
    assert ece.lead == pytest.approx(0.021)
    assert "carries over" in verdict.sentence


def test_a_lead_found_only_by_choosing_does_not_carry_over():
    """Each seed is excellent at a bandwidth of its own and fair at a common one, which choosing never finds."""
    own = [("both", 0.25), ("both", 0.5), ("both", 4.0)]
    common = ("confidence", 2.0)
    curves = [made_up({common: 0.003, **{place: 0.2 if place == mine else -0.05 for place in own}}) for mine in own]
    verdict = judge_bandwidth(curves)
    assert any(lead.separated and lead.path == "confidence" for lead in verdict.settings)
    assert verdict.outcome == "not_repeated"
    ece = next(lead for lead in verdict.carried if lead.metric == "ece")
    assert ece.lead == pytest.approx(-0.05)  # two seeds agree on a bandwidth that is bad for the third
    assert "it has no such lead on the seed left out: it does not carry over" in verdict.sentence


def test_two_seeds_that_lead_by_chance_are_not_believed():
    """Leads of 1 and 3: mean 2 above spread sqrt(2), but t = 2 on one degree of freedom, where 5 % / 3 asks for 19."""
    verdict = judge_bandwidth([made_up({("both", 2.0): lead}) for lead in (0.001, 0.003)])
    ece = next(lead for lead in verdict.carried if lead.metric == "ece")
    assert ece.separated
    assert verdict.outcome == "not_repeated"
    assert "leads by 0.002 in ECE on the seed left out (spread 0.0014), no more than chance may give over 2 seeds" in (
        verdict.sentence
    )


def test_noise_is_seldom_said_to_carry_over():
    """Three methods that differ by noise alone, two seeds: 5 % of 40 cells and a margin; a bare spread lets 10 pass."""
    rng = np.random.default_rng(0)
    table = made_up({}).table
    separated = 0
    for _ in range(40):
        cell = []
        for _ in range(2):
            levels = {name: rng.normal(0.1, 0.01, len(JUDGED)) for name in ("nw_conf_routing", *CONTROLS)}
            noisy = np.stack([levels[name] for name in table["method"]]) + rng.normal(0, 0.003, (len(table), 3))
            drawn = table.assign(**dict(zip(JUDGED, noisy.T, strict=True)))
            cell.append(BandwidthCurves("run", "r_std", 10, 10, drawn, {}))
        separated += judge_bandwidth(cell).outcome == "separated"
    assert separated <= 4


def test_without_routing_there_is_nothing_to_set_apart():
    full = made_up({})
    controls = full.table[full.table["method"] != "nw_conf_routing"]
    lacking = BandwidthCurves("run", "r_std", 10, 10, controls, {"scott": 1.0})
    assert "lacks the spread" in judge_bandwidth([lacking], feature="the spread").sentence
    own = BandwidthCurves("run", "confidence", 10, 10, controls, {"scott": 1.0})
    verdict = judge_bandwidth([own], feature="confidence itself")
    assert verdict.outcome == "no_routing"
    assert "one of its own matched controls" in verdict.sentence
    assert verdict.largest() == []
    with pytest.raises(InvalidInput, match="curves"):
        judge_bandwidth([])


def test_seeds_that_cannot_be_compared_are_refused():
    whole = made_up({})
    controls = replace(whole, run_id="bare", table=whole.table[whole.table["method"] != "nw_conf_routing"])
    fewer = replace(whole, run_id="short", table=whole.table[whole.table["multiplier"] <= 2])
    for other in (controls, fewer):
        with pytest.raises(InvalidInput, match=other.run_id):
            judge_bandwidth([whole, other])
