"""The search over routing scalars: agrees with one test at a time, honest about its size, finds what is planted."""

from __future__ import annotations

import numpy as np
import pytest

from engine.core.binning import equal_mass_bins
from engine.core.errors import InvalidInput, MissingData
from engine.core.types import RunData
from engine.features import CustomFeature, feature
from engine.features.search import FeatureSearch, SearchedTest, _shuffled_outcomes, search_candidates, search_features
from engine.gaps import TestSettings, combined_test, permutation_test, primary_bins, trend_test
from engine.verdict.features import search_sentence


def made_up(seed: int, n: int = 1200, n_layers: int = 6, effect: float = 0.0, layer: int = 1) -> RunData:
    """Routing tied to confidence; correctness is drawn from confidence, plus the rank of one layer if asked for."""
    rng = np.random.default_rng(seed)
    confidence = rng.beta(4, 2, n)
    profile = np.clip(0.5 + 0.2 * confidence[:, None] + 0.1 * rng.normal(size=(n, n_layers)), 0, 1)
    shift = effect * (np.argsort(np.argsort(profile[:, layer - 1])) / n - 0.5)
    return RunData("made-up", confidence, rng.random(n) < confidence + shift, profile)


def test_candidates_by_hand():
    names = [candidate.name for candidate in search_candidates(2)]
    assert names[:2] == ["mean(H1)", "mean(H2)"]
    assert names[2:8] == [f"{summary}(H1,H2)" for summary in ("mean", "std", "max", "min", "range", "slope")]
    assert names[8:] == [f"{name}*c" for name in names[:8]]
    assert len(search_candidates(16)) == 2 * (16 + 6)
    assert [candidate.name for candidate in search_candidates(1)] == ["mean(H1)", "mean(H1)*c"]


def test_every_p_value_is_that_of_the_test_alone_on_data_and_shuffles():
    run = made_up(1, n=700, n_layers=3)
    search = search_features(run, n_shuffles=4, seed=5)
    outcomes = _shuffled_outcomes(run.correct, equal_mass_bins(run.confidence, primary_bins(700)), 4, 5)
    found = {name: np.vstack([test.p_values, test.shuffled]) for name, test in search.tests.items()}
    for position, candidate in enumerate(search.candidates):
        rho = feature(run, candidate)
        verdicts = [combined_test(run.confidence, correct, rho) for correct in outcomes]
        gaps = [permutation_test(run.confidence, correct, rho) for correct in outcomes]
        expected = np.array([verdict.p_value for verdict in verdicts])
        assert found["verdict"][0, position] == pytest.approx(expected[0], rel=1e-4)
        # One Newton step from the data's fit stands for each shuffle's own, which moves one of four parts a little.
        assert np.log(found["verdict"][:, position]) == pytest.approx(np.log(expected), abs=0.15)
        assert search.effect[position] == pytest.approx(verdicts[0].primary.effect)
        expected = np.array([gap.p_value for gap in gaps], dtype=float)  # None becomes NaN
        assert found["paper"][:, position] == pytest.approx(expected, abs=1e-5, nan_ok=True)
    assert np.isfinite(found["paper"]).any()


def test_settings_of_the_papers_test_are_passed_on():
    run = made_up(2, n=900, n_layers=2)
    settings = TestSettings(8, 12, (0.25, 0.75))
    search = search_features(run, n_shuffles=1, settings=settings)
    expected = [
        permutation_test(run.confidence, run.correct, feature(run, candidate), **settings.keywords).p_value
        for candidate in search.candidates
    ]
    found = search.tests["paper"].p_values
    assert found == pytest.approx(np.array(expected, dtype=float), abs=1e-5, nan_ok=True)


def test_shuffles_keep_what_each_bin_holds_and_shuffling_rows_is_shuffling_outcomes():
    run = made_up(3, n=500, n_layers=2)
    n_bins = primary_bins(500)
    bins = equal_mass_bins(run.confidence, n_bins)
    outcomes = _shuffled_outcomes(run.correct, bins, 20, 0)
    for b in range(n_bins):
        assert (outcomes[:, bins == b].sum(axis=1) == run.correct[bins == b].sum()).all()
    assert len({row.tobytes() for row in outcomes}) == 21
    # A permutation of outcomes and its inverse on the rows give the same trend.
    rng = np.random.default_rng(1)
    moved = np.arange(500)
    for b in range(n_bins):
        moved[bins == b] = rng.permutation(np.flatnonzero(bins == b))
    back = np.argsort(moved)
    rho = run.entropies[:, 0]
    of_outcomes = trend_test(run.confidence, run.correct[moved], rho)
    of_rows = trend_test(run.confidence, run.correct, rho[back])
    assert of_outcomes.p_value == pytest.approx(of_rows.p_value, rel=1e-9)


def test_search_p_by_hand():
    test = SearchedTest("verdict", np.array([0.2, np.nan, 0.02]), np.array([[0.5, np.nan, 0.02], [0.01, np.nan, 0.9],
                                                                            [0.3, np.nan, 0.4]]))  # fmt: skip
    assert (test.n_tested, test.best, test.best_p) == (2, 2, 0.02)
    assert test.shuffled_best.tolist() == [0.02, 0.01, 0.3]
    assert test.search_p == (1 + 2) / (1 + 3)
    assert test.n_as_good == 2
    assert test.holm == pytest.approx([0.2, np.nan, 0.04], nan_ok=True)
    assert test.threshold(0.5) == 0.02  # below it one shuffled search at most is as good: (1 + 1) / 4
    assert test.threshold(0.05) is None
    nothing = SearchedTest("paper", np.full(2, np.nan), np.full((3, 2), np.nan))
    assert (nothing.best, nothing.best_p, nothing.search_p, nothing.threshold()) == (None, None, None, None)


def test_the_same_seed_gives_the_same_search():
    run = made_up(4, n=400, n_layers=2)
    one, two, other = (search_features(run, n_shuffles=6, seed=seed) for seed in (1, 1, 2))
    for name in ("paper", "verdict"):
        assert np.array_equal(one.tests[name].shuffled, two.tests[name].shuffled, equal_nan=True)
    assert not np.array_equal(one.tests["verdict"].shuffled, other.tests["verdict"].shuffled)


def test_in_a_confidence_only_world_the_search_p_is_fair_and_the_best_p_is_not():
    """20 worlds: a fair test rejects 1 of them; 6 or more has a chance of 0.0003."""
    searches = [search_features(made_up(100 + seed, n=400, n_layers=3), n_shuffles=39) for seed in range(20)]
    for name in ("paper", "verdict"):
        fair = sum(search.tests[name].search_p <= 0.05 for search in searches)
        picked = sum(search.tests[name].best_p <= 0.05 for search in searches)
        assert fair <= 5, name
        assert picked >= 5, name
    verdict = np.array([search.tests["verdict"].search_p for search in searches])
    assert 0.25 < verdict.mean() < 0.75


def test_a_planted_effect_is_found_in_its_layer():
    run = made_up(7, n=4000, effect=0.35, layer=4)
    search = search_features(run, n_shuffles=99)
    verdict = search.tests["verdict"]
    assert search.candidates[verdict.best].layers == (4,)
    assert verdict.search_p == 0.01
    assert search.effect[3] > 0.1
    assert "more than such a search finds by chance" in search_sentence(search)
    assert "other seeds" in search_sentence(search)


def test_a_u_shape_that_no_trend_shows_is_found_in_its_layer():
    run = made_up(11, n=4000)
    rank = np.argsort(np.argsort(run.entropies[:, 2])) / run.n_samples
    rest = np.argsort(np.argsort(run.entropies[:, 2] - 0.2 * run.confidence)) / run.n_samples
    correct = np.random.default_rng(0).random(4000) < run.confidence + 0.6 * ((2 * rest - 1) ** 2 - 1 / 3)
    search = search_features(RunData("u", run.confidence, correct, run.entropies), n_shuffles=39)
    assert trend_test(run.confidence, correct, rank).p_value > 0.05
    verdict = search.tests["verdict"]
    assert search.candidates[verdict.best].layers == (3,)
    assert verdict.search_p == 1 / 40


def test_sentence_of_a_world_with_nothing_in_it():
    search = search_features(made_up(8), n_shuffles=50)
    verdict = search.tests["verdict"]
    assert verdict.search_p > 0.05
    sentence = search_sentence(search)
    assert f"Of {verdict.n_tested} scalars" in sentence
    assert search.candidates[verdict.best].label in sentence
    assert f"does as well in {verdict.n_as_good} of 50 tries" in sentence
    assert "no evidence beyond confidence" in sentence


def searched(verdict: float, paper: float, shuffled: list[float], *, matched: bool = True) -> FeatureSearch:
    """One candidate, with p-values made up; its shuffled searches are the same for both tests."""
    tests = {
        name: SearchedTest(name, np.array([p]), np.array(shuffled)[:, None])
        for name, p in (("paper", paper), ("verdict", verdict))
    }
    return FeatureSearch((CustomFeature((2,), "mean"),), tests, np.zeros(1), matched, len(shuffled), 0)


@pytest.mark.parametrize(
    ("verdict", "paper", "expected"),
    [
        (
            0.5,
            0.02,
            ["tries (search p = 0.25): no evidence beyond confidence.", "so the corrected p = 0.020 is no evidence"],
        ),
        (0.5, 0.001, ["no evidence beyond confidence by this test", "it describes, and trend and shape decide"]),
        (0.001, 0.001, ["more than such a search finds by chance", "which also exceeds chance"]),
        (0.001, 0.5, ["more than such a search finds by chance", "(search p = 0.25)."]),
    ],
)
def test_sentences_when_the_two_tests_agree_and_when_not(verdict: float, paper: float, expected: list[str]):
    """39 shuffled searches, 9 of them at 0.01: as good as anything but 0.001."""
    sentence = search_sentence(searched(verdict, paper, [0.01] * 9 + [0.9] * 30))
    assert all(part in sentence for part in expected), sentence


@pytest.mark.parametrize("verdict", [0.5, 0.001])
def test_without_matching_neither_test_is_read(verdict: float):
    sentence = search_sentence(searched(verdict, 0.001, [0.01] * 9 + [0.9] * 30, matched=False))
    assert "finer" not in sentence
    assert "exceeds chance" not in sentence
    assert sentence.endswith("With too few samples to match confidence this says nothing about routing.")


def test_what_cannot_be_tested():
    run = made_up(9, n=300, n_layers=2)
    constant = RunData("c", run.confidence, run.correct, np.ones((300, 2)))
    search = search_features(constant, n_shuffles=5)
    assert search.tests["verdict"].n_tested == 5  # two layers, mean, max and min times confidence; all else is constant
    right = RunData("r", run.confidence, np.ones(300, dtype=bool), run.entropies)
    assert "Nothing can be said" in search_sentence(search_features(right, n_shuffles=5))
    few = RunData("f", run.confidence[:60], run.correct[:60], run.entropies[:60])
    assert "too few samples to match confidence" in search_sentence(search_features(few, n_shuffles=5))
    with pytest.raises(MissingData, match="routing profile"):
        search_features(RunData("n", run.confidence, run.correct, np.empty((300, 0))))
    with pytest.raises(InvalidInput, match="n_shuffles"):
        search_features(run, n_shuffles=0)
    large = RunData("l", np.full(10_000, 0.5), np.arange(10_000) % 2 == 0, np.ones((10_000, 1)))
    with pytest.raises(InvalidInput, match="n_shuffles: expected at most 80,000"):  # each of 10,000 bytes
        search_features(large, n_shuffles=100_000)


def test_progress_runs_to_the_end():
    shares: list[float] = []
    search_features(made_up(10, n=300, n_layers=2), n_shuffles=2, progress=lambda share, _: shares.append(share))
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("candidate", "label"),
    [
        (CustomFeature((5,), "mean"), "routing entropy of layer 5"),
        (CustomFeature((2, 5), "last"), "routing entropy of layer 5"),
        (CustomFeature((4, 2, 3, 1, 7), "std"), "spread of routing entropy over layers 1 to 4, 7"),
        (CustomFeature((3,), "std"), "spread of routing entropy over layer 3"),
        (CustomFeature((1, 2), "slope", True), "slope of routing entropy over layers 1, 2, times confidence"),
    ],
)
def test_labels(candidate: CustomFeature, label: str):
    assert candidate.label == label
