"""What a test's answer is worth, by its controls."""

from __future__ import annotations

import numpy as np
import pytest

from engine.controls import SIMULATED, false_alarm_rate, planted_outcome, power_curve
from engine.controls.table import controls_table, reading
from engine.core.errors import InvalidInput
from engine.gaps import TestSettings, combined_test, matched_gap, permutation_test, trend_test


@pytest.mark.parametrize(
    ("p", "alarm", "detectable", "words"),
    [
        (None, 0.05, 0.1, "could not be run"),
        (0.01, 0.9, 0.1, "no evidence"),
        (0.5, 0.9, 0.1, "does not reject; false-alarm rate high (90.0 %)"),
        (0.01, 0.05, 0.1, "rejects; false-alarm rate acceptable (5.0 %)"),
        (0.5, 0.05, None, "no gap tried has 80 % power"),
        (0.5, 0.05, 0.123, "does not reject; detects 0.12"),
    ],
)
def test_reading(p, alarm, detectable, words):
    assert words in reading(p, alarm, alarm > 0.5, detectable, 0.05)


def test_table_holds_the_engines_numbers():
    rng = np.random.default_rng(0)
    confidence, rho = rng.beta(4, 1.2, 2000), rng.normal(size=2000)
    correct = rng.random(2000) < confidence
    alarms = false_alarm_rate(confidence, correct, rho, n_replicates=40)
    power = power_curve(confidence, correct, rho, tests=SIMULATED, deltas=(0.0, 0.3), n_replicates=20)
    table = controls_table(confidence, correct, rho, alarms, power).set_index("test")
    assert list(table.index) == list(SIMULATED)
    assert table.loc["verdict", "p"] == combined_test(confidence, correct, rho).p_value
    assert table.loc["paper", "p"] == permutation_test(confidence, correct, rho).p_value
    assert table.loc["primary", "p"] == trend_test(confidence, correct, rho).p_value
    assert table.loc["primary", "false_alarm"] == alarms.rate("primary")


def test_planted_outcome_holds_the_gap_and_shares_its_noise():
    rng = np.random.default_rng(1)
    confidence, rho = rng.uniform(0.4, 0.8, 30_000), rng.normal(size=30_000)
    correct = rng.random(30_000) < confidence
    none, some = (planted_outcome(confidence, correct, rho, delta, seed=3) for delta in (0.0, 0.1))
    assert matched_gap(confidence, some, rho).signed_gap == pytest.approx(0.1, abs=0.02)
    assert matched_gap(confidence, none, rho).signed_gap == pytest.approx(0.0, abs=0.02)
    assert (none != some).mean() < 0.05
    with pytest.raises(InvalidInput, match="delta"):
        planted_outcome(confidence, correct, rho, 1.5)


def test_table_uses_the_settings_of_the_controls():
    rng = np.random.default_rng(1)
    confidence, rho = rng.beta(4, 1.2, 600), rng.normal(size=600)
    correct = rng.random(600) < confidence
    settings = TestSettings(7, 12, (0.2, 0.8))
    alarms = false_alarm_rate(confidence, correct, rho, n_replicates=10, settings=settings)
    power = power_curve(
        confidence, correct, rho, tests=SIMULATED, deltas=(0.0, 0.3), n_replicates=10, settings=settings
    )
    table = controls_table(confidence, correct, rho, alarms, power, settings=settings).set_index("test")
    assert table.loc["paper", "p"] == permutation_test(confidence, correct, rho, **settings.keywords).p_value
    assert table.loc["paper", "p"] != permutation_test(confidence, correct, rho).p_value
    assert table.loc["primary", "p"] == trend_test(confidence, correct, rho).p_value
