"""What Permutation null shows beside the verdict, computed once for all viewers."""

from collections.abc import Mapping

import pandas as pd

from app.compute.jobs import Work
from app.compute.keep import keep
from app.state.view import View
from engine.core.binning import MATCHINGS
from engine.core.types import Progress
from engine.gaps import STATISTICS, PermutationResult, match_diagnostic, permutation_test, primary_bins, trend_test
from engine.verdict.answers import VERDICT

_BIN_COUNTS = (5, 8, 10, 15, 20, 30, 50, 75, 100, 150, 200)


def permutation(view: View, statistic: str, method: str, n_permutations: int) -> Work[PermutationResult]:
    """The permutation test under the chosen protocol, equal-width bins; shuffling takes seconds."""
    settings = view.selection.protocol.test_settings.keywords
    drawn = {} if method == "exact" else {"n_permutations": n_permutations}

    def compute(progress: Progress) -> PermutationResult:
        return permutation_test(
            *view.samples, statistic=statistic, method=method, progress=progress, **drawn, **settings
        )

    def stored() -> PermutationResult | None:
        """The paper's test is a part of the verdict."""
        judged = view.stored(VERDICT)() if (statistic, method) == ("max_gap", "exact") else None
        return judged and judged.paper

    key = ("permutation", view.selection.alone, statistic, method, *drawn.values())
    return Work(key, view.kept_by, compute, stored)


def nulls(view: View, methods: Mapping[str, str]) -> Work[pd.DataFrame]:
    """Every statistic under every null that it has; shuffling takes seconds on a large run."""
    given, settings = view.samples, view.selection.protocol.test_settings.keywords
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

    return Work(("nulls", view.selection.alone), view.kept_by, compute)


def p_by_bins(view: View) -> Work[pd.DataFrame]:
    """p of the largest gap and of the trend against the number of bins, for both matchings."""
    given, settings = view.samples, view.selection.protocol.test_settings.keywords
    counts = [n_bins for n_bins in _BIN_COUNTS if 2 * n_bins <= given[0].size]
    matchings = [{"n_bins": n_bins, "matching": matching} for matching in MATCHINGS for n_bins in counts]

    def compute(progress: Progress) -> pd.DataFrame:
        rows = []
        for position, matched in enumerate(matchings):
            progress(position / len(matchings), "varying the number of bins")
            paper, primary = permutation_test(*given, **settings | matched), trend_test(*given, **matched)
            rows.append({**matched, "paper": paper.p_value, "primary": primary.p_value})
        return pd.DataFrame(rows, columns=["n_bins", "matching", "paper", "primary"])

    return Work(("p-by-bins", view.selection.alone), view.kept_by, compute)


@keep(max_entries=128, by=lambda view: view.selection.alone)
def match_quality(view: View) -> dict[str, str]:
    """Within-bin rank correlation of the feature with confidence, printed; the paper's bins and the primary ones."""
    confidence, _, rho = view.samples
    bins = {"equal_width": view.selection.protocol.n_bins, "equal_mass": primary_bins(confidence.size)}
    values = {m: match_diagnostic(confidence, rho, n_bins=n, matching=m) for m, n in bins.items()}
    return {m: "not defined" if value is None else f"{value:.3f}" for m, value in values.items()}
