"""What the engine says about a selection, computed once for all viewers. Objects are shared: do not change them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping

import numpy as np
import pandas as pd

from app.compute.jobs import awaited
from app.compute.keep import keep
from app.state.selection import Selection
from app.state.simulations import N_WORLDS
from app.state.view import View
from engine.core.binning import MATCHINGS, histogram_edges
from engine.core.types import BoolArray, FloatArray, IntArray, Progress
from engine.gaps import (
    STATISTICS,
    PermutationResult,
    audited_bins,
    match_diagnostic,
    permutation_test,
    trend_test,
)
from engine.verdict import Verdict, judge
from engine.verdict.features import judge_scores


def samples(view: View) -> tuple[FloatArray, BoolArray, FloatArray]:
    """Confidence, correctness and feature of a view whose feature exists."""
    if view.rho is None:
        raise ValueError("the page must check view.missing first")
    return view.run.confidence, view.run.correct, view.rho


def verdict(view: View, n_worlds: int = N_WORLDS) -> Verdict:
    """Both tests with their controls, and the sentence."""
    given, label, settings = samples(view), view.feature_label, view.selection.protocol.test_settings

    def compute(progress: Progress) -> Verdict:
        return judge(*given, feature=label, n_replicates=n_worlds, progress=progress, settings=settings)

    return awaited(("verdict", view.selection.alone, n_worlds), compute)


def permutation_work(
    view: View, statistic: str, method: str, n_permutations: int
) -> tuple[Hashable, Callable[[Progress], PermutationResult]]:
    """The permutation test under the chosen protocol, equal-width bins, for `long_work`: shuffling takes seconds."""
    given, settings = samples(view), view.selection.protocol.test_settings.keywords
    drawn = {} if method == "exact" else {"n_permutations": n_permutations}

    def compute(progress: Progress) -> PermutationResult:
        return permutation_test(*given, statistic=statistic, method=method, progress=progress, **drawn, **settings)

    return ("permutation", view.selection.alone, statistic, method, *drawn.values()), compute


def nulls_work(view: View, methods: Mapping[str, str]) -> tuple[Hashable, Callable[[Progress], pd.DataFrame]]:
    """Every statistic under every null that it has, for `long_work`: shuffling takes seconds on a large run."""
    given, settings = samples(view), view.selection.protocol.test_settings.keywords
    pairs = [(one, method) for one in STATISTICS.values() for method in methods if method in one.methods]

    def compute(progress: Progress) -> pd.DataFrame:
        rows = []

        def part(done: int, name: str) -> Progress:
            return lambda share, _text: progress((done + share) / len(pairs), name)

        for position, (statistic, method) in enumerate(pairs):
            name = f"{statistic.label}, {methods[method]}"
            progress(position / len(pairs), name)
            test = permutation_test(
                *given, statistic=statistic.name, method=method, progress=part(position, name), **settings
            )
            named = {"statistic": statistic.label, "method": methods[method]}
            rows.append({**named, "observed": test.observed, "p": test.p_value})
        return pd.DataFrame(rows)

    return ("nulls", view.selection.alone), compute


@keep(max_entries=16, show_spinner="Testing every score")
def _scores(selection: Selection, _view: View) -> pd.DataFrame:
    return judge_scores(_view.run_with_logits, settings=selection.protocol.test_settings)


def scores(view: View) -> pd.DataFrame:
    """Both tests on every feature of the chosen samples, whatever feature is chosen."""
    return _scores(view.selection.of_any_feature, view)


_BARS = 60
_BIN_COUNTS = (5, 8, 10, 15, 20, 30, 50, 75, 100, 150, 200)


def p_by_bins_work(view: View) -> tuple[Hashable, Callable[[Progress], pd.DataFrame]]:
    """p of the largest gap and of the trend against the number of bins, for both matchings, for `long_work`."""
    given, settings = samples(view), view.selection.protocol.test_settings.keywords
    counts = [n_bins for n_bins in _BIN_COUNTS if 2 * n_bins <= given[0].size]
    matchings = [{"n_bins": n_bins, "matching": matching} for matching in MATCHINGS for n_bins in counts]

    def compute(progress: Progress) -> pd.DataFrame:
        rows = []
        for position, matched in enumerate(matchings):
            progress(position / len(matchings), "matching more and less finely")
            paper, audited = permutation_test(*given, **settings | matched), trend_test(*given, **matched)
            rows.append({**matched, "paper": paper.p_value, "audited": audited.p_value})
        return pd.DataFrame(rows, columns=["n_bins", "matching", "paper", "audited"])

    return ("p-by-bins", view.selection.alone), compute


def feature_histogram(view: View) -> tuple[IntArray, FloatArray]:
    """Counts and edges of the feature's distribution."""
    _, _, rho = samples(view)
    edges = histogram_edges(rho, _BARS)
    return np.histogram(rho, edges)[0], edges


@keep(max_entries=128)
def _match_quality(selection: Selection, _view: View) -> dict[str, str]:
    confidence, _, rho = samples(_view)
    bins = {"equal_width": selection.protocol.n_bins, "equal_mass": audited_bins(confidence.size)}
    values = {m: match_diagnostic(confidence, rho, n_bins=n, matching=m) for m, n in bins.items()}
    return {m: "not defined" if value is None else f"{value:.3f}" for m, value in values.items()}


def match_quality(view: View) -> dict[str, str]:
    """Within-bin rank correlation of the feature with confidence, printed; the paper's bins and the audited ones."""
    return _match_quality(view.selection, view)
