"""Public names of the engine that the fuzz does not call, each with the reason."""

from __future__ import annotations

from engine import benchmark, calibrators, controls, features, gaps, importing, kernel, probes, store, verdict
from engine import paper as evidence
from engine.core import binning, errors, grouping, latex, pvalues, threads, types, validation
from engine.core import labels as wording
from engine.core import ranking as placing
from engine.features import search as feature_search
from engine.metrics import mechanism, reliability
from engine.paper import claims, published
from engine.sandbox import child as limited_child
from engine.sandbox import run as limited
from engine.verdict import bandwidth as verdict_bandwidth
from engine.verdict import benchmark as verdict_benchmark
from engine.verdict import cache as verdict_sweep
from engine.verdict import probes as verdict_probes

RESULT = "a result: functions return it, and the fuzz reads all its fields and properties there"
BEHIND = "behind the door: takes what another public function has checked, and is reached through it"
EXCEPTION = "an error, raised by what is fuzzed"
ABSTRACT = "an interface or a type alias; what implements it is fuzzed"
NO_INPUT = "takes nothing that a caller could get wrong"
WORDS = "puts numbers of a result, or text of a table, into words or LaTeX; fed by what is fuzzed, tested by hand"
FRAMES = "takes frames that other functions made over a whole cache; minutes a call, walked in tests/engine/paper"
PROCESS = "starts or is the limited child process; the import targets go through it"

REASONS: dict[str, tuple[object, ...]] = {
    RESULT: (
        benchmark.BandwidthCurves,
        benchmark.BandwidthPoint,
        benchmark.BenchmarkResult,
        benchmark.Leader,
        benchmark.Scoreboard,
        benchmark.Slices,
        benchmark.Metric,
        binning.Tertiles,
        calibrators.FittedKernel,
        calibrators.KernelPrediction,
        calibrators.Fitted,
        claims.Claim,
        claims.ClaimResult,
        gaps.Contingency,
        controls.FalseAlarms,
        controls.PowerCurve,
        evidence.Conclusion,
        evidence.Counterpart,
        evidence.Evidence,
        evidence.Reading,
        feature_search.SearchedTest,
        feature_search.FeatureSearch,
        features.Feature,
        gaps.BootstrapResult,
        gaps.GapResult,
        gaps.NullBand,
        gaps.NullDistribution,
        gaps.PermutationResult,
        gaps.Preset,
        gaps.StratifiedResult,
        grouping.QuantileGroups,
        importing.Table,
        importing.Limits,
        importing.ColumnMapping,
        importing.RunIdentity,
        kernel.BandwidthChoice,
        kernel.Surface,
        kernel.TemperatureSolution,
        latex.Block,
        limited.Allowance,
        mechanism.DepthProfile,
        mechanism.RankCorrelation,
        mechanism.OutcomeComparison,
        mechanism.ErrorRelation,
        mechanism.ReliabilityMap,
        mechanism.TrainingEntropy,
        probes.Contrast,
        probes.Descriptor,
        probes.Note,
        probes.ProbeResult,
        probes.ProbeSweep,
        probes.Reference,
        probes.RunSummary,
        published.PublishedTable,
        pvalues.SignTest,
        reliability.CalibrationSummary,
        store.PublishReport,
        verdict.Verdict,
        verdict_bandwidth.Lead,
        verdict_bandwidth.BandwidthVerdict,
        verdict_benchmark.BenchmarkVerdict,
        verdict_probes.ProbeVerdict,
        verdict_sweep.CacheVerdict,
        verdict_sweep.StabilityVerdict,
    ),
    BEHIND: (
        binning.histogram_edges,
        controls.cries_wolf,
        binning.equal_width_edges,
        binning.equal_width_bins,
        binning.equal_mass_sizes,
        binning.equal_mass_bins,
        binning.confidence_bins,
        binning.check_quantiles,
        binning.cut_points,
        binning.ranks_around,
        calibrators.Samples,
        controls.accuracy_given_confidence,
        controls.plant_gap,
        features.layer_mean,
        features.layer_std,
        features.layer_slope,
        features.layer_depths,
        grouping.quantile_groups,
        pvalues.monte_carlo_pvalue,
        pvalues.sign_test,
        types.RunData,
        validation.vector,
        validation.matrix,
        validation.confidence,
        validation.probabilities,
        validation.correct,
        validation.labels,
        validation.samples,
        validation.whole,
        validation.fraction,
        validation.choice,
        validation.real,
        validation.broadcast,
        validation.number,
        validation.names,
        validation.bins,
        validation.bins_of_groups,
        validation.draws,
        validation.seed,
        validation.shown,
    ),
    EXCEPTION: (
        errors.RouteCalError,
        errors.InvalidInput,
        errors.UnknownName,
        errors.MissingData,
        errors.CacheError,
        errors.NotACache,
        errors.SchemaMismatch,
        errors.CorruptShard,
        evidence.NoCounterpart,
        limited.LimitExceeded,
    ),
    ABSTRACT: (calibrators.Bandwidth, calibrators.Calibrator, calibrators.KernelCalibrator, claims.Outcome),
    NO_INPUT: (store.default_cache_path, store.default_shards_directory, threads.keep_blas_to_one_thread),
    WORDS: (
        wording.capital,
        wording.counted,
        wording.in_sentence,
        wording.listed,
        latex.escape,
        latex.number,
        latex.plus_minus,
        latex.bold,
        latex.underline,
        latex.mark_best,
        latex.render,
        placing.places,
        wording.format_p,
        verdict_sweep.could_have_seen,
    ),
    FRAMES: (
        evidence.build,
        evidence.cells_with_logits,
        evidence.compare,
        evidence.conclude,
        evidence.gather,
        evidence.single_runs,
        evidence.summarise,
        probes.audit_sweep,
    ),
    PROCESS: (limited.run_limited, limited.as_file, limited_child.limit, limited_child.describe, limited_child.work),
}
