"""Is there a better routing scalar? Every obvious one tried, and the price of having tried them all.

The best of m p-values is small by chance, so it is held against the same search on shuffled routing: among samples of
similar confidence (the primary test's own bins) whole routing rows change places, which keeps all that
the candidates have in common and cuts only their tie to correctness. To move the rows or to move the outcomes of a bin
pairs the two in the same way; moving outcomes leaves ranks, tertiles and bins of all candidates as they are, so each
candidate is prepared once for all shuffles.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from engine.controls.simulation import VERDICT, BatchTest, Layout, VerdictTest, chunks
from engine.core import validation
from engine.core.binning import equal_mass_bins
from engine.core.errors import InvalidInput, MissingData
from engine.core.pvalues import adjust_tested, monte_carlo_pvalue
from engine.core.types import BoolArray, FloatArray, IntArray, Progress, RunData, silent
from engine.features import CustomFeature, feature
from engine.gaps.settings import PAPER, TestSettings, matches_confidence, primary_bins
from engine.gaps.statistics.trend import trend_test

MOST_LAYERS = 100_000
SUMMARIES_SEARCHED = ("mean", "std", "max", "min", "range", "slope")
"""Over all layers; `first` and `last` are single layers, which are searched anyway."""


def search_candidates(n_layers: int) -> tuple[CustomFeature, ...]:
    """Every single layer and every summary over all layers, then the same times confidence: 2 (L + 6) scalars.

    A profile of one layer has nothing to summarise.
    """
    validation.whole("n_layers", n_layers, 1, MOST_LAYERS)
    every = tuple(range(1, n_layers + 1))
    plain = [CustomFeature((layer,), "mean") for layer in every]
    if n_layers > 1:
        plain += [CustomFeature(every, summary) for summary in SUMMARIES_SEARCHED]
    return (*plain, *(replace(candidate, times_confidence=True) for candidate in plain))


@dataclass(frozen=True, eq=False)
class SearchedTest:
    """What one test says of m candidates, on the data and on S shuffles.

    p_values : (m,) unadjusted, missing (NaN) where the test cannot run. shuffled : (S, m) the same on shuffled routing.
    """

    test: str
    p_values: FloatArray
    shuffled: FloatArray

    @property
    def n_tested(self) -> int:
        return int(np.isfinite(self.p_values).sum())

    @property
    def best(self) -> int | None:
        """Position of the candidate with the smallest p; None if none can be tested."""
        return int(np.nanargmin(self.p_values)) if self.n_tested else None

    @property
    def best_p(self) -> float | None:
        """The smallest p as it comes, which is too small for a p-value: it was picked."""
        return None if self.best is None else float(self.p_values[self.best])

    @cached_property
    def holm(self) -> FloatArray:
        """(m,) corrected for all that were tested; for the best one Holm's correction is Bonferroni's, m p."""
        return adjust_tested(self.p_values, "holm")

    @cached_property
    def shuffled_best(self) -> FloatArray:
        """(S,) smallest p of each search on shuffled routing: the reference distribution. Empty if none can be tested.

        What can be tested on the data can be tested on a shuffle, whose bins and groups are the same.
        """
        tested = np.isfinite(self.p_values)
        return self.shuffled[:, tested].min(axis=1) if tested.any() else np.empty(0)

    @property
    def n_as_good(self) -> int:
        """Shuffled searches whose best p is as small as the data's."""
        return 0 if self.search_p is None else round(self.search_p * (1 + self.shuffled_best.size)) - 1

    @property
    def search_p(self) -> float | None:
        """(1 + #{shuffled best <= best}) / (1 + S): the p-value of the search, however many scalars it tried."""
        return None if self.best_p is None else monte_carlo_pvalue(-self.best_p, -self.shuffled_best)

    def threshold(self, alpha: float = 0.05) -> float | None:
        """The p that a candidate must stay below for the search to reach alpha; None for too few shuffles to tell."""
        place = int(np.floor(alpha * (1 + self.shuffled_best.size) + 1e-9)) - 1
        return float(np.sort(self.shuffled_best)[place]) if 0 <= place < self.shuffled_best.size else None


@dataclass(frozen=True, eq=False)
class FeatureSearch:
    """The search over one run: candidates, both tests, and how it was made.

    effect : (m,) change of accuracy from the low to the high third of samples with similar confidence (`trend_test`).
    matched : whether there were bins enough to match confidence; otherwise neither test's search says anything.
    """

    candidates: tuple[CustomFeature, ...]
    tests: Mapping[str, SearchedTest]
    effect: FloatArray
    matched: bool
    n_shuffles: int
    seed: int

    @property
    def table(self) -> pd.DataFrame:
        """One row per candidate: label, effect, and of each test p and Holm's p."""
        columns: dict[str, object] = {"label": [candidate.label for candidate in self.candidates]}
        columns["effect"] = self.effect
        for name, test in self.tests.items():
            columns[name] = test.p_values
            columns[f"{name}_holm"] = test.holm
        return pd.DataFrame(columns)


def search_features(
    run: RunData,
    *,
    n_shuffles: int = 200,
    seed: int = 42,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> FeatureSearch:
    """Test every candidate of `search_candidates` by the paper's and the verdict's test, on the data and on shuffles.

    settings : of the paper's test. Raises `MissingData` for a run without a profile.
    The paper's p-values are those of `permutation_test` to 1e-5, and not below 8e-7, so that two that small are a tie,
    which counts against the find; the verdict's are those of `combined_test` on the data, and on shuffles with one
    Newton step from the data's fit of confidence.
    """
    validation.draws("n_shuffles", n_shuffles)
    validation.seed(seed)
    if run.n_layers == 0:
        raise MissingData("routing profile", "a search for a routing scalar", "choose a run with routing layers")
    if run.n_samples < 2:
        raise InvalidInput("run", "at least two samples", f"{run.n_samples}")
    confidence, correct = validation.confidence(run.confidence), validation.correct(run.correct)
    candidates = search_candidates(run.n_layers)
    values = [validation.vector("entropies", feature(run, candidate)) for candidate in candidates]
    report = progress or silent
    matching_bins = primary_bins(run.n_samples)
    bins = equal_mass_bins(confidence, matching_bins)
    report(0.0, "shuffling routing")
    # Outcomes take a byte each, an eighth of a number.
    validation.draws("n_shuffles", n_shuffles, width=max(run.n_samples // 8, 2 * len(candidates)))
    outcomes = _shuffled_outcomes(correct, bins, n_shuffles, seed)  # row 0 is the data
    preset = PAPER.over(settings.n_bins)
    found = {test: np.empty((len(outcomes), len(candidates))) for test in (PAPER.name, VERDICT)}
    for position, rho in enumerate(values):
        report((position + 1) / (len(values) + 1), f"scalar {position + 1} of {len(values)}")
        layout, order = Layout.of(confidence, rho, settings.quantiles)
        batches: dict[str, BatchTest | VerdictTest] = {
            PAPER.name: BatchTest(preset, layout, settings.min_support),
            VERDICT: VerdictTest(layout),
        }
        for test, batch in batches.items():
            parts = np.split(outcomes, np.cumsum(chunks(len(outcomes), batch.width))[:-1])
            summaries = [batch.summarise(part[:, order], correct[order].astype(float)) for part in parts]
            found[test][:, position] = batch.pvalues(np.concatenate(summaries))
    report(1.0, "done")
    tests = {test: SearchedTest(test, table[0], table[1:]) for test, table in found.items()}
    effect = np.array([trend_test(confidence, correct, rho).effect for rho in values], dtype=float)
    return FeatureSearch(candidates, tests, effect, matches_confidence(matching_bins), n_shuffles, seed)


def _shuffled_outcomes(correct: BoolArray, bins: IntArray, n_shuffles: int, seed: int) -> BoolArray:
    """(1 + S, n) the outcomes themselves, then shuffled inside each bin."""
    rng = np.random.default_rng(seed)
    outcomes = np.empty((1 + n_shuffles, correct.size), dtype=np.bool_)
    outcomes[0] = correct
    order = np.argsort(bins, kind="stable")
    for rows in np.split(order, np.cumsum(np.bincount(bins))[:-1]):
        outcomes[1:, rows] = rng.permuted(np.broadcast_to(correct[rows], (n_shuffles, rows.size)), axis=1)
    return outcomes
