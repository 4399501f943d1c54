"""Does accuracy depend on rho at matched confidence? Gaps, nulls, intervals and stratified tests."""

from engine.core.contingency import Contingency, tabulate
from engine.core.pvalues import adjust_pvalues
from engine.gaps.bootstrap import BootstrapResult, bootstrap_gap, bootstrap_gap_of_counts
from engine.gaps.bound import EffectBound, effect_bound
from engine.gaps.combined import CombinedResult, combine, combined_test
from engine.gaps.deciles import DecileEffect, effect_by_decile
from engine.gaps.exact import NullDistribution
from engine.gaps.gain import Gain, routing_gain
from engine.gaps.gap import GapResult, gap_of_counts, matched_gap
from engine.gaps.ladder import Rung, ladder_test
from engine.gaps.permutation import NullBand, PermutationResult, permutation_test, permutation_test_of_counts
from engine.gaps.settings import PAPER, PRIMARY, Preset, TestSettings, primary_bins
from engine.gaps.shape import ShapeResult, shape_test
from engine.gaps.statistics import STATISTICS, TESTS
from engine.gaps.statistics.cmh import cmh_test
from engine.gaps.statistics.trend import match_diagnostic, trend_test
from engine.gaps.statistics.weighted_gap import weighted_gap_test
from engine.gaps.stratified import StratifiedResult
