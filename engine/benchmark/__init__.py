"""The calibration benchmark: one run, many seeds, and how sensitive its answer is."""

from engine.benchmark.bandwidth import BandwidthCurves, MatchedLab, bandwidth_sensitivity
from engine.benchmark.comparisons import (
    Leader,
    Scoreboard,
    aggregate_seeds,
    contrast_in_run,
    contrast_over_seeds,
    leader_in_run,
    leader_over_seeds,
    rank_one_counts,
    ranks,
    scoreboard,
    split_trials,
)
from engine.benchmark.run import BenchmarkResult, run_benchmark
from engine.benchmark.scores import HEADLINE, METRICS, Metric
from engine.benchmark.sensitivity import calibration_size_sensitivity, feature_ablation, size_curves, split_variance
from engine.benchmark.smoothing import Slices, Smoother
from engine.core.binning import split
