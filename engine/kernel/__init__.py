"""Nadaraya-Watson regression, its bandwidths, and the per-sample temperature that carries its result to the logits."""

from engine.kernel.bandwidth import scott_bandwidth, shrinkage, tertile_distance
from engine.kernel.regression import Surface, nw_regress, nw_surface
from engine.kernel.selection import BandwidthChoice, cv_nll_bandwidth
from engine.kernel.temperature import TemperatureSolution, solve_temperature
