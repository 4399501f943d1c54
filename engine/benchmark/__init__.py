"""The calibration benchmark: one run, many seeds, and how sensitive its answer is."""

from engine.benchmark.ablation import feature_ablation
from engine.benchmark.aggregate import aggregate_seeds, rank_one_counts, ranks, split_trials
from engine.benchmark.bandwidth import BandwidthLab, BandwidthPoint, bandwidth_sensitivity
from engine.benchmark.contrasts import contrast_in_run, contrast_over_seeds
from engine.benchmark.leaders import Leader, leader_in_run, leader_over_seeds
from engine.benchmark.learnt import learnt_table
from engine.benchmark.matched import BandwidthCurves, MatchedLab
from engine.benchmark.run import BenchmarkResult, run_benchmark
from engine.benchmark.scoreboard import Scoreboard, scoreboard
from engine.benchmark.scores import HEADLINE, METRICS, Metric
from engine.benchmark.sensitivity import calibration_size_sensitivity, size_curves, split_variance
from engine.benchmark.smoothing import Slices, Smoother
from engine.core.splitting import split

__all__ = [
    "HEADLINE",
    "METRICS",
    "BandwidthCurves",
    "BandwidthLab",
    "BandwidthPoint",
    "BenchmarkResult",
    "Leader",
    "MatchedLab",
    "Metric",
    "Scoreboard",
    "Slices",
    "Smoother",
    "aggregate_seeds",
    "bandwidth_sensitivity",
    "calibration_size_sensitivity",
    "contrast_in_run",
    "contrast_over_seeds",
    "feature_ablation",
    "leader_in_run",
    "leader_over_seeds",
    "learnt_table",
    "rank_one_counts",
    "ranks",
    "run_benchmark",
    "scoreboard",
    "size_curves",
    "split",
    "split_trials",
    "split_variance",
]
