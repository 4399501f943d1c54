"""The checks that the paper made on runs of another pipeline, as studies of any run.

Routing against the norm of the logits and against random numbers, what routing adds to a calibrator that knows that
norm, and Block-AR against Full-AR on the same samples.
"""

import numpy as np

from engine import metrics
from engine.benchmark.setup import halve
from engine.calibrators.samples import Samples, softmax_of_gaps
from engine.core.binning import N_BINS, equal_width_bins, split, tertiles
from engine.core.types import FloatArray, IntArray, RunData
from engine.features import feature
from engine.gaps.settings import MIN_SUPPORT
from engine.gaps.statistics.trend import trend_test
from engine.kernel import nw_regress, scott_bandwidth
from engine.kernel.selection import KERNEL_DIMENSION
from engine.kernel.temperature import solve_gaps
from engine.sweep import DEFAULT_FEATURE

N_RESAMPLES = 500
_CELLS = N_BINS * 3 * 2


def logit_norm(run: RunData) -> FloatArray:
    """(n,) ||z||_2."""
    norm: FloatArray = np.linalg.norm(np.asarray(run.logits, dtype=np.float64), axis=1)
    return norm


def against_noise(run: RunData) -> dict[str, float]:
    """z of the primary trend test for mean routing entropy, for the logit norm and for random numbers (NaN: untested).

    A random feature's z is standard normal, so a z beyond 1.96 lies outside of its 95 % band.
    """
    candidates = {
        "routing": feature(run, DEFAULT_FEATURE),
        "norm": logit_norm(run),
        "random": np.random.default_rng([*run.run_id.encode()]).normal(size=run.n_samples),
    }
    found = {name: trend_test(run.confidence, run.correct, rho) for name, rho in candidates.items()}
    return {f"{name}_z": np.nan if test.z is None or not test.matched else test.z for name, test in found.items()}


def _kernel_scores(calibration: Samples, evaluation: Samples, second: tuple[FloatArray, FloatArray]) -> FloatArray:
    """ECE, NLL and Brier of the kernel calibrator on confidence and further (n, k) columns, given for both halves.

    Scott's rule with m = 2 whatever k, as in the paper's family: only the regressors change.
    """
    known, asked = (
        np.column_stack([half.confidence, columns])
        for half, columns in zip((calibration, evaluation), second, strict=True)
    )
    bandwidth = scott_bandwidth(known, dimension=KERNEL_DIMENSION)
    wanted = nw_regress(known, calibration.correct.astype(np.float64), asked, bandwidth)
    probabilities = softmax_of_gaps(evaluation.gaps, 1 / solve_gaps(evaluation.gaps, wanted).temperature)
    top = probabilities[np.arange(evaluation.n_samples), evaluation.top].clip(max=1.0)
    labels = evaluation.known_labels
    return np.array([
        metrics.ece(top, evaluation.correct), metrics.nll(probabilities, labels), metrics.brier(probabilities, labels)
    ])  # fmt: skip


def lift_over_norm(run: RunData) -> dict[str, float]:
    """What mean routing entropy adds to the kernel calibrator on confidence and the logit norm, on the evaluated half.

    Gains of ECE, NLL and Brier: without routing minus with it, so positive where routing helps.
    """
    halves, rows = halve(run), split(run.n_samples)
    columns = np.column_stack([logit_norm(run), feature(run, DEFAULT_FEATURE)])
    without, added = (
        _kernel_scores(halves.calibration, halves.evaluation, (columns[rows[0], :k], columns[rows[1], :k]))
        for k in (1, 2)
    )
    return dict(zip(("gain_ece", "gain_nll", "gain_brier"), (without - added).tolist(), strict=True))


def _cells_of(run: RunData) -> IntArray:
    """(n,) the cell of each sample: confidence bin, tertile of mean routing entropy, wrong or correct."""
    groups = tertiles(feature(run, DEFAULT_FEATURE)).index
    cells: IntArray = (equal_width_bins(run.confidence) * 3 + groups) * 2 + run.correct
    return cells


def _signed_gaps(counts: FloatArray) -> FloatArray:
    """(r,) sum_b w_b (acc_low - acc_high) / sum_b w_b, w_b = min(n_low, n_high) of at least 5, of (r, cells) counts."""
    table = counts.reshape(-1, N_BINS, 3, 2)[:, :, [0, 2], :]
    sizes = table.sum(axis=3)
    weights = np.where(sizes.min(axis=2) >= MIN_SUPPORT, sizes.min(axis=2), 0)
    accuracy = table[..., 1] / np.maximum(sizes, 1)
    total = weights.sum(axis=1)
    sums = (weights * (accuracy[..., 0] - accuracy[..., 1])).sum(axis=1)
    return np.divide(sums, total, out=np.full(total.shape, np.nan), where=total > 0)


def block_against_full(block: RunData, full: RunData, seed: int = 42) -> dict[str, float]:
    """|g_block| - |g_full| of the signed weighted gap g of two runs on the same samples, and its bootstrap error.

    Samples are drawn again for both runs at once, cuts and bins fixed: the counts over pairs of cells are then one
    multinomial draw. A sum of absolute gaps would instead put the run with the noisier bins ahead.
    """
    pairs, sizes = np.unique(_cells_of(block) * _CELLS + _cells_of(full), return_counts=True)
    drawn = np.random.default_rng(seed).multinomial(sizes.sum(), sizes / sizes.sum(), size=N_RESAMPLES)
    gaps = []
    for cells in (pairs // _CELLS, pairs % _CELLS):
        members = np.eye(_CELLS)[cells]
        gaps.append(_signed_gaps(np.vstack([sizes, drawn]).astype(np.float64) @ members))
    difference = np.abs(gaps[0]) - np.abs(gaps[1])
    return {"difference": float(difference[0]), "error": float(np.nanstd(difference[1:], ddof=1))}
