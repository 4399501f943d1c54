"""All calibrators on one run: fitted on one half, judged on the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import norm

from engine.benchmark.scores import (
    BOOTSTRAPPED,
    COUNTS_PER_BLOCK,
    METRICS,
    Sums,
    all_scores,
    paired_changes,
    predict,
    resample_counts,
)
from engine.benchmark.setup import REFERENCE, ROUTING, TERTILE_FEATURE, check_methods, halve, make_calibrator
from engine.calibrators import CALIBRATORS, Bandwidth, Fitted
from engine.core import validation
from engine.core.binning import LEVEL, SPLIT_SEED, Matching
from engine.core.labels import counted
from engine.core.types import BEHIND, BoolArray, FloatArray, Progress, RunData, silent
from engine.features import CustomFeature
from engine.metrics.debiased import DebiasedEce, debiased_difference, debiased_ece

N_BOOTSTRAP = 500
Clipping = tuple[str, str, float, float, int]
_BINS_OF: dict[str, Matching] = {"ece": "equal_width", "adaptive_ece": "equal_mass"}
_PERCENTILES = ("nll", "brier", "accuracy", "delta_nll", "delta_brier", "delta_accuracy")


@dataclass(frozen=True, eq=False)
class BenchmarkResult:
    """The benchmark of one run.

    Attributes
    ----------
    scores : tidy frame, one row per method and metric: run_id, method, metric, value, debiased, ci_low, ci_high. The
        95 % interval is of `debiased` for ECE and AdaECE (`debiased_ece`), of percentiles of the bootstrap for NLL,
        Brier, accuracy and their changes, and NaN for the others, of which none is known to cover.
    fitted : each method as fitted. learnt : one row per method: method, label, learnt (a phrase), keeps_prediction,
        converged, note (or empty); a kernel method's phrase also tells how many of its targets no temperature reached.
    confidence, correct : by method, (n_eval,) top-label confidence and correctness on the evaluated half.
    clipping : one row per kernel method: shares of targets clipped at either end, number of tied samples.
    bootstrap : by method and metric, the (n_bootstrap,) resampled values. errors : by metric, (m, m) the standard
        deviation over resamples of each method, on the diagonal, and of differences of two, above it, in their order.
    skipped : methods left out, with the reason.
    """

    run_id: str
    scores: pd.DataFrame
    fitted: Mapping[str, Fitted] = field(metadata=BEHIND)
    learnt: pd.DataFrame
    confidence: Mapping[str, FloatArray] = field(metadata=BEHIND)
    correct: Mapping[str, BoolArray] = field(metadata=BEHIND)
    clipping: pd.DataFrame
    bootstrap: Mapping[str, Mapping[str, FloatArray]] = field(metadata=BEHIND)
    errors: Mapping[str, FloatArray]
    skipped: Mapping[str, str]
    feature: str
    tertile_feature: str | None
    bandwidth: Bandwidth
    n_calibration: int
    n_evaluation: int
    n_bootstrap: int
    seed: int
    notes: tuple[str, ...] = field(default=())

    @property
    def methods(self) -> list[str]:
        """Those that were fitted, in order."""
        return self.learnt["method"].tolist()

    def error(self, method: str, other: str, metric: str) -> float:
        """The standard error of the difference between two methods in one of `BOOTSTRAPPED`."""
        return float(self.errors[metric][*sorted((self.methods.index(method), self.methods.index(other)))])

    def correlation(self, one: str, other: str, metric: str) -> float:
        """Of two methods over the resamples: (s_1^2 + s_2^2 - s_12^2) / (2 s_1 s_2), s_12 that of the difference."""
        first, second = (self.error(name, name, metric) for name in (one, other))
        both = first**2 + second**2 - self.error(one, other, metric) ** 2
        return both / (2 * first * second) if first * second > 0 else 0.0

    def difference(self, metric: str, one: str, other: str, level: float) -> DebiasedEce:
        """`one` minus `other` on the same evaluated samples, with an interval of this level.

        The debiased difference for ECE (`debiased_difference`); a normal interval with the standard deviation over the
        shared resamples for means over samples; NaN ends for the others, of which no interval is known to cover.
        """
        values = self.table()[metric]
        value, reach, quantile = float(values[one] - values[other]), np.nan, float(norm.ppf((1 + level) / 2))
        if metric in BOOTSTRAPPED:
            reach = quantile * self.error(one, other, metric)
        if metric == "ece" and reach > 0:
            rows = self.scores[self.scores["metric"] == metric].set_index("method")
            ends = rows[["debiased", "ci_low", "ci_high"]].astype(float).loc[[one, other]].to_numpy()
            first, second = (DebiasedEce(*each) for each in ends)
            found = debiased_difference(first, second, self.correlation(one, other, metric))
            wider = quantile / float(norm.ppf((1 + LEVEL) / 2))
            down, up = (wider * (found.estimate - found.low), wider * (found.high - found.estimate))
            return DebiasedEce(found.estimate, found.estimate - down, found.estimate + up)
        return DebiasedEce(value, value - reach, value + reach)

    def table(self) -> pd.DataFrame:
        """Methods in rows, metrics in columns."""
        wide = self.scores.pivot_table(index="method", columns="metric", values="value", dropna=False)
        return wide.reindex(index=self.methods, columns=list(METRICS)).rename_axis(columns=None)


def run_benchmark(
    run: RunData,
    methods: Sequence[str] = tuple(CALIBRATORS),
    *,
    feature: str | CustomFeature = TERTILE_FEATURE,
    bandwidth: Bandwidth = 1.0,
    n_bootstrap: int = N_BOOTSTRAP,
    seed: int = SPLIT_SEED,
    progress: Progress | None = None,
) -> BenchmarkResult:
    """Fit every method on the calibration half and score it on the other (protocol, section 5).

    Parameters
    ----------
    run : with logits and labels. methods : keys of `CALIBRATORS`; `none` is always added.
    feature : rho of `nw_conf_routing`, which is left out with a note for a run that lacks it. Worst-tertile ECE cuts
        r_std whatever the feature (the feature itself for a run without a routing profile).
    bandwidth : multiple of Scott's bandwidth, one per axis, or "cv_nll".
    n_bootstrap : resamples of the evaluated half for 95 % intervals and paired differences; 0 for neither.
    seed : of the split and of the bootstrap.
    """
    names = check_methods(methods)
    validation.draws("n_bootstrap", n_bootstrap, 0)
    halves = halve(run, feature, seed)
    report = progress or silent
    skipped = {}
    if halves.feature_note and ROUTING in names:
        skipped[ROUTING] = halves.feature_note
        names.remove(ROUTING)
    fitted: dict[str, Fitted] = {}
    scores: dict[str, dict[str, float]] = {}
    sums: dict[str, Sums] = {}
    confidence: dict[str, FloatArray] = {}
    correct: dict[str, BoolArray] = {}
    clipping: list[Clipping] = []
    share = 0.5 if n_bootstrap else 1.0
    for position, name in enumerate(names):
        report(share * position / len(names), f"fitting {CALIBRATORS[name].label}")
        fitted[name] = make_calibrator(name, halves.feature_name, bandwidth).fit_samples(halves.calibration)
        prediction, solution = predict(fitted[name], halves.evaluation)
        scores[name] = all_scores(prediction, halves.evaluation, halves.tertile_rho)
        scores[name] |= paired_changes(scores[name], scores[REFERENCE])
        confidence[name], correct[name] = prediction.confidence, prediction.correct
        if solution is not None:
            clipping.append((run.run_id, name, solution.clip_rate_low, solution.clip_rate_high, solution.n_tied))
        if n_bootstrap:
            sums[name] = Sums.of(prediction, halves.evaluation.known_labels)
    resampled = _bootstrap(sums, halves.evaluation.n_samples, n_bootstrap, seed, report) if n_bootstrap else {}
    report(1.0, "done")
    return BenchmarkResult(
        run_id=run.run_id,
        scores=_tidy(run.run_id, scores, resampled, confidence, correct),
        fitted=fitted,
        learnt=learnt_table(fitted, clipping),
        confidence=confidence,
        correct=correct,
        clipping=pd.DataFrame(clipping, columns=["run_id", "method", "clipped_low", "clipped_high", "n_tied"]),
        bootstrap=resampled,
        errors=paired_errors(resampled),
        skipped=skipped,
        feature=halves.feature_name,
        tertile_feature=halves.tertile_feature,
        bandwidth=bandwidth,
        n_calibration=halves.calibration.n_samples,
        n_evaluation=halves.evaluation.n_samples,
        n_bootstrap=n_bootstrap,
        seed=seed,
        notes=tuple(f"{CALIBRATORS[name].label}: {fit.note}" for name, fit in fitted.items() if fit.note),
    )


def _bootstrap(
    sums: Mapping[str, Sums], n: int, n_resamples: int, seed: int, report: Progress
) -> dict[str, dict[str, FloatArray]]:
    """Resampled metrics by method; all methods see the same resamples, so their differences are paired."""
    rng = np.random.default_rng(seed)
    parts: dict[str, dict[str, list[FloatArray]]] = {name: {metric: [] for metric in BOOTSTRAPPED} for name in sums}
    per_block = max(1, COUNTS_PER_BLOCK // n)
    for start in range(0, n_resamples, per_block):
        counts = resample_counts(n, min(per_block, n_resamples - start), rng)
        for position, (name, table) in enumerate(sums.items()):
            report(0.5 + 0.5 * (start + len(counts) * position / len(sums)) / n_resamples, "bootstrap")
            for metric, values in table.metrics(counts).items():
                parts[name][metric].append(values)
    resampled = {
        name: {metric: np.concatenate(values) for metric, values in by_metric.items()}
        for name, by_metric in parts.items()
    }
    for by_metric in resampled.values():
        for metric in ("nll", "brier", "accuracy"):
            by_metric[f"delta_{metric}"] = by_metric[metric] - resampled[REFERENCE][metric]
    return resampled


def _tidy(
    run_id: str,
    scores: Mapping[str, Mapping[str, float]],
    resampled: Mapping[str, Mapping[str, FloatArray]],
    confidence: Mapping[str, FloatArray],
    correct: Mapping[str, BoolArray],
) -> pd.DataFrame:
    rows = []
    for method, by_metric in scores.items():
        for metric in METRICS:
            debiased, low, high = np.nan, np.nan, np.nan
            if resampled and metric in _BINS_OF:
                found = debiased_ece(confidence[method], correct[method], matching=_BINS_OF[metric])
                debiased, low, high = found.estimate, found.low, found.high
            elif resampled and metric in _PERCENTILES:
                low, high = np.quantile(resampled[method][metric], [0.025, 0.975])
            rows.append((run_id, method, metric, by_metric[metric], debiased, float(low), float(high)))
    return pd.DataFrame(rows, columns=["run_id", "method", "metric", "value", "debiased", "ci_low", "ci_high"])


def learnt_table(fitted: Mapping[str, Fitted], clipping: Sequence[Clipping]) -> pd.DataFrame:
    """`BenchmarkResult.learnt`."""
    rows, clipped = [], {row[1]: row[2:] for row in clipping}
    for method, fit in fitted.items():
        learnt = fit.summary
        if method in clipped:
            low, high, tied = clipped[method]
            learnt += f"; targets clipped: {100 * low:.1f} % at the low end, {100 * high:.1f} % at the high end"
            learnt += f"; {counted(round(tied), 'sample')} with tied top logits left alone" if tied else ""
        kind = CALIBRATORS[method]
        rows.append((method, kind.label, learnt, kind.keeps_argmax, fit.converged, fit.note))
    return pd.DataFrame(rows, columns=["method", "label", "learnt", "keeps_prediction", "converged", "note"])


def paired_errors(resampled: Mapping[str, Mapping[str, FloatArray]]) -> dict[str, FloatArray]:
    """`BenchmarkResult.errors`."""
    if not resampled:
        return {}
    draws = {metric: np.stack([by_metric[metric] for by_metric in resampled.values()]) for metric in BOOTSTRAPPED}
    return {
        metric: np.triu(np.stack([(each - one).std(axis=1, ddof=1) for one in each]))
        + np.diag(each.std(axis=1, ddof=1))
        for metric, each in draws.items()
    }
