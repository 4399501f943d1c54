"""The registered test statistics, and the named tests made of them.

Every module of this folder is imported, and every class in it that has a `name` is registered: a new statistic is one
file, and stands on the Permutation page, in the controls and in their table.
"""

import importlib
import pkgutil

from engine.core.binning import N_BINS
from engine.gaps.settings import PAPER, PRIMARY, Preset
from engine.gaps.statistics.base import REGISTERED, CountStatistic, Method, Partition, Permuted, Statistic

__all__ = ["STATISTICS", "TESTS", "CountStatistic", "Method", "Partition", "Permuted", "Statistic"]

_ORDER = ("max_gap", "weighted_gap", "cmh", "trend")
"""The paper's first; others follow."""

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

STATISTICS: dict[str, Statistic] = {
    statistic.name: statistic()
    for statistic in sorted(REGISTERED, key=lambda each: (*_ORDER, each.name).index(each.name))
}


def _named_tests() -> dict[str, Preset]:
    """The two that verdicts rest on, then every other statistic over the paper's bins, then over the primary ones."""
    tests = [PAPER, PRIMARY]
    for one in STATISTICS.values():
        if one.name != PAPER.statistic:
            short = one.name.removesuffix("_gap")
            tests.append(Preset(f"paper_{short}", f"{one.label}, {N_BINS} bins", one.name, PAPER.matching, N_BINS))
    for one in STATISTICS.values():
        if one.fine and one.name != PRIMARY.statistic:
            short = one.name.removesuffix("_gap")
            tests.append(Preset(f"primary_{short}", f"{one.label}, fine bins", one.name, PRIMARY.matching, None))
    return {preset.name: preset for preset in tests}


TESTS: dict[str, Preset] = _named_tests()
