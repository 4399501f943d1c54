"""The shape test: its parts against closed forms and statsmodels, and what each part is there for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import chi2, chi2_contingency, rankdata

from engine.core.errors import InvalidInput
from engine.core.pvalues import cauchy_combination
from engine.gaps.shape import BinnedScores, ShapeDesign, chi_square_pvalues, logistic_fit, shape_test, spline_columns
from engine.gaps.statistics.cmh import cmh_moments
from engine.gaps.statistics.trend import trend_test
from tests.bench.size_and_power import network

REFERENCE = Path(__file__).parents[2] / "reference"


def draw(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 2, n)
    return confidence, rng.random(n) < confidence, rng.normal(size=n)


def test_cauchy_combination_by_hand():
    # tan(0.49 pi) = 31.82, tan(0) = 0: the mean 15.91 has the upper tail 1/2 - arctan(15.91) / pi = 0.01998
    assert cauchy_combination(np.array([0.01, 0.5])) == pytest.approx(0.5 - np.arctan(np.tan(0.49 * np.pi) / 2) / np.pi)
    assert cauchy_combination(np.array([0.2, 0.2, 0.2])) == pytest.approx(0.2)
    assert cauchy_combination(np.array([1e-40, 0.5])) == pytest.approx(2e-40)  # half the weight, so twice the p-value


def test_one_bin_of_groups_is_pearson_times_n_minus_one_over_n():
    rng = np.random.default_rng(1)
    group, correct = rng.integers(0, 4, 60), rng.random(60) < 0.6
    part = BinnedScores.of(np.zeros(60, dtype=np.int64), 1, (group[:, None] == np.arange(1, 4)).astype(float))
    p = part.pvalues(correct[None].astype(float), np.array([[correct.sum()]]), None)
    pearson = chi2_contingency(np.histogram2d(group, correct, bins=(4, 2))[0], correction=False).statistic
    assert p[0] == pytest.approx(chi2.sf(pearson * 59 / 60, 3))


@pytest.mark.parametrize("world", ["two", "two_effect", "five", "five_effect", "five_sparse"])
def test_groups_equal_rs_mantelhaen_test(world: str):
    """Figures of R's own, stored with the script that made them."""
    figures = pd.read_csv(REFERENCE / "mantelhaen.csv", index_col="world").loc[world]
    cells = pd.read_csv(REFERENCE / "mantelhaen_tables.csv").query("world == @world")
    rows = cells.loc[cells.index.repeat(cells["right"] + cells["wrong"])]
    correct = (rows.groupby(["bin", "group"]).cumcount() < rows["right"]).to_numpy()
    bins, n_bins = rows["bin"].to_numpy() - 1, int(cells["bin"].max())
    n_groups = int(figures["df"]) + 1
    part = BinnedScores.of(
        bins, n_bins, (rows["group"].to_numpy()[:, None] == np.arange(2, n_groups + 1)).astype(float)
    )
    n_correct = np.bincount(bins[correct], minlength=n_bins)[None]
    assert part.pvalues(correct[None].astype(float), n_correct, None)[0] == pytest.approx(figures["p_value"], rel=1e-9)
    if n_groups == 2:
        low, high = (cells.query("group == @group") for group in (1, 2))
        sizes = [(group["right"] + group["wrong"]).to_numpy() for group in (low, high)]
        mean, variance = cmh_moments(*sizes, (low["right"].to_numpy() + high["right"].to_numpy()))
        statistic = (low["right"].to_numpy() - mean).sum() ** 2 / variance.sum()
        assert statistic == pytest.approx(figures["statistic"], rel=1e-12)


def test_one_column_of_ranks_is_the_trend():
    confidence, correct, rho = draw(1000)
    design = ShapeDesign(confidence, rho)
    part = BinnedScores.of(design.bins, design.n_bins, rankdata(rho)[:, None])
    n_correct = np.bincount(design.bins[correct], minlength=design.n_bins)[None]
    assert part.pvalues(correct[None].astype(float), n_correct, None)[0] == pytest.approx(
        trend_test(confidence, correct, rho, n_bins=design.n_bins).p_value
    )


def test_chi_square_of_a_singular_covariance_counts_its_rank():
    covariance = np.array([[[4.0, 4.0], [4.0, 4.0]]])
    assert chi_square_pvalues(np.array([[2.0, 2.0]]), covariance)[0] == pytest.approx(chi2.sf(1.0, 1))
    assert np.isnan(chi_square_pvalues(np.zeros((1, 2)), np.zeros((1, 2, 2)))[0])


def test_splines_sum_to_one():
    columns = spline_columns(np.linspace(0.001, 0.999, 50))
    assert columns.shape == (50, 10)
    assert columns.sum(axis=1) == pytest.approx(np.ones(50))


def test_spline_part_equals_the_score_test_of_statsmodels():
    confidence, _, rho = draw(3000)
    correct = np.random.default_rng(4).random(3000) < 0.3 + 0.4 * confidence  # every bin holds both outcomes
    design = ShapeDesign(confidence, rho)
    smooth = sm.GLM(correct.astype(float), design.model, family=sm.families.Binomial()).fit()
    assert logistic_fit(design.model, correct.astype(float), ridge=1e-9) == pytest.approx(smooth.fittedvalues, abs=1e-5)
    levels = np.column_stack([np.eye(design.n_bins)[design.bins], design.model])
    model = sm.GLM(correct.astype(float), levels, family=sm.families.Binomial()).fit()
    p = float(np.squeeze(model.score_test(design._tested)[1]))
    assert design.pvalues(correct[None], model.fittedvalues)["spline"][0] == pytest.approx(p, abs=2e-3)
    assert design.pvalues(correct[None], smooth.fittedvalues)["spline"][0] == pytest.approx(p, abs=0.05)


def test_a_jump_of_accuracy_in_confidence_is_not_taken_for_an_effect():
    """Splines cannot follow the jump, and entropy follows what they leave: without bins 14 in 100 reject."""
    rng = np.random.default_rng(2)
    probabilities = network(50_000, rng)
    confidence = probabilities.max(axis=1)
    accuracy = np.where(confidence > 0.8, 0.95, 0.45)
    design = ShapeDesign(confidence, -(probabilities * np.log(probabilities)).sum(axis=1))
    fitted = logistic_fit(design.model, accuracy)
    drawn = [design.pvalues(rng.random((50, confidence.size)) < accuracy, fitted)["spline"] for _ in range(6)]
    assert (np.concatenate(drawn) <= 0.05).mean() <= 0.09  # of a sound test in 998 of 1,000 tries


def test_many_outcomes_at_once_equal_one_at_a_time():
    confidence, _, rho = draw(800)
    design = ShapeDesign(confidence, rho)
    outcomes = np.random.default_rng(3).random((5, 800)) < confidence
    together = design.pvalues(outcomes, confidence)
    for row in range(5):
        alone = design.pvalues(outcomes[row : row + 1], confidence)
        assert {name: p[row] for name, p in together.items()} == pytest.approx({n: p[0] for n, p in alone.items()})


def test_single_clusters_change_little_and_copies_change_nothing():
    confidence, correct, rho = draw(800)
    alone = shape_test(confidence, correct, rho)
    single = shape_test(confidence, correct, rho, clusters=np.arange(800))
    assert single.parts["spline"] == pytest.approx(alone.parts["spline"], abs=0.1)
    # Every sample three times over is no more evidence than once, if the copies are one cluster.
    copied = [np.repeat(values, 3) for values in (confidence, correct, rho)]
    clustered = shape_test(*copied, clusters=np.repeat(np.arange(800), 3))
    assert clustered.parts["spline"] == pytest.approx(single.parts["spline"], abs=0.05)


@pytest.mark.parametrize(
    ("shape", "part"),
    [
        (lambda r, _: (r - 0.5) ** 2 - 1 / 12, "groups"),
        (lambda r, c: (r - 0.5) * np.sign(c - np.median(c)), "weighted"),
    ],
    ids=["U-shape", "opposite signs"],
)
def test_finds_what_the_trend_misses(shape, part):
    confidence, _, rho = draw(6000, 5)
    rank = rankdata(rho) / rho.size
    effect = shape(rank, confidence)
    correct = np.random.default_rng(6).random(6000) < np.clip(0.5 + 0.35 * effect / np.abs(effect).max(), 0, 1)
    assert trend_test(confidence, correct, rho).p_value > 0.05
    found = shape_test(confidence, correct, rho)
    assert found.parts[part] < 1e-4
    assert found.p_value < 1e-3


def test_any_monotone_scale_of_rho_gives_the_same():
    confidence, correct, rho = draw(500)
    assert shape_test(confidence, correct, np.exp(rho)).parts == shape_test(confidence, correct, rho).parts


def test_nothing_to_test():
    confidence, _, rho = draw(200)
    found = shape_test(confidence, np.ones(200, dtype=bool), rho)
    assert found.parts["groups"] is None
    with pytest.raises(InvalidInput, match="clusters"):
        shape_test(confidence, np.ones(200, dtype=bool), rho, clusters=[1, 2])
