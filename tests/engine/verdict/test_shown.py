"""A verdict outside the dashboard: as HTML with a chip and a figure, as one flat row, as LaTeX."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest

from engine.core.notebook import Interval, Shown, answered, intervals
from engine.core.types import RunData
from engine.gaps import permutation_test
from engine.gaps.settings import TestSettings
from engine.sweep.diagnosing import diagnose_run
from engine.verdict import Verdict, judge
from engine.verdict.shown import STATES, named_rows

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def samples() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Accuracy falls with rho at the same confidence; the logits know confidence alone."""
    rng = np.random.default_rng(0)
    confidence, rho = rng.uniform(0.5, 1, 2000), rng.random(2000)
    right = rng.random(2000) < confidence - 0.4 * (rho - 0.5)
    return confidence, right, rho, np.log(np.column_stack([confidence, 1 - confidence]))


@pytest.fixture(scope="module")
def verdict(samples) -> Verdict:
    confidence, right, rho, outputs = samples
    return judge(confidence, right, rho, feature="r < 1 & more", outputs=outputs, controls=False)


def test_the_row_is_plain_and_has_the_sweeps_names_and_values(verdict: Verdict, samples):
    row = verdict.to_dict()
    assert json.loads(json.dumps(row)) == row
    assert not pd.DataFrame([row, row]).map(lambda value: isinstance(value, (list, dict))).any(axis=None)
    confidence, right, rho, _ = samples
    swept = diagnose_run(RunData("one", confidence=confidence, correct=right, entropies=rho[:, None]))
    same = ("p_value", "primary_p", "shape_p", "primary_effect", "max_gap", "paper_p")
    assert [row[name] for name in same] == pytest.approx([swept[name] for name in same])
    assert (row["effect_low"], row["effect_high"]) == (verdict.bound.low, verdict.bound.high)
    assert (row["rung_1_p"], row["rung_3_effect"]) == (verdict.ladder[1].p_value, verdict.ladder[3].effect)
    assert row["false_alarm_rate"] is None


def test_html_has_chip_answer_and_every_rung_on_one_scale(verdict: Verdict):
    shown = verdict._repr_html_()
    assert "● evidence" in shown
    assert f"<strong>{verdict.answer}.</strong>" in shown
    assert "r &lt; 1 &amp; more" in answered("evidence", "r < 1 & more", "")
    drawing = ElementTree.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + 6])
    points = [float(point.get("cx")) for point in drawing.iter(f"{SVG}circle")]
    effects = [rung.effect for rung in verdict.ladder]
    assert len(points) == 4
    assert np.argsort(points).tolist() == np.argsort(effects).tolist()


def test_an_interval_is_drawn_to_scale():
    # from -1 to 3 over 270 px: 250 + 20 + (value + 1) * 67.5
    drawing = ElementTree.fromstring(intervals([Interval("a < b", -1.0, 1.0, 3.0)], "units"))
    (point,) = drawing.iter(f"{SVG}circle")
    zero, line = drawing.iter(f"{SVG}path")
    assert float(point.get("cx")) == 270 + 2 * 67.5
    assert zero.get("d").startswith("M337.5 ")
    assert line.get("d") == "M270.0 18H540.0"
    assert [text.text for text in drawing.iter(f"{SVG}text")] == ["a < b", "−1.000", "+3.000", "units"]


def test_what_cannot_be_tested_has_no_figure_and_dashes():
    nothing = judge(np.full(40, 0.7), np.ones(40, dtype=bool), np.arange(40.0), controls=False)
    shown = nothing._repr_html_()
    assert nothing.outcome == "untestable"
    assert "? cannot tell" in shown
    assert "<svg" not in shown
    assert dict(named_rows(nothing))["The primary trend test"] == "–"
    assert nothing.to_dict()["primary_effect"] is None


def test_latex_says_what_the_rows_say(verdict: Verdict):
    text = verdict.to_latex()
    assert text.count(r"\\") == len(named_rows(verdict)) + 1
    assert r"\toprule" in text
    assert verdict.answer in text


def test_every_outcome_has_a_mark(verdict: Verdict):
    for outcome in ("evidence", "no_evidence", "unreliable", "untestable"):
        assert STATES[outcome] in replace(verdict, outcome=outcome)._repr_html_().replace(" ", "_")


def test_a_result_is_a_table_of_its_fields(samples):
    gap = permutation_test(*samples[:3]).gap
    assert isinstance(gap, Shown)
    shown = gap._repr_html_()
    assert shown.startswith("<strong>GapResult</strong><table>")
    assert all(f">{entry.name}</td>" in shown for entry in fields(gap))
    assert f">{gap.max_gap:.4g}</td>" in shown
    assert TestSettings().n_bins == gap.n_bins
