"""The confidence alone, replaced by how often it is right: histogram, isotonic and Bayesian binning."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import gammaln

from engine.calibrators.base import Calibrator, Fitted, span
from engine.calibrators.samples import Samples, with_top_probability
from engine.core.binning import N_BINS, equal_width_bins
from engine.core.labels import counted
from engine.core.types import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedHistogram(Fitted):
    """The top probability becomes the accuracy of its confidence bin; an empty bin leaves it as it is."""

    accuracy: FloatArray
    count: IntArray

    def transform(self, samples: Samples) -> FloatArray:
        bins = equal_width_bins(samples.confidence, self.count.size)
        return with_top_probability(samples, np.where(self.count[bins] > 0, self.accuracy[bins], samples.confidence))

    @property
    def summary(self) -> str:
        filled = self.count > 0
        return f"accuracies {span(self.accuracy[filled])} in {filled.sum()} of {counted(self.count.size, 'bin')}"


class HistogramBinning(Calibrator):
    """Accuracy of 15 equal-width bins of c = max_k p_k; may flip the argmax where a bin's accuracy is low."""

    name = "hb"
    label = "Histogram binning"
    reference = "Zadrozny & Elkan 2001"
    keeps_argmax = False

    def fit_samples(self, samples: Samples) -> FittedHistogram:
        bins = equal_width_bins(samples.confidence, N_BINS)
        count = np.bincount(bins, minlength=N_BINS)
        hits = np.bincount(bins, samples.correct, N_BINS)
        return FittedHistogram(
            **self.about(samples), accuracy=np.divide(hits, count, out=np.zeros(N_BINS), where=count > 0), count=count
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedIsotonic(Fitted):
    """Linear interpolation between the knots, constant beyond them."""

    confidence: FloatArray
    value: FloatArray

    def transform(self, samples: Samples) -> FloatArray:
        return with_top_probability(samples, np.interp(samples.confidence, self.confidence, self.value))

    @property
    def summary(self) -> str:
        return f"{counted(int(np.unique(self.value).size), 'step')}, calibrated confidence {span(self.value)}"


class IsotonicCalibration(Calibrator):
    """The non-decreasing function of c with the least squared distance to t (pool adjacent violators)."""

    name = "isotonic"
    label = "Isotonic regression"
    reference = "Zadrozny & Elkan 2002"
    keeps_argmax = False

    def fit_samples(self, samples: Samples) -> FittedIsotonic:
        knots, position = np.unique(samples.confidence, return_inverse=True)
        count = np.bincount(position)
        mean = np.bincount(position, samples.correct) / count
        value = np.clip(isotonic_regression(mean, weights=count).x, 0.0, 1.0)
        # Inside a constant stretch only its two ends matter.
        flat = np.concatenate(([False], (value[1:-1] == value[:-2]) & (value[1:-1] == value[2:]), [False]))[
            : value.size
        ]
        return FittedIsotonic(**self.about(samples), confidence=knots[~flat], value=value[~flat])


RANGE_FACTOR = 10.0
"""C: numbers of bins tried run from n^(1/3) / C to C n^(1/3)."""
PRIOR_SAMPLES = 2.0
"""N': the equivalent sample size of the Beta priors, shared by the bins of a model."""
_PRIOR_MEAN_MARGIN = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedBBQ(Fitted):
    """The model average as one step function of the confidence.

    Attributes
    ----------
    edges : (e,) confidences where the function may jump, in increasing order.
    values : (e + 1,) calibrated confidence between them.
    n_bins, weight : number of bins and posterior weight of each model.
    """

    edges: FloatArray
    values: FloatArray
    n_bins: IntArray
    weight: FloatArray

    def transform(self, samples: Samples) -> FloatArray:
        return with_top_probability(samples, self.values[np.searchsorted(self.edges, samples.confidence, side="right")])

    @property
    def summary(self) -> str:
        best = int(self.n_bins[np.argmax(self.weight)])
        return (
            f"{counted(self.n_bins.size, 'binning')} averaged; the one with {counted(best, 'bin')} weighs most, "
            f"{float(self.n_bins @ self.weight):.1f} on average"
        )


class BayesianBinning(Calibrator):
    """Average over equal-mass binnings of c, weighted by their Bayesian score.

    A binning M into B equal-mass bins, with N_b samples and m_b hits in bin b, has the score
    P(M) prod_b [G(N'/B) / G(N_b + N'/B)] [G(m_b + a_b) / G(a_b)] [G(N_b - m_b + b_b) / G(b_b)], G the gamma function,
    a_b = p_b N'/B, b_b = (1 - p_b) N'/B, p_b the middle of bin b, N' = 2, P(M) uniform. Its estimate in bin b is the
    posterior mean (m_b + a_b) / (N_b + N'/B). Bins meet half-way between their outer samples; equal confidences stay
    together, and bins emptied by that are merged into their neighbour.
    """

    name = "bbq"
    label = "Bayesian binning (BBQ)"
    reference = "Naeini et al. 2015"
    keeps_argmax = False

    def fit_samples(self, samples: Samples) -> FittedBBQ:
        order = np.argsort(samples.confidence, kind="stable")
        edges, values, n_bins, weight = average_binnings(samples.confidence[order], samples.correct[order])
        return FittedBBQ(**self.about(samples), edges=edges, values=values, n_bins=n_bins, weight=weight)


def bin_numbers(n: int) -> IntArray:
    """Numbers of bins tried for n samples."""
    root = n ** (1 / 3)
    low = max(1, int(np.floor(root / RANGE_FACTOR)))
    return np.arange(low, max(low, min(n, int(np.ceil(root * RANGE_FACTOR)))) + 1)


def average_binnings(confidence: FloatArray, correct: BoolArray) -> tuple[FloatArray, FloatArray, IntArray, FloatArray]:
    """Edges and values of the averaged step function, bins and weight of each model; confidence is sorted."""
    n = confidence.size
    hits_before = np.concatenate(([0.0], np.cumsum(correct)))
    n_bins = bin_numbers(n)
    models = [_cut(confidence, int(number)) for number in n_bins]
    sizes = np.array([cut.size - 1 for cut in models])
    model = np.repeat(np.arange(sizes.size), sizes)
    start = np.concatenate([cut[:-1] for cut in models])
    stop = np.concatenate([cut[1:] for cut in models])
    # Midpoints between neighbouring samples bound the inner bins, 0 and 1 the outer ones.
    middle = np.concatenate(([0.0], 0.5 * (confidence[1:] + confidence[:-1]), [1.0]))
    centre = 0.5 * (middle[start] + middle[stop])
    prior_mean = np.clip(centre, _PRIOR_MEAN_MARGIN, 1 - _PRIOR_MEAN_MARGIN)
    strength = PRIOR_SAMPLES / sizes[model]
    count = (stop - start).astype(np.float64)
    hits = hits_before[stop] - hits_before[start]
    alpha, beta = prior_mean * strength, (1 - prior_mean) * strength
    log_score = (
        gammaln(strength) - gammaln(count + strength)
        + gammaln(hits + alpha) - gammaln(alpha)
        + gammaln(count - hits + beta) - gammaln(beta)
    )  # fmt: skip
    total = np.bincount(model, log_score)
    weight = np.exp(total - total.max())
    weight /= weight.sum()
    estimate = (hits + alpha) / (count + strength)

    # Each model is a step function; the average jumps by the weighted sum of their jumps.
    first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    inner = np.ones(model.size, dtype=np.bool_)
    inner[first] = False
    jump = np.zeros(model.size)
    jump[1:] = estimate[1:] - estimate[:-1]
    edges, position = np.unique(middle[start[inner]], return_inverse=True)
    jumps = np.bincount(position, (jump * weight[model])[inner], edges.size)
    values = float(weight @ estimate[first]) + np.concatenate(([0.0], np.cumsum(jumps)))
    return edges, np.clip(values, 0.0, 1.0), n_bins, weight


def _cut(confidence: FloatArray, n_bins: int) -> IntArray:
    """Positions 0 = s_0 < s_1 < ... = n of equal-mass cuts, moved up past samples of equal confidence."""
    n = confidence.size
    wanted = (np.arange(1, n_bins) * n) // n_bins
    after_ties = np.searchsorted(confidence, confidence[wanted - 1], side="right") if wanted.size else wanted
    inner = np.unique(after_ties)
    return np.concatenate(([0], inner[inner < n], [n]))
