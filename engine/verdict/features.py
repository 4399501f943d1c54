"""What features say: the verdict's and the paper's test on each, and the sentences about a search for a better one."""

from collections.abc import Iterable

import pandas as pd

from engine.controls import VERDICT
from engine.core.labels import counted, format_p
from engine.core.pvalues import adjust_tested
from engine.core.types import Progress, RunData
from engine.features import FEATURES, available_features, feature
from engine.features.search import FeatureSearch, SearchedTest
from engine.gaps import PermutationResult, StratifiedResult, combined_test, permutation_test
from engine.gaps.settings import TestSettings
from engine.verdict.wording import OTHER_SEEDS


def score_row(paper: PermutationResult, p_value: float | None, primary: StratifiedResult) -> dict[str, float | None]:
    """What tables show of the paper's and the verdict's test; the latter's p only where confidence is matched."""
    return {
        "max_gap": paper.observed,
        "paper_p": paper.p_value,
        "verdict_p": p_value if primary.matched else None,
    }


def judge_scores(
    run: RunData,
    names: Iterable[str] | None = None,
    *,
    settings: TestSettings = TestSettings(),
    progress: Progress | None = None,
) -> pd.DataFrame:
    """One row per feature: name, label, max_gap; paper_p, verdict_p and each with `_holm`.

    names : None for all that the run has but confidence itself. Holm's correction is over the features asked for, for
    each test by itself; what cannot be tested is NaN, and so is the verdict's where there are too few samples to match
    confidence.
    """
    asked = [name for name in available_features(run) if name != "confidence"] if names is None else list(names)
    rows = []
    for position, name in enumerate(asked):
        label = FEATURES[name].label if name in FEATURES else name
        if progress is not None:
            progress(position / len(asked), f"testing {label}")
        rho = feature(run, name)
        paper = permutation_test(run.confidence, run.correct, rho, **settings.keywords)
        tested = combined_test(run.confidence, run.correct, rho, clusters=run.clusters)
        rows.append({"name": name, "label": label, **score_row(paper, tested.p_value, tested.primary)})
    table = pd.DataFrame(rows, columns=["name", "label", "max_gap", "paper_p", "verdict_p"])
    table = table.astype(dict.fromkeys(("max_gap", "paper_p", "verdict_p"), "float64"))
    for test in ("paper", "verdict"):
        table[f"{test}_p_holm"] = adjust_tested(table[f"{test}_p"].to_numpy(), "holm")
    return table


def _best(search: FeatureSearch, test: SearchedTest) -> str:
    """`routing entropy of layer 5 (p = 0.010)`."""
    if test.best is None or test.best_p is None:
        raise ValueError("nothing was tested")
    return f"{search.candidates[test.best].label} ({format_p(test.best_p)})"


def _chance(test: SearchedTest) -> str:
    """`does as well in 68 of 200 tries (search p = 0.34)`."""
    if test.search_p is None:
        raise ValueError("nothing was tested")
    return f"does as well in {test.n_as_good} of {test.shuffled_best.size} tries (search {format_p(test.search_p)})"


def search_sentence(search: FeatureSearch, *, alpha: float = 0.05) -> str:
    """Best scalar of the verdict's test and how often shuffled routing does as well; then the paper's test, briefly."""
    verdict, paper = search.tests[VERDICT], search.tests["paper"]
    if verdict.search_p is None:
        return (
            f"None of {len(search.candidates)} scalars can be tested: no confidence bin in which both correctness and "
            "routing vary. Nothing can be said about this run."
        )
    scalars = counted(verdict.n_tested, "scalar")
    opening = (
        f"Of {scalars} the best by trend and shape is {_best(search, verdict)}; a search of this "
        f"size on shuffled routing {_chance(verdict)}"
    )
    second = _paper_sentence(search, paper, alpha)
    if not search.matched:
        return f"{opening}.{second} With too few samples to match confidence this says nothing about routing."
    if verdict.search_p > alpha:
        agrees = paper.search_p is None or paper.search_p > alpha
        reading = "no evidence beyond confidence" if agrees else "no evidence beyond confidence by this test"
        return f"{opening}: {reading}.{second}"
    return f"{opening}: more than such a search finds by chance in this run; {OTHER_SEEDS}.{second}"


def _paper_sentence(search: FeatureSearch, paper: SearchedTest, alpha: float) -> str:
    if paper.search_p is None or paper.best is None:
        return " The paper's test can be run on none of them."
    verdict = search.tests[VERDICT]
    some = "" if paper.n_tested == verdict.n_tested else f", which can run on {paper.n_tested} of them,"
    found = f" By the paper's test{some} it is {_best(search, paper)}, and shuffled routing {_chance(paper)}"
    if paper.search_p > alpha:
        corrected = paper.holm[paper.best]
        return f"{found}." if corrected > alpha else f"{found}, so the corrected {format_p(corrected)} is no evidence."
    if not search.matched:
        return f"{found}."
    if verdict.search_p is not None and verdict.search_p <= alpha:
        return f"{found}, which also exceeds chance."
    return f"{found}; it describes, and trend and shape decide."
