"""Nadaraya-Watson regression, its bandwidths, and the per-sample temperature that carries its result to the logits."""

from engine.kernel.bandwidth import scott_bandwidth, shrinkage, tertile_distance
from engine.kernel.regression import nw_regress
from engine.kernel.selection import BandwidthChoice, cv_nll_bandwidth
from engine.kernel.surface import Surface, nw_surface
from engine.kernel.temperature import TemperatureSolution, solve_temperature
